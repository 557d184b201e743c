/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the stand-in holds and how this thread stands with it, for tests that let
 * something fail and then ask for what is left.
 */
#ifndef MOIETY_TESTS_POOL_INVENTORY_H_
#define MOIETY_TESTS_POOL_INVENTORY_H_

#include <cstdint>

namespace pool_test
{

class Inventory
{
  public:
    Inventory();
    // Expects what there was at the last look, or at the construction, and looks
    // anew. An event or a stream may be left if its destruction was refused:
    // then there were as many destructions as creations.
    // `refusals`: calls that the driver may have refused.
    void ExpectUnchanged(int refusals = 1);

  private:
    void Look();

    int64_t allocations_, host_, events_, streams_, contexts_, imports_;
    uint64_t event_calls_, stream_calls_; // creations less destructions
};

} // namespace pool_test

#endif
