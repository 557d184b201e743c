// SPDX-License-Identifier: Apache-2.0
//
// Every allocation of host memory that arenas and pins make fails once: then
// nothing is left pinned, and the next call works.
#include "tests/host/arena_under_test.h"
#include "tests/host/pages_under_test.h"
#include "tests/support/tools/failing_memory.h"

namespace host_test
{
namespace
{

constexpr unsigned kTooMany = 2000; // allocations that nothing here makes

class HostMemoryFault : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }
    void SetUp() override
    {
        before_ = pool_test::Live("host");
    }
    void TearDown() override
    {
        EXPECT_EQ(before_, pool_test::Live("host"));
    }

  private:
    int64_t before_ = 0;
};

TEST_F(HostMemoryFault, OfAnArena)
{
    unsigned refused = 0;
    for (unsigned n = 1; n < kTooMany; n++) {
        moiety_host_options options = Tight();
        moiety_host *host = nullptr;
        void *block = nullptr;
        failing_memory_arm(n);
        moiety_status status = moiety_host_create(&options, &host);
        if (status == MOIETY_OK)
            status = moiety_host_alloc(host, 5000, MOIETY_HOST_CPU, &block);
        bool was_enough = failing_memory_disarm();
        EXPECT_EQ(status == MOIETY_OK, block != nullptr) << n;
        refused += status != MOIETY_OK;
        if (block) {
            EXPECT_OK(moiety_host_free(host, block, MOIETY_STREAM_DONE));
        }
        EXPECT_OK(moiety_host_destroy(host, nullptr)) << n;
        if (was_enough) {
            EXPECT_GT(refused, 5u);
            return;
        }
    }
    FAIL() << "it never was enough";
}

TEST_F(HostMemoryFault, OfAPin)
{
    Pages pages(8);
    ASSERT_OK(pages.Pin(3, 1));
    for (unsigned n = 1; n < kTooMany; n++) {
        failing_memory_arm(n);
        moiety_status status = pages.Pin(0, 8);
        bool was_enough = failing_memory_disarm();
        if (status == MOIETY_OK) {
            EXPECT_OK(pages.Unpin(0, 8));
        } else {
            EXPECT_EQ(MOIETY_E_NO_HOST_MEMORY, status);
            EXPECT_FALSE(pages.IsPinned(0)) << n;
        }
        EXPECT_TRUE(pages.IsPinned(3));
        if (was_enough) {
            EXPECT_EQ(4u, n) << "a range, and both sides of what is pinned";
            EXPECT_OK(pages.Unpin(3, 1));
            return;
        }
    }
    FAIL() << "it never was enough";
}

} // namespace
} // namespace host_test
