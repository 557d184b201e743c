/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A source of pinned memory on the stand-in, and what must be the same before
 * and after it.
 */
#ifndef MOIETY_TESTS_HOST_PINNED_UNDER_TEST_H_
#define MOIETY_TESTS_HOST_PINNED_UNDER_TEST_H_

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "moiety/host.h"
#include "tests/pool/pool_under_test.h"
#include "tests/support/pinned_probe.h"
#include "tests/support/tools/failing_steps.h"

namespace host_test
{

using pool_test::kMiB;

class Pinned
{
  public:
    explicit Pinned(uint32_t flags = 0, uint32_t thread_count = 2,
                    moiety_context context = pool_test::PrimaryContext());
    ~Pinned();
    Pinned(const Pinned &) = delete;
    Pinned &operator=(const Pinned &) = delete;
    operator pinned_probe *() const
    {
        return own_;
    }

    moiety_status Reserve(uint64_t size_bytes, moiety_devptr *out);
    moiety_status Release(moiety_devptr address, uint64_t size_bytes);
    // What must succeed; 0 otherwise.
    moiety_devptr Reserve(uint64_t size_bytes);
    moiety_host_stats Stats();
    std::string Reason();

  private:
    pinned_probe *own_;
};

// Of pinned memory, as the driver sees it.
unsigned FlagsOf(moiety_devptr address);

// At its end nothing is mapped, registered or injected that was not before.
class PinnedTest : public ::testing::Test
{
  protected:
    static void SetUpTestSuite();
    void SetUp() override;
    void TearDown() override;

  private:
    int64_t mapped_bytes_ = 0;
    int64_t host_count_ = 0;
};

} // namespace host_test

#endif
