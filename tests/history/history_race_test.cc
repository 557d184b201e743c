// SPDX-License-Identifier: Apache-2.0
//
// Reading while others write, and the order of what several threads did.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "tests/history/history_under_test.h"
#include "tests/pool/pool_under_test.h"

namespace
{

using namespace history_test;
using namespace pool_test;

constexpr unsigned kThreads = 3;
constexpr unsigned kReadings = 200;

// The words of an entry, each of which tells what the others must be: the size
// is the thread's own, and so is the stream; addresses are multiples of 512.
TEST(ReaderVsWriters, SeesNoEntryThatIsHalfOfAnother)
{
    pool_test::UseStandin();
    Pool pool(Recorded(16));
    Stream streams[kThreads];
    std::atomic<bool> is_over{false};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; i++)
        threads.emplace_back([&, i] {
            const size_t size = 1000 * (i + 1);
            moiety_devptr block;
            do {
                ASSERT_OK(moiety_alloc(pool, size, streams[i], &block));
                ASSERT_OK(moiety_free_sized(pool, block, size, streams[i]));
            } while (!is_over.load());
        });
    for (unsigned i = 0; i < kReadings; i++) {
        History history(pool, 1000);
        std::map<uint32_t, uint64_t> last; // of each thread
        for (const moiety_history_entry &entry : history.entries) {
            // None is left out in between.
            uint64_t &before = last[entry.thread_id];
            if (before) {
                EXPECT_EQ(before, entry.sequence);
            }
            before = entry.sequence + 1;
            if (entry.kind == MOIETY_HISTORY_GROW)
                continue;
            unsigned writer = 0;
            while (writer < kThreads && entry.stream != streams[writer])
                writer++;
            ASSERT_LT(writer, kThreads);
            EXPECT_EQ(1000 * (writer + 1), entry.size_bytes);
            EXPECT_EQ(0u, entry.address % 512);
            EXPECT_EQ(static_cast<uint32_t>(MOIETY_OK), entry.status);
        }
    }
    is_over = true;
    for (std::thread &thread : threads)
        thread.join();
}

// Whoever has a block, and whoever gives it back: by its times each block is
// allocated, freed, allocated again.
TEST(WritersInTurn, HaveEachBlocksLivesInOrder)
{
    constexpr unsigned kRounds = 4000;
    pool_test::UseStandin();
    Pool pool(Recorded(1 << 16));
    Stream stream;
    std::atomic<moiety_devptr> mail[kThreads] = {};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; i++)
        threads.emplace_back([&, i] {
            for (unsigned round = 0; round < kRounds; round++) {
                moiety_devptr block;
                ASSERT_OK(moiety_alloc(pool, 4096, stream, &block));
                block = mail[(i + round) % kThreads].exchange(block);
                if (block) {
                    ASSERT_OK(moiety_free(pool, block, stream));
                }
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    for (std::atomic<moiety_devptr> &left : mail)
        pool.Free(left.load(), stream);
    History history(pool, kThreads << 17);
    EXPECT_EQ(0u, history.summary.lost_count);
    EXPECT_EQ(kThreads * kRounds, history.Of(MOIETY_HISTORY_ALLOC).size());
    EXPECT_EQ(kThreads * kRounds, history.Of(MOIETY_HISTORY_FREE).size());
    std::map<moiety_devptr, bool> is_live;
    unsigned wrong = 0;
    for (const moiety_history_entry &entry : history.entries) {
        if (entry.kind != MOIETY_HISTORY_ALLOC &&
            entry.kind != MOIETY_HISTORY_FREE)
            continue;
        bool is_alloc = entry.kind == MOIETY_HISTORY_ALLOC;
        wrong += is_live[entry.address] == is_alloc;
        is_live[entry.address] = is_alloc;
    }
    EXPECT_EQ(0u, wrong);
}

} // namespace
