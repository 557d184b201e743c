// SPDX-License-Identifier: Apache-2.0
//
// Those who watch a pool's segments: what they are told while the pool is used, and
// what they may not do meanwhile.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "moiety/private.h"
#include "tests/pool/pool_under_test.h"
#include "tests/segment/ledger.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;
using segment_test::Ledger;

// Fields may only be appended.
static_assert(offsetof(moiety_segment_watcher, struct_size) == 0, "moved");
static_assert(offsetof(moiety_segment_watcher, flags) == 4, "moved");
static_assert(offsetof(moiety_segment_watcher, user) == 8, "moved");
static_assert(offsetof(moiety_segment_watcher, added) == 16, "moved");
static_assert(offsetof(moiety_segment_watcher, releasing) == 24, "moved");
static_assert(sizeof(moiety_segment_watcher) == 32, "changed");

// Keeps a ledger, and does something at each event.
class Watcher
{
  public:
    explicit Watcher(moiety_pool *pool) : pool_(pool) {}
    Watcher(const Watcher &) = delete;
    Watcher &operator=(const Watcher &) = delete;

    moiety_segment_watcher Table()
    {
        moiety_segment_watcher table = {};
        table.struct_size = sizeof table;
        table.user = this;
        table.added = Added;
        table.releasing = Releasing;
        return table;
    }

    void Begin()
    {
        moiety_segment_watcher table = Table();
        ASSERT_OK(moiety_segment_watch(pool_, &table, &id))
            << moiety_last_error_message();
        EXPECT_NE(nullptr, id);
    }

    void End()
    {
        EXPECT_OK(moiety_segment_unwatch(pool_, id));
        is_over = true;
    }

    Ledger told;
    moiety_watch id = nullptr;
    uint32_t flags = 0; // of the last segment
    std::atomic<bool> is_over{false};
    std::function<void()> at_each;

  private:
    void Tell(const moiety_segment_info *info)
    {
        EXPECT_FALSE(is_over.load()) << "told after the watch";
        EXPECT_EQ(sizeof(*info), info->struct_size);
        EXPECT_EQ(0, running_++) << "told of two things at a time";
        flags = info->flags;
        if (at_each)
            at_each();
        running_--;
    }

    static void Added(void *user, const moiety_segment_info *info)
    {
        auto *self = static_cast<Watcher *>(user);
        self->Tell(info);
        self->told.Add(info->id, info->address, info->size_bytes);
    }

    static void Releasing(void *user, const moiety_segment_info *info)
    {
        auto *self = static_cast<Watcher *>(user);
        self->Tell(info);
        self->told.Release(info->id, info->address, info->size_bytes);
    }

    moiety_pool *pool_;
    std::atomic<int> running_{0};
};

class WatchedPool : public StandinTestWith<uint32_t>
{
  protected:
    moiety_pool_options Options() const
    {
        moiety_pool_options options = driver_options();
        set_kind(&options, GetParam());
        options.thread_cache_bytes = MOIETY_BYTES_NONE;
        return options;
    }
};

TEST_P(WatchedPool, TellsOfMemoryBeforeItGivesItOut)
{
    Pool pool(Options());
    Watcher watcher(pool);
    watcher.Begin();
    std::vector<moiety_devptr> blocks;
    for (uint64_t mib : {1, 2, 100, 8, 30}) {
        blocks.push_back(pool.Alloc(mib * kMiB));
        EXPECT_TRUE(watcher.told.Has(blocks.back(), mib * kMiB));
    }
    EXPECT_EQ(GetParam() & KIND_MAPPED ? MOIETY_SEGMENT_MAPPED : 0u,
              watcher.flags);
    EXPECT_EQ(pool.Stats().reserved_bytes_current, watcher.told.LiveBytes());
    for (moiety_devptr block : blocks)
        pool.Free(block, MOIETY_STREAM_DONE);
    pool.TrimAll();
    EXPECT_EQ(0u, watcher.told.LiveBytes());
    EXPECT_EQ("", watcher.told.Complaint());
    watcher.End();
}

TEST_P(WatchedPool, TellsOfWhatIsThereAndOfTheEnd)
{
    Pool pool(Options());
    moiety_devptr block = pool.Alloc(20 * kMiB);
    ASSERT_OK(moiety_segment_hold(pool, block, 20 * kMiB));
    Watcher watcher(pool);
    watcher.Begin();
    EXPECT_TRUE(watcher.told.Has(block, 20 * kMiB));
    EXPECT_EQ(1u, pool.End().block_count);
    EXPECT_EQ(0u, watcher.told.LiveBytes());
    EXPECT_EQ("", watcher.told.Complaint());
}

