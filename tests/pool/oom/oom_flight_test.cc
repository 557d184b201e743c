// SPDX-License-Identifier: Apache-2.0
//
// Memory that another thread moves while an allocation is about to fail: here a
// segment that is on its way to or from its source, which takes its time.
#include <functional>

#include "moiety/segment.h"
#include "tests/pool/oom/oom_under_test.h"
#include "tests/support/tools/pools.h"

namespace oom_test
{

// Memory of the stand-in, which stops until it is told to go on.
class SlowSource
{
  public:
    moiety_source Table()
    {
        moiety_source table = {};
        table.struct_size = sizeof(table);
        table.name = "slow";
        table.context = this;
        table.reserve = Reserve;
        table.release = Release;
        return table;
    }

    std::atomic<bool> is_stopped{false}; // releases wait
    std::atomic<bool> is_releasing{false};
    std::atomic<bool> is_empty{false}; // and so do those who ask
    std::atomic<bool> is_asked{false};
    std::atomic<bool> refuses{false}; // the next who asks
    bool is_watched = false;          // a watcher stops, the source does not

    // Until there is more.
    void Stop()
    {
        is_asked = is_empty.load();
        while (is_empty)
            std::this_thread::yield();
    }

  private:
    static moiety_status Reserve(void *context, size_t size_bytes,
                                 moiety_devptr *out)
    {
        auto *self = static_cast<SlowSource *>(context);
        if (self->refuses.exchange(false))
            return MOIETY_E_NO_DEVICE_MEMORY;
        if (!self->is_watched)
            self->Stop();
        using alloc_fn = int(moiety_devptr *, size_t);
        return pool_test::Get<alloc_fn>("cuMemAlloc_v2")(out, size_bytes)
                   ? MOIETY_E_NO_DEVICE_MEMORY
                   : MOIETY_OK;
    }

    static moiety_status Release(void *context, moiety_devptr address, size_t)
    {
        auto *self = static_cast<SlowSource *>(context);
        self->is_releasing = true;
        while (self->is_stopped)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return pool_test::Get<int(moiety_devptr)>("cuMemFree_v2")(address)
                   ? MOIETY_E_DRIVER
                   : MOIETY_OK;
    }
};

class OomFlight : public OomTest
{
  protected:
    // Segments as they are asked for.
    moiety_pool_options Options(uint32_t wait_ms)
    {
        moiety_pool_options options = Small();
        options.source = &table_;
        options.limit_bytes = 24 * kMiB;
        options.first_segment_bytes = 2 * kMiB;
        options.largest_segment_bytes = 2 * kMiB;
        options.wait_ms = wait_of(wait_ms);
        // So that what is freed is free at once.
        options.thread_cache_bytes = MOIETY_BYTES_NONE;
        return options;
    }

    // A thread that trims, and is on its way when this returns.
    std::thread BeginToTrim(Pool &pool)
    {
        source_.is_releasing = false;
        source_.is_stopped = true;
        std::thread trimming([&pool] {
            pool_test::SetCurrent(pool_test::PrimaryContext());
            EXPECT_OK(moiety_pool_trim(pool, 0, nullptr));
        });
        while (!source_.is_releasing)
            std::this_thread::yield();
        return trimming;
    }

    // Does one thing after the other in a thread that is in the source, for the
    // second, when this returns.
    std::thread BeginToGrow(
        const std::function<void()> &work,
        const std::function<void()> &before = [] {})
    {
        source_.is_asked = false;
        std::thread growing([this, work, before] {
            pool_test::SetCurrent(pool_test::PrimaryContext());
            before();
            source_.is_empty = true;
            work();
        });
        while (!source_.is_asked)
            std::this_thread::yield();
        return growing;
    }

