// SPDX-License-Identifier: Apache-2.0
//
// Threads that stage, grow and trim one arena: nobody gets what another holds,
// and in the end nothing is pinned.
#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "tests/host/arena_under_test.h"
#include "tests/pool/pool_under_test.h"

namespace host_test
{
namespace
{

using namespace pool_test;

constexpr unsigned kStagers = 3;
constexpr unsigned kSteps = 150;

// The CPU is the one that writes and reads, so no stream hides a mistake.
void Stage(Arena &arena, unsigned seed)
{
    std::mt19937 random(seed);
    pool_test::SetCurrent(pool_test::PrimaryContext());
    pool_test::Stream stream;
    for (unsigned step = 0; step < kSteps; step++) {
        size_t words = (1 + random() % 300) * kKiB / 4;
        uint32_t word = seed << 16 | step;
        auto *block = static_cast<uint32_t *>(arena.Alloc(4 * words));
        ASSERT_NE(nullptr, block);
        std::fill_n(block, words, word);
        std::this_thread::yield();
        ASSERT_EQ(words,
                  static_cast<size_t>(std::count(block, block + words, word)));
        const moiety_stream how[] = {stream, MOIETY_STREAM_DONE,
                                     MOIETY_STREAM_ANY};
        arena.Free(block, how[random() % 3]);
    }
    EXPECT_OK(moiety_pool_retire_stream(moiety_host_pool(arena), stream));
}

TEST(StageVsTrim, NobodyGetsWhatAnotherHolds)
{
    pool_test::UseStandin();
    moiety_host_options options = HostDefaults();
    options.first_segment_bytes = options.largest_segment_bytes = 2 * kMiB;
    options.thread_cache_bytes = kMiB;
    int64_t before = pool_test::Live("host");
    {
        Arena arena(options);
        std::atomic<bool> is_over{false};
        std::vector<std::thread> threads;
        for (unsigned i = 0; i < kStagers; i++)
            threads.emplace_back([&arena, i] { Stage(arena, i + 1); });
        std::thread trimmer([&] {
            while (!is_over) {
                EXPECT_OK(moiety_host_trim(arena, 0, nullptr));
                EXPECT_OK(
                    moiety_host_reserve(arena, 4 * kMiB, 2, nullptr, nullptr));
            }
        });
        for (std::thread &thread : threads)
            thread.join();
        is_over = true;
        trimmer.join();
    }
    EXPECT_EQ(before, pool_test::Live("host"));
}

// Two reserves, one who trims, and one who cancels.
TEST(ReserveVsCancel, EndsWithAWordAndLeavesNothing)
{
    pool_test::UseStandin();
    moiety_host_options options = HostDefaults();
    options.first_segment_bytes = options.largest_segment_bytes = 2 * kMiB;
    int64_t before = pool_test::Live("host");
    {
        Arena arena(options);
        std::atomic<unsigned> reserving{2};
        std::vector<std::thread> threads;
        for (int i = 0; i < 2; i++)
            threads.emplace_back([&] {
                for (int round = 0; round < 10; round++) {
                    moiety_status status = moiety_host_reserve(
                        arena, 12 * kMiB, 2, nullptr, nullptr);
                    EXPECT_TRUE(status == MOIETY_OK ||
                                status == MOIETY_E_INTERRUPTED)
                        << moiety_last_error_message();
                }
                reserving--;
            });
        threads.emplace_back([&] {
            while (reserving) {
                moiety_host_cancel(arena);
                std::this_thread::yield();
            }
        });
        threads.emplace_back([&] {
            while (reserving)
                EXPECT_OK(moiety_host_trim(arena, 0, nullptr));
        });
        for (std::thread &thread : threads)
            thread.join();
        EXPECT_OK(moiety_host_reserve(arena, 12 * kMiB, 2, nullptr, nullptr));
        EXPECT_EQ(12 * kMiB, arena.Stats().pinned_bytes);
    }
    EXPECT_EQ(before, pool_test::Live("host"));
}

} // namespace
} // namespace host_test