TEST_P(WatchedPool, IsLeftByAWatcherWithoutAWord)
{
    Pool pool(Options());
    Watcher watcher(pool);
    watcher.Begin();
    moiety_devptr block = pool.Alloc(20 * kMiB);
    watcher.End();
    EXPECT_EQ(MOIETY_E_DESTROYED, moiety_segment_unwatch(pool, watcher.id));
    EXPECT_EQ(0u, watcher.told.ReleasedCount());
    pool.Free(block);
}

TEST_P(WatchedPool, RefusesWhatIsNoWatcher)
{
    Pool pool(Options());
    Watcher watcher(pool);
    auto id = reinterpret_cast<moiety_watch>(77);
    moiety_segment_watcher table = watcher.Table();
    EXPECT_EQ(MOIETY_E_INVALID, moiety_segment_watch(nullptr, &table, &id));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_segment_watch(pool, nullptr, &id));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_segment_watch(pool, &table, nullptr));
    table.struct_size--;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_segment_watch(pool, &table, &id));
    table = watcher.Table();
    table.flags = 1;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_segment_watch(pool, &table, &id));
    table = watcher.Table();
    table.added = nullptr;
    table.releasing = nullptr;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_segment_watch(pool, &table, &id));
    EXPECT_EQ(reinterpret_cast<moiety_watch>(77), id);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_segment_unwatch(pool, nullptr));
    EXPECT_EQ(
        MOIETY_E_INVALID,
        moiety_segment_unwatch(nullptr, reinterpret_cast<moiety_watch>(1)));
}

TEST_P(WatchedPool, MayBeWatchedByOneFunctionAlone)
{
    Pool pool(Options());
    Watcher watcher(pool);
    moiety_segment_watcher table = watcher.Table();
    table.releasing = nullptr;
    moiety_watch id = nullptr;
    ASSERT_OK(moiety_segment_watch(pool, &table, &id));
    pool.Free(pool.Alloc(20 * kMiB), MOIETY_STREAM_DONE);
    pool.TrimAll();
    EXPECT_EQ(0u, watcher.told.ReleasedCount());
}

// Each call that a watcher is most likely to try, in the middle of a call.
void ExpectRefusal(moiety_pool *pool, moiety_devptr block, moiety_watch id)
{
    moiety_devptr out = 0;
    uint64_t bytes = 0;
    moiety_segment_info info = {};
    moiety_segment_watcher watcher = {};
    info.struct_size = sizeof info;
    watcher.struct_size = sizeof watcher;
    watcher.added = [](void *, const moiety_segment_info *) {};
    EXPECT_EQ(MOIETY_E_REENTRANT,
              moiety_alloc(pool, 512, MOIETY_STREAM_LEGACY, &out));
    EXPECT_EQ(MOIETY_E_REENTRANT,
              moiety_alloc(pool, 64 * kMiB, MOIETY_STREAM_LEGACY, &out));
    EXPECT_EQ(MOIETY_E_REENTRANT,
              moiety_free(pool, block, MOIETY_STREAM_LEGACY));
    EXPECT_STREQ("the pool called this function in the middle of a call of its "
                 "own",
                 moiety_last_error_message());
    EXPECT_EQ(MOIETY_E_REENTRANT, moiety_pool_trim(pool, 0, &bytes));
    EXPECT_EQ(MOIETY_E_REENTRANT, moiety_segment_find(pool, block, &info));
    EXPECT_EQ(MOIETY_E_REENTRANT, moiety_segment_hold(pool, block, 1));
    EXPECT_EQ(MOIETY_E_REENTRANT, moiety_segment_watch(pool, &watcher, &id));
    EXPECT_EQ(MOIETY_E_REENTRANT, moiety_segment_unwatch(pool, id));
    EXPECT_EQ(MOIETY_E_IN_USE, moiety_pool_destroy(pool, nullptr));
}

TEST_P(WatchedPool, RefusesCallsFromInside)
{
    moiety_pool_options options = Options();
    options.thread_cache_bytes = 1 << 20;
    Pool pool(options);
    Pool other(options);
    Watcher watcher(pool);
    moiety_devptr block = pool.Alloc(512);
    // So that the next would be a hit.
    pool.Free(pool.Alloc(512));
    unsigned count = 0;
    watcher.at_each = [&] {
        ExpectRefusal(pool, block, watcher.id);
        other.Free(other.Alloc(8 * kMiB));
        count++;
    };
    watcher.Begin();
    EXPECT_EQ(1u, count);
    moiety_devptr large = pool.Alloc(64 * kMiB);
    EXPECT_LT(1u, count) << "growth";
    unsigned before = count;
    pool.Free(large, MOIETY_STREAM_DONE);
    pool.TrimAll();
    EXPECT_LT(before, count) << "a trim";
    pool.Free(block);
    pool.Free(pool.Alloc(512)); // it is usable again
    watcher.End();
}

