// SPDX-License-Identifier: Apache-2.0
//
// A driver that has no memory to pin is not asked again by every miss. The
// library's clock is the test's.
#include "tests/host/arena_under_test.h"

#include <atomic>
#include <string>

#include "tests/pool/pool_under_test.h"

// The linker's names for the library's clock and for ours, which hardly moves by
// itself, so that no machine is too slow for these tests.
extern "C" uint64_t __real_moietyi_now_ns(void);
extern "C" uint64_t __wrap_moietyi_now_ns(void);

static std::atomic<uint64_t> clock_ahead_ns{0};

uint64_t __wrap_moietyi_now_ns(void)
{
    return __real_moietyi_now_ns() / 1000 + clock_ahead_ns;
}

namespace host_test
{
namespace
{

using pool_test::kMiB;

constexpr uint64_t kSecond = 1000000000;
constexpr char kRefuse[] =
    "cuMemHostRegister:every=1:code=CUDA_ERROR_OUT_OF_MEMORY";

class Shortage : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }
    void TearDown() override
    {
        pool_test::SetFaults("");
    }
    static moiety_host_options Options()
    {
        moiety_host_options options = HostDefaults();
        options.wait_ms = MOIETY_WAIT_NONE;
        options.thread_cache_bytes = MOIETY_BYTES_NONE;
        return options;
    }
    // How often a block's allocation had the driver asked; -1: it succeeded, and
    // the block was freed.
    static int Asked(moiety_host *host, uint64_t size_bytes)
    {
        void *block = nullptr;
        uint64_t before = pool_test::Calls("cuMemHostRegister");
        moiety_status status =
            moiety_host_alloc(host, size_bytes, MOIETY_HOST_CPU, &block);
        if (status == MOIETY_OK) {
            EXPECT_OK(moiety_host_free(host, block, MOIETY_STREAM_DONE));
            return -1;
        }
        EXPECT_EQ(MOIETY_E_NO_PINNED_MEMORY, status);
        int asked =
            static_cast<int>(pool_test::Calls("cuMemHostRegister") - before);
        std::string message = moiety_last_error_message();
        EXPECT_EQ(asked == 0, message.find("a moment ago") != std::string::npos)
            << message;
        return asked;
    }
};

constexpr int kGiven = -1;

TEST_F(Shortage, IsRememberedForASecond)
{
    Arena arena(Options());
    pool_test::SetFaults(kRefuse);
    EXPECT_EQ(1, Asked(arena, kMiB));
    pool_test::SetFaults("");
    EXPECT_EQ(0, Asked(arena, kMiB));
    clock_ahead_ns += kSecond;
    EXPECT_EQ(kGiven, Asked(arena, kMiB));
}

TEST_F(Shortage, IsRememberedTwiceAsLongEachTimeUpToAMinute)
{
    Arena arena(Options());
    pool_test::SetFaults(kRefuse);
    EXPECT_EQ(1, Asked(arena, kMiB));
    for (uint64_t seconds : {1, 2, 4, 8, 16, 32, 60, 60}) {
        clock_ahead_ns += (seconds - 1) * kSecond;
        EXPECT_EQ(0, Asked(arena, kMiB)) << seconds;
        clock_ahead_ns += kSecond;
        EXPECT_EQ(1, Asked(arena, kMiB)) << seconds;
    }
    pool_test::SetFaults("");
    clock_ahead_ns += 60 * kSecond;
    EXPECT_EQ(kGiven, Asked(arena, kMiB));
}

TEST_F(Shortage, IsOfItsLengthAndLongerOnes)
{
    Arena arena(Options());
    pool_test::SetFaults(kRefuse);
    EXPECT_EQ(1, Asked(arena, 32 * kMiB));
    pool_test::SetFaults("");
    EXPECT_EQ(0, Asked(arena, 40 * kMiB));
    void *shorter = arena.Alloc(16 * kMiB);
    EXPECT_EQ(0, Asked(arena, 32 * kMiB));
    arena.Free(shorter);
}

TEST_F(Shortage, EndsWhereMemoryIsGivenBack)
{
    Arena arena(Options());
    EXPECT_EQ(kGiven, Asked(arena, 16 * kMiB));
    void *kept = arena.Alloc(16 * kMiB);
    pool_test::SetFaults(kRefuse);
    EXPECT_EQ(1, Asked(arena, 16 * kMiB));
    pool_test::SetFaults("");
    EXPECT_EQ(0, Asked(arena, 16 * kMiB));
    arena.Free(kept);
    uint64_t given_back = 0;
    EXPECT_OK(moiety_pool_trim(moiety_host_pool(arena), 0, &given_back));
    EXPECT_GE(given_back, 16 * kMiB);
    EXPECT_EQ(kGiven, Asked(arena, 16 * kMiB));
}

TEST_F(Shortage, EndsWithAReserveWhichAsks)
{
    moiety_host_options options = Options();
    options.first_segment_bytes = options.largest_segment_bytes = 16 * kMiB;
    Arena arena(options);
    pool_test::SetFaults(kRefuse);
    EXPECT_EQ(1, Asked(arena, 16 * kMiB));
    EXPECT_EQ(MOIETY_E_NO_PINNED_MEMORY,
              moiety_host_reserve(arena, 16 * kMiB, 0, nullptr, nullptr));
    pool_test::SetFaults("");
    EXPECT_OK(moiety_host_reserve(arena, 16 * kMiB, 0, nullptr, nullptr));
    void *reserved = arena.Alloc(16 * kMiB);
    EXPECT_EQ(kGiven, Asked(arena, 16 * kMiB));
    arena.Free(reserved);
}

// A miss of 3 MiB would like more, and asks for less and less.
TEST_F(Shortage, OfTheFirstLengthDoesNotRefuseTheNext)
{
    Arena arena(Options());
    void *kept = arena.Alloc(32 * kMiB);
    pool_test::SetFaults(kRefuse);
    EXPECT_LT(1, Asked(arena, 3 * kMiB));
    clock_ahead_ns += kSecond;
    EXPECT_LT(1, Asked(arena, 3 * kMiB));
    clock_ahead_ns += 2 * kSecond;
    pool_test::SetFaults(
        "cuMemHostRegister:nth=1:code=CUDA_ERROR_OUT_OF_MEMORY");
    EXPECT_EQ(kGiven, Asked(arena, 3 * kMiB));
    arena.Free(kept);
}

TEST_F(Shortage, OfLongAgoIsForgotten)
{
    Arena arena(Options());
    pool_test::SetFaults(kRefuse);
    EXPECT_EQ(1, Asked(arena, kMiB));
    clock_ahead_ns += 600 * kSecond;
    EXPECT_EQ(1, Asked(arena, kMiB));
    pool_test::SetFaults("");
    EXPECT_EQ(0, Asked(arena, kMiB));
    clock_ahead_ns += kSecond;
    EXPECT_EQ(kGiven, Asked(arena, kMiB));
}

} // namespace
} // namespace host_test
