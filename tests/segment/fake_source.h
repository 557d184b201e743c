/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A source as a user could write one, over addresses that nobody dereferences:
 * lowest first, so that what was released comes back at the same place. It can
 * be told to misbehave, and knows at any time what it has out.
 */
#ifndef MOIETY_TESTS_SEGMENT_FAKE_SOURCE_H_
#define MOIETY_TESTS_SEGMENT_FAKE_SOURCE_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "moiety/source.h"

namespace segment_test
{

constexpr uint64_t kMiB = UINT64_C(1) << 20;
constexpr uint64_t kGiB = UINT64_C(1) << 30;

class FakeSource
{
  public:
    FakeSource();

    // The table, whose context is this object.
    moiety_source Table();

    // What it has out: address and bytes.
    std::multimap<uint64_t, uint64_t> Live();
    // Sizes of all successful and failed calls of reserve, in order.
    std::vector<uint64_t> Asked();
    // "" or what the pool did wrong: a release of what is not out, an overlap
    // while it was on its best behaviour.
    std::string Complaint();

    // Settings, changed while no call is under way.
    uint64_t capacity_bytes = UINT64_MAX; // more is exhausted
    uint64_t first_address = UINT64_C(1) << 40;
    uint64_t misaligned_bytes = 0; // added to every address
    // The next reserve returns this address, whatever is there; once.
    bool has_forced = false;
    uint64_t forced_address = 0;
    // The n-th call from now on, counted from 1, fails so; 0: none.
    unsigned failing_reserve = 0;
    unsigned failing_release = 0;
    moiety_status failure = MOIETY_E_DRIVER;
    // Called within reserve, no lock held.
    void (*in_reserve)(void *) = nullptr;
    void *in_reserve_argument = nullptr;

    uint32_t flags = 0;
    size_t granularity_bytes = 0;

  private:
    static moiety_status Reserve(void *self, size_t size_bytes,
                                 moiety_devptr *out);
    static moiety_status Release(void *self, moiety_devptr address,
                                 size_t size_bytes);
    uint64_t FindLocked(uint64_t size_bytes) const;
    moiety_status ReserveLocked(uint64_t size_bytes, moiety_devptr *out);

    std::mutex lock_;
    std::multimap<uint64_t, uint64_t> live_;
    uint64_t live_bytes_ = 0;
    std::vector<uint64_t> asked_;
    std::string complaint_;
};

} // namespace segment_test

#endif