TEST_P(WatchedPool, IsGoneForThoseWhoAreToldOfItsEnd)
{
    Pool pool(Options());
    moiety_pool *handle = pool;
    moiety_devptr block = pool.Alloc(20 * kMiB);
    Watcher watcher(pool);
    watcher.Begin();
    unsigned count = 0;
    watcher.at_each = [&] {
        EXPECT_EQ(MOIETY_E_DESTROYED, moiety_free(handle, block, nullptr));
        EXPECT_EQ(MOIETY_E_DESTROYED,
                  moiety_segment_unwatch(handle, watcher.id));
        EXPECT_EQ(MOIETY_E_DESTROYED, moiety_pool_destroy(handle, nullptr));
        count++;
    };
    pool.End();
    EXPECT_LT(0u, count);
}

TEST_P(WatchedPool, IsNotDestroyedWhileAWatcherRuns)
{
    Pool pool(Options());
    Watcher watcher(pool);
    watcher.Begin();
    std::atomic<int> stage{0};
    watcher.at_each = [&] {
        int before = 0;
        if (!stage.compare_exchange_strong(before, 1))
            return;
        while (stage != 2)
            std::this_thread::yield();
    };
    std::thread grower([&] { pool.Free(pool.Alloc(20 * kMiB)); });
    while (stage != 1)
        std::this_thread::yield();
    EXPECT_EQ(MOIETY_E_IN_USE, moiety_pool_destroy(pool, nullptr));
    stage = 2;
    grower.join();
    watcher.End();
}

// One thread trims while another wants memory, which waits until that is told.
TEST_P(WatchedPool, TellsOfOneThingAtATime)
{
    Pool pool(Options());
    pool.Free(pool.Alloc(20 * kMiB), MOIETY_STREAM_DONE);
    Watcher watcher(pool);
    watcher.Begin();
    std::atomic<bool> is_telling{false};
    watcher.at_each = [&] {
        is_telling = true;
        // What must wait is given the time not to.
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    };
    std::thread trimmer([&] { (void)pool.Trim(); });
    while (!is_telling)
        std::this_thread::yield();
    moiety_devptr block = pool.Alloc(40 * kMiB);
    EXPECT_TRUE(watcher.told.Has(block, 40 * kMiB));
    trimmer.join();
    watcher.End();
    pool.Free(block);
}

// After the watch nobody is told, while others grow and trim without a pause.
TEST_P(WatchedPool, MayBeLeftWhileItGrows)
{
    Pool pool(Options());
    std::atomic<bool> is_over{false};
    std::atomic<unsigned> turns{0};
    std::thread grower([&] {
        for (unsigned turn = 0; !is_over; turns = ++turn) {
            pool.Free(pool.Alloc((2 + turn % 7 * 2) * kMiB),
                      MOIETY_STREAM_DONE);
            (void)pool.Trim();
        }
    });
    for (int i = 0; i < 100 || turns < 100; i++) {
        auto watcher = std::make_unique<Watcher>(pool);
        watcher->Begin();
        if (i % 2)
            std::this_thread::yield();
        watcher->End();
        EXPECT_EQ("", watcher->told.Complaint());
    }
    is_over = true;
    grower.join();
}

// One of eight threads: blocks of all sizes, which lie in what was told.
void Churn(const Pool &pool, Watcher &watcher, uint64_t seed,
           const std::atomic<bool> &is_over, std::atomic<unsigned> &turns)
{
    std::mt19937_64 random(seed);
    struct Block {
        moiety_devptr address;
        size_t size_bytes;
    };
    std::vector<Block> blocks;
    pool_test::SetCurrent(pool_test::PrimaryContext());
    pool_test::Stream stream;
    for (; !is_over; turns++) {
        if (blocks.size() < 6 && random() % 2) {
            Block block = {0, (1 + random() % 160) * kMiB / 8};
            if (moiety_alloc(pool, block.size_bytes, stream, &block.address) !=
                MOIETY_OK)
                continue;
            EXPECT_TRUE(watcher.told.Has(block.address, block.size_bytes));
            blocks.push_back(block);
        } else if (!blocks.empty()) {
            size_t at = random() % blocks.size();
            EXPECT_OK(moiety_free(pool, blocks[at].address,
                                  random() % 4 ? stream : MOIETY_STREAM_DONE));
            blocks.erase(blocks.begin() + static_cast<long>(at));
        }
        uint64_t bytes;
        if (random() % 32 == 0) {
            EXPECT_OK(moiety_pool_trim(pool, 0, &bytes));
        }
    }
    for (const Block &block : blocks)
        EXPECT_OK(moiety_free(pool, block.address, stream));
    EXPECT_OK(moiety_pool_retire_stream(pool, stream));
}