    SlowSource source_;
    moiety_source table_ = source_.Table();
};

// An allocation of 1 MiB finds the source empty. Then, before its last look, another
// thread grows by 2 MiB, of which it leaves 1.5 MiB over.
TEST_F(OomFlight, WhatAGrowthLeavesOverIsWaitedFor)
{
    Pool pool(Options(UINT32_MAX - 1));
    moiety_devptr kept = pool.Alloc(22 * kMiB), grown = 0;
    std::thread growing, serving;
    Callback callback;
    callback.act = [&](uint64_t) {
        growing = BeginToGrow([&] { grown = pool.Alloc(512 * kKiB); });
        serving = std::thread([&] {
            while (pool.Stats().oom_steps[MOIETY_OOM_LAST_LOOK] == 0)
                std::this_thread::yield();
            source_.is_empty = false;
        });
        return 0;
    };
    ASSERT_OK(callback.AddTo(pool));
    source_.refuses = true;
    moiety_devptr block = pool.Alloc(kMiB);
    growing.join();
    serving.join();
    EXPECT_EQ(0u, pool.Stats().ooms);
    for (moiety_devptr one : {kept, grown, block})
        pool.Free(one);
}

TEST_F(OomFlight, WhoDidNotWaitForAGrowthSaysThatItIsNotExact)
{
    Pool pool(Options(0));
    moiety_devptr kept = pool.Alloc(22 * kMiB), grown = 0;
    std::thread growing;
    Callback callback;
    callback.act = [&](uint64_t) {
        growing = BeginToGrow([&] { grown = pool.Alloc(512 * kKiB); });
        return 0;
    };
    ASSERT_OK(callback.AddTo(pool));
    source_.refuses = true;
    EXPECT_EQ(0u, Fail(pool, kMiB).is_exact);
    source_.is_empty = false;
    growing.join();
    pool.Free(pool.Alloc(kMiB));
    pool.Free(kept);
    pool.Free(grown);
}

// Where a thread is while the program's own function runs in a call of it: what it
// has cached is its own, as nobody could tell it that it is gone.
class OomFlightOutside : public OomFlight,
                         public ::testing::WithParamInterface<bool>
{
  protected:
    bool IsWatcher() const
    {
        return GetParam();
    }

    static void Added(void *self, const moiety_segment_info *)
    {
        static_cast<OomFlightOutside *>(self)->source_.Stop();
    }
};

TEST_P(OomFlightOutside, KeepsWhatItHasCached)
{
    moiety_pool_options options = Options(0);
    options.thread_cache_bytes = Small().thread_cache_bytes;
    Pool pool(options);
    moiety_devptr kept = pool.Alloc(20 * kMiB);
    std::vector<moiety_devptr> blocks = Fill(pool, kBlock, 2 * kMiB);
    moiety_segment_watcher watcher = {};
    watcher.struct_size = sizeof watcher;
    watcher.user = this;
    watcher.added = Added;
    moiety_watch id = nullptr;
    source_.is_watched = IsWatcher();
    if (IsWatcher()) {
        ASSERT_OK(moiety_segment_watch(pool, &watcher, &id));
    }
    std::thread growing;
    Callback callback;
    callback.act = [&](uint64_t) {
        growing = BeginToGrow(
            [&] { EXPECT_OK(moiety_pool_reserve(pool, 24 * kMiB)); },
            [&] {
                for (size_t i = 0; i < 4; i++)
                    pool.Free(blocks[i]);
            });
        return 0;
    };
    ASSERT_OK(callback.AddTo(pool));
    source_.refuses = true;
    EXPECT_EQ(0u, Fail(pool, kBlock).is_exact);
    source_.is_empty = false;
    growing.join();
    if (IsWatcher()) {
        EXPECT_OK(moiety_segment_unwatch(pool, id));
    }
    blocks.erase(blocks.begin(), blocks.begin() + 4);
    FreeAll(pool, blocks);
    pool.Free(kept);
}

INSTANTIATE_TEST_SUITE_P(, OomFlightOutside, ::testing::Bool(),
                         [](const auto &row) {
                             return row.param ? "InAWatcher" : "InTheSource";
                         });

TEST_F(OomFlight, ASegmentOnItsWayToTheSourceIsWaitedFor)
{
    Pool pool(Options(UINT32_MAX - 1));
    moiety_devptr kept = pool.Alloc(12 * kMiB);
    pool.Free(pool.Alloc(12 * kMiB), MOIETY_STREAM_DONE);
    std::thread trimming = BeginToTrim(pool);
    std::thread releasing([&] {
        // Most times the other waits by then.
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        source_.is_stopped = false;
    });
    moiety_devptr block = pool.Alloc(12 * kMiB);
    trimming.join();
    releasing.join();
    EXPECT_EQ(0u, pool.Stats().ooms);
    pool.Free(kept);
    pool.Free(block);
}

TEST_F(OomFlight, WhoWaitedLongEnoughSaysThatItIsNotExact)
{
    Pool pool(Options(0));
    moiety_devptr kept = pool.Alloc(12 * kMiB);
    pool.Free(pool.Alloc(12 * kMiB), MOIETY_STREAM_DONE);
    std::thread trimming = BeginToTrim(pool);
    moiety_oom_report report = Fail(pool, 12 * kMiB);
    source_.is_stopped = false;
    trimming.join();
    EXPECT_EQ(0u, report.is_exact);
    EXPECT_EQ(24 * kMiB, report.reserved_bytes);
    EXPECT_EQ(12 * kMiB, report.live_bytes);
    EXPECT_EQ(0u, report.free_bytes);
    pool.Free(kept);
}

struct Guard {
    Guard()
    {
        EXPECT_OK(moiety_capture_guard_begin());
    }

