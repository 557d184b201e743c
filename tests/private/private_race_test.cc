// SPDX-License-Identifier: Apache-2.0
//
// Threads that use arenas of one pool at once, and arenas that end meanwhile. No
// block is given out twice, and at the end the pool has everything back.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "moiety/private.h"
#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

constexpr int kThreads = 4;

class PrivateRace : public ::testing::Test
{
  protected:
    PrivateRace()
    {
        pool_test::UseStandin();
        moiety_pool_options options = pool_test::Defaults();
        options.flags = MOIETY_POOL_NOTE_STREAMS;
        pool_.reset(new Pool(options));
        streams_.reset(new Stream[3]);
    }

    void TearDown() override
    {
        EXPECT_EQ(0u, pool_->Stats().allocation_current);
        EXPECT_EQ(0u, pool_->Stats().allocated_bytes_current);
        pool_->TrimAll();
        EXPECT_EQ(0u, pool_->Stats().reserved_bytes_current);
        for (int i = 0; i < 3; i++)
            EXPECT_OK(moiety_pool_retire_stream(*pool_, streams_[i]));
    }

    moiety_private Make(uint64_t limit_bytes = 0)
    {
        moiety_private arena = 0;
        EXPECT_EQ(MOIETY_OK, create_arena(*pool_, limit_bytes, &arena));
        return arena;
    }

    template <typename Body> static void InThreads(const Body &body)
    {
        std::vector<std::thread> threads;
        for (int t = 0; t < kThreads; t++)
            threads.emplace_back([&, t] { body(t); });
        for (std::thread &thread : threads)
            thread.join();
    }

    // Marks a block by its address as this thread's, so that one that is given
    // out twice is seen.
    void Work(moiety_private arena, int thread, int rounds)
    {
        std::vector<moiety_devptr> own;
        for (int i = 0; i < rounds; i++) {
            moiety_devptr block = 0;
            size_t size_bytes = (i * 37 + thread) % 5 == 0
                                    ? 3 * kMiB
                                    : kKiB * (1 + (i * 13) % 700);
            moiety_stream stream = streams_[(i + thread) % 3];
            moiety_status status =
                alloc_of_arena(arena, size_bytes, stream, &block);
            if (status == MOIETY_OK) {
                EXPECT_EQ(0, holders_[Place(block)].fetch_add(1));
                own.push_back(block);
            }
            if (own.size() < 8 && status == MOIETY_OK)
                continue;
            if (own.empty())
                continue;
            EXPECT_EQ(1, holders_[Place(own.front())].fetch_sub(1));
            EXPECT_OK(i % 2 ? moiety_free(*pool_, own.front(), stream)
                            : moiety_free_on_alloc_stream(*pool_, own.front()));
            own.erase(own.begin());
        }
        for (moiety_devptr block : own) {
            holders_[Place(block)].fetch_sub(1);
            EXPECT_OK(moiety_free(*pool_, block, MOIETY_STREAM_ANY));
        }
    }

    // The first segments of a pool are near each other.
    static size_t Place(moiety_devptr block)
    {
        return block / 512 % kPlaces;
    }

    static constexpr size_t kPlaces = size_t{1} << 22;
    std::vector<std::atomic<int>> holders_ =
        std::vector<std::atomic<int>>(kPlaces);
    std::unique_ptr<Pool> pool_;
    std::unique_ptr<Stream[]> streams_;
};

TEST_F(PrivateRace, ThreadsOfOneArena)
{
    moiety_private arena = Make(64 * kMiB);
    std::atomic<bool> is_over{false};
    std::thread trimmer([&] {
        while (!is_over) {
            moiety_private_stats info = {};
            info.struct_size = sizeof info;
            EXPECT_OK(moiety_private_trim(arena, nullptr));
            EXPECT_OK(moiety_private_get_stats(arena, &info));
            EXPECT_LE(info.live_bytes, info.reserved_bytes);
            EXPECT_LE(info.reserved_bytes, 64 * kMiB);
        }
    });
    InThreads([&](int thread) { Work(arena, thread, 500); });
    is_over = true;
    trimmer.join();
    EXPECT_OK(moiety_private_destroy(arena));
}

TEST_F(PrivateRace, FreesAndTheRelease)
{
    for (int round = 0; round < 20; round++) {
        moiety_private arena = Make();
        std::vector<moiety_devptr> blocks[kThreads];
        for (int t = 0; t < kThreads; t++)
            for (int i = 0; i < 20; i++) {
                moiety_devptr block = 0;
                ASSERT_OK(
                    alloc_of_arena(arena, 100 * kKiB, streams_[i % 3], &block));
                blocks[t].push_back(block);
            }
        std::thread releaser([&] { EXPECT_OK(moiety_private_destroy(arena)); });
        InThreads([&](int thread) {
            for (moiety_devptr block : blocks[thread])
                EXPECT_OK(moiety_free(*pool_, block, streams_[thread % 3]));
        });
        releaser.join();
    }
}

TEST_F(PrivateRace, AllocationsAndTheRelease)
{
    for (int round = 0; round < 20; round++) {
        std::atomic<bool> is_gone{false};
        moiety_private arena = Make();
        std::thread releaser([&] {
            EXPECT_EQ(MOIETY_OK, moiety_private_destroy(arena));
            is_gone = true;
            // Another one, perhaps in the same place.
            moiety_private next = Make();
            EXPECT_EQ(MOIETY_OK, moiety_private_destroy(next));
        });
        InThreads([&](int) {
            for (int i = 0; i < 50; i++) {
                moiety_devptr block = 0;
                bool was_gone = is_gone;
                moiety_status status =
                    alloc_of_arena(arena, 2 * kMiB, streams_[i % 3], &block);
                if (status != MOIETY_OK) {
                    EXPECT_EQ(MOIETY_E_DESTROYED, status);
                    continue;
                }
                EXPECT_FALSE(was_gone);
                EXPECT_OK(moiety_free(*pool_, block, streams_[i % 3]));
            }
        });
        releaser.join();
    }
}

TEST_F(PrivateRace, ThreadsWithArenasOfTheirOwn)
{
    InThreads([&](int thread) {
        for (int i = 0; i < 20; i++) {
            moiety_private arena = Make(16 * kMiB);
            Work(arena, thread, 20);
            EXPECT_EQ(MOIETY_OK, moiety_private_destroy(arena));
        }
    });
}

} // namespace