TEST_P(WatchedPool, IsToldOfInBalanceBesideEightThreads)
{
    moiety_pool_options options = Options();
    options.limit_bytes = 512 * kMiB;
    options.wait_ms = 5;
    Pool pool(options);
    Watcher watcher(pool);
    watcher.Begin();
    std::atomic<bool> is_over{false};
    std::atomic<unsigned> turns{0};
    std::vector<std::thread> threads;
    uint64_t seed = pool_test::Seed(20);
    for (uint64_t i = 0; i < 8; i++)
        threads.emplace_back(
            [&, i] { Churn(pool, watcher, seed + i, is_over, turns); });
    const bool moves = GetParam() & KIND_MAPPED;
    // Checked ones wait for what is in quarantine.
    const unsigned wanted = GetParam() & KIND_CHECKED ? 200 : 20000;
    while (turns < wanted || watcher.told.AddedCount() == 0 ||
           watcher.told.ReleasedCount() == 0 ||
           (moves && pool.Stats().mapped_moves == 0))
        std::this_thread::yield();
    is_over = true;
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(pool.Stats().reserved_bytes_current, watcher.told.LiveBytes());
    pool.TrimAll();
    EXPECT_EQ(0u, watcher.told.LiveBytes());
    EXPECT_LT(0u, watcher.told.AddedCount());
    EXPECT_EQ(watcher.told.AddedCount(), watcher.told.ReleasedCount());
    EXPECT_EQ("", watcher.told.Complaint());
    watcher.End();
}

INSTANTIATE_TEST_SUITE_P(Kinds, WatchedPool,
                         ::testing::Values(0u, KIND_MAPPED, KIND_CHECKED),
                         [](const auto &kind) {
                             return kind.param == 0             ? "Driver"
                                    : kind.param == KIND_MAPPED ? "Mapped"
                                                                : "Checked";
                         });

using WatchedPoolOfAKind = StandinTest;

TEST_F(WatchedPoolOfAKind, IsNoneThatPassesAllThrough)
{
    moiety_pool_options options = driver_options();
    set_kind(&options, KIND_PASS_THROUGH);
    Pool pool(options);
    Watcher watcher(pool);
    moiety_segment_watcher table = watcher.Table();
    moiety_watch id = nullptr;
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, moiety_segment_watch(pool, &table, &id));
    EXPECT_EQ(MOIETY_E_UNSUPPORTED,
              moiety_segment_unwatch(pool, reinterpret_cast<moiety_watch>(1)));
}

TEST_F(WatchedPoolOfAKind, TellsOfMemoryThatPauses)
{
    moiety_pool_options options = driver_options();
    set_kind(&options, KIND_MAPPED);
    options.thread_cache_bytes = MOIETY_BYTES_NONE;
    options.wait_ms = 60000;
    Pool pool(options);
    Watcher watcher(pool);
    watcher.Begin();
    moiety_private arena = 0;
    moiety_private_options private_options = {};
    private_options.struct_size = sizeof private_options;
    private_options.flags = MOIETY_PRIVATE_PAUSABLE;
    ASSERT_OK(moiety_private_create(pool, &private_options, &arena));
    moiety_devptr block = 0;
    ASSERT_OK(alloc_of_arena(arena, 8 * kMiB, MOIETY_STREAM_LEGACY, &block));
    uint64_t before = watcher.told.IdAt(block);
    EXPECT_TRUE(watcher.told.Has(block, 8 * kMiB));
    ASSERT_OK(moiety_private_pause(arena, MOIETY_PAUSE_KEEP_CONTENTS));
    EXPECT_FALSE(watcher.told.Has(block, 1));
    ASSERT_OK(moiety_private_resume(arena));
    EXPECT_TRUE(watcher.told.Has(block, 8 * kMiB));
    EXPECT_LT(before, watcher.told.IdAt(block));
    pool.Free(block);
    EXPECT_OK(moiety_private_destroy(arena));
    pool.TrimAll();
    EXPECT_EQ(0u, watcher.told.LiveBytes());
    EXPECT_EQ("", watcher.told.Complaint());
}

} // namespace