    ~Guard()
    {
        EXPECT_OK(moiety_capture_guard_end());
    }
};

// What a thread leaves behind whose event cannot be recorded under a guard.
class OomUnderAGuard : public OomTest
{
  protected:
    // In a thread that ends.
    static void Leave(Pool &pool, std::vector<moiety_devptr> &blocks,
                      const std::vector<moiety_stream> &streams)
    {
        std::thread([&] {
            for (moiety_stream stream : streams) {
                pool.Free(blocks.back(), stream);
                blocks.pop_back();
            }
        }).join();
    }
};

// It is not done, and no look finds more by being repeated.
TEST_F(OomUnderAGuard, WhatAnEndedThreadLeftLeavesALookExact)
{
    Pool pool(Small());
    Guard guard;
    std::vector<moiety_devptr> blocks = Fill(pool, kBlock);
    Leave(pool, blocks, {MOIETY_STREAM_ANY});
    moiety_oom_report report = Fail(pool, kBlock);
    EXPECT_EQ(1u, report.is_exact);
    EXPECT_EQ(kBlock, report.retiring_bytes);
    FreeAll(pool, blocks);
}

TEST_F(OomUnderAGuard, WhatAnEndedThreadLeftIsFoundBesideWhatIsNotDone)
{
    Pool pool(Small());
    Guard guard;
    std::vector<moiety_devptr> blocks = Fill(pool, kBlock);
    Leave(pool, blocks,
          {MOIETY_STREAM_DONE, MOIETY_STREAM_ANY, MOIETY_STREAM_DONE});
    blocks.push_back(pool.Alloc(kBlock, kStream));
    blocks.push_back(pool.Alloc(kBlock, kStream));
    Fail(pool, kBlock);
    FreeAll(pool, blocks);
}

// Allocations that find nothing in their own caches wait while another looks
// for the last time, but not for good: here the other has to look for as long
// as the trim goes on.
TEST_F(OomFlight, OthersGoOnMeanwhile)
{
    Pool pool(Options(300));
    moiety_devptr kept = pool.Alloc(10 * kMiB);
    moiety_devptr small = pool.Alloc(512);
    pool.Free(pool.Alloc(12 * kMiB), MOIETY_STREAM_DONE);
    std::thread trimming = BeginToTrim(pool);
    std::atomic<bool> is_over{false};
    std::thread failing([&] {
        Fail(pool, 12 * kMiB);
        is_over = true;
    });
    unsigned count = 0;
    while (!is_over) {
        pool.Free(pool.Alloc(1024), MOIETY_STREAM_DONE);
        count++;
    }
    failing.join();
    source_.is_stopped = false;
    trimming.join();
    EXPECT_GT(count, 0u);
    pool.Free(kept);
    pool.Free(small);
}

} // namespace oom_test
