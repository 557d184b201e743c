// SPDX-License-Identifier: Apache-2.0
//
// Each step of the way out of memory: that it is counted, and what the report
// says that it gave. Each pool is so that the step gives, but not enough.
#include "tests/pool/oom/oom_under_test.h"

namespace oom_test
{

class OomStep : public OomTest
{
  protected:
    static moiety_pool_options SmallSegments()
    {
        moiety_pool_options options = Small();
        options.first_segment_bytes = 2 * kMiB;
        options.largest_segment_bytes = 2 * kMiB;
        return options;
    }
};

TEST_F(OomStep, FinishedBatchesGive)
{
    Pool pool(Small());
    Stream stream;
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    stream.Hold();
    pool.Free(blocks.back(), stream);
    // It leaves the cache, and is not done yet.
    EXPECT_EQ(0u, pool.Trim(UINT64_MAX));
    stream.Release();
    pool_test::Synchronize();
    blocks.pop_back();
    moiety_oom_report report = Fail(pool, 2 * kMiB);
    EXPECT_EQ(1u, report.steps[MOIETY_OOM_DONE].tries);
    EXPECT_EQ(kMiB, report.steps[MOIETY_OOM_DONE].gave_bytes);
    EXPECT_GE(pool.Stats().oom_steps[MOIETY_OOM_DONE], 1u);
    FreeAll(pool, blocks);
}

// The second growth of the same allocation is refused.
TEST_F(OomStep, GrowthIsCounted)
{
    Pool pool(Small());
    moiety_devptr block = pool.Alloc(512);
    moiety_oom_report report = Fail(pool, 8 * kMiB);
    EXPECT_EQ(1u, report.steps[MOIETY_OOM_GROW].tries);
    EXPECT_EQ(0u, report.steps[MOIETY_OOM_GROW].gave_bytes);
    EXPECT_EQ(2u, pool.Stats().oom_steps[MOIETY_OOM_GROW]);
    pool.Free(block);
}

TEST_F(OomStep, TheOwnCacheGives)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kBlock);
    for (int i = 0; i < 3; i++) {
        pool.Free(blocks[static_cast<size_t>(2 * i)], MOIETY_STREAM_DONE);
        blocks[static_cast<size_t>(2 * i)] = 0;
    }
    moiety_oom_report report = Fail(pool, 2 * kBlock);
    EXPECT_EQ(2u, report.steps[MOIETY_OOM_OWN_CACHE].tries)
        << "before the pool grows, and when it may not";
    EXPECT_EQ(3 * kBlock, report.steps[MOIETY_OOM_OWN_CACHE].gave_bytes);
    EXPECT_EQ(2u, pool.Stats().oom_steps[MOIETY_OOM_OWN_CACHE]);
    FreeAll(pool, blocks);
}

// Orphans are adopted first of all, so the step finds those that came since.
TEST_F(OomStep, OrphansAreCounted)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kBlock);
    std::thread([&] { pool.Free(blocks[0], MOIETY_STREAM_DONE); }).join();
    blocks[0] = 0;
    moiety_oom_report report = Fail(pool, 2 * kBlock);
    EXPECT_EQ(kBlock, report.free_bytes);
    EXPECT_EQ(0u, report.cached_ended_bytes);
    EXPECT_EQ(1u, report.steps[MOIETY_OOM_ORPHANS].tries);
    EXPECT_EQ(1u, pool.Stats().oom_steps[MOIETY_OOM_ORPHANS]);
    FreeAll(pool, blocks);
}

TEST_F(OomStep, TrimmingGives)
{
    moiety_pool_options options = Small();
    options.limit_bytes = 48 * kMiB;
    options.first_segment_bytes = 2 * kMiB;
    Pool pool(options);
    // Each in a segment of its own.
    std::vector<moiety_devptr> blocks = Fill(pool, 12 * kMiB, 48 * kMiB);
    pool.Free(blocks[1], MOIETY_STREAM_DONE);
    blocks[1] = 0;
    moiety_oom_report report = Fail(pool, 24 * kMiB);
    EXPECT_EQ(1u, report.steps[MOIETY_OOM_TRIM].tries);
    EXPECT_EQ(12 * kMiB, report.steps[MOIETY_OOM_TRIM].gave_bytes);
    EXPECT_EQ(2u, report.steps[MOIETY_OOM_GROW].tries);
    EXPECT_EQ(36 * kMiB, report.reserved_bytes);
    EXPECT_EQ(3u, report.segment_count);
    FreeAll(pool, blocks);
}

TEST_F(OomStep, HandingOverIsTakenOnlyWhereItIsAllowed)
{
    moiety_pool_options options = Small();
    for (uint32_t flags : {0u, MOIETY_POOL_REUSE_DEPENDENCIES}) {
        options.flags = flags;
        Pool pool(options);
        std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
        moiety_oom_report report = Fail(pool, kMiB);
        EXPECT_EQ(flags ? 1u : 0u, report.steps[MOIETY_OOM_HAND_OVER].tries);
        EXPECT_EQ(flags ? 1u : 0u,
                  pool.Stats().oom_steps[MOIETY_OOM_HAND_OVER]);
        FreeAll(pool, blocks);
    }
}

TEST_F(OomStep, CallbacksGive)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kBlock);
    Callback callback;
    callback.act = [&](uint64_t) {
        bool is_there = blocks[0] != 0;
        pool.Free(blocks[0], MOIETY_STREAM_DONE);
        blocks[0] = 0;
        return is_there;
    };
    ASSERT_OK(callback.AddTo(pool));
    moiety_oom_report report = Fail(pool, 2 * kBlock);
    EXPECT_EQ(2u, report.callback_calls);
    EXPECT_EQ(1u, report.callback_successes);
    EXPECT_EQ(kBlock, report.steps[MOIETY_OOM_CALLBACKS].gave_bytes);
    EXPECT_EQ(kBlock, report.free_bytes);
    FreeAll(pool, blocks);
}

// One stream's memory comes back while another's is waited for in vain. The wait
// is long, so that the releasing thread gets a processor meanwhile.
TEST_F(OomStep, WaitingGives)
{
    moiety_pool_options options = Small();
    options.wait_ms = 2000;
    Pool pool(options);
    Stream held, short_held;
    std::vector<moiety_devptr> blocks = Fill(pool, 512 * kKiB);
    held.Hold();
    short_held.Hold();
    pool.Free(blocks[0], held);
    pool.Free(blocks[8], short_held);
    std::thread releasing([&] {
        while (pool.Stats().oom_steps[MOIETY_OOM_WAIT] == 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        short_held.Release();
    });
    moiety_oom_report report = Fail(pool, kMiB);
    releasing.join();
    EXPECT_GE(report.steps[MOIETY_OOM_WAIT].tries, 1u);
    // An event of the context waits for both; the last look asks the streams.
    EXPECT_EQ(512 * kKiB, report.steps[MOIETY_OOM_WAIT].gave_bytes +
                              report.steps[MOIETY_OOM_LAST_LOOK].gave_bytes);
    EXPECT_EQ(512 * kKiB, report.retiring_bytes);
    ASSERT_EQ(1u, report.stream_count);
    EXPECT_EQ(static_cast<moiety_stream>(held), report.streams[0].stream);
    EXPECT_GE(report.streams[0].oldest_ns, 2000000000u);
    EXPECT_GE(report.duration_ns, 2000000000u);
    held.Release();
    blocks[0] = blocks[8] = 0;
    FreeAll(pool, blocks);
}

TEST_F(OomStep, TheLastLookIsCounted)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    moiety_oom_report report = Fail(pool, kMiB);
    EXPECT_EQ(1u, report.steps[MOIETY_OOM_LAST_LOOK].tries);
    EXPECT_EQ(1u, pool.Stats().oom_steps[MOIETY_OOM_LAST_LOOK]);
    EXPECT_EQ(1u, pool.Stats().ooms);
    FreeAll(pool, blocks);
}

class OomPressure : public OomTest
{
};

// A thread that does as it is told, one thing after the other.
class Worker
{
  public:
    Worker() : thread_([this] { Run(); }) {}
    ~Worker()
    {
        Do(nullptr);
        thread_.join();
    }
    void Do(std::function<void()> work)
    {
        std::unique_lock<std::mutex> lock(lock_);
        work_ = std::move(work);
        is_waiting_ = true;
        changed_.notify_all();
        changed_.wait(lock, [this] { return !is_waiting_; });
    }

  private:
    void Run()
    {
        std::unique_lock<std::mutex> lock(lock_);
        for (bool is_over = false; !is_over;) {
            changed_.wait(lock, [this] { return is_waiting_; });
            is_over = !work_;
            if (work_)
                work_();
            is_waiting_ = false;
            changed_.notify_all();
        }
    }

    std::mutex lock_;
    std::condition_variable changed_;
    std::function<void()> work_;
    bool is_waiting_ = false;
    std::thread thread_;
};

// While this thread climbs, another has its hits, and what they put into its
// cache is found.
TEST_F(OomPressure, WhatHitsFreeMeanwhileIsFound)
{
    Pool pool(Small());
    Worker worker;
    std::vector<moiety_devptr> blocks = Fill(pool, kBlock);
    worker.Do([&] {
        pool.Free(blocks[0], MOIETY_STREAM_DONE);
        blocks[0] = pool.Alloc(kBlock);
    });
    Callback callback;
    callback.act = [&](uint64_t) {
        worker.Do([&] {
            pool.Free(blocks[0], MOIETY_STREAM_DONE);
            pool.Free(blocks[1], MOIETY_STREAM_DONE);
        });
        return 1;
    };
    ASSERT_OK(callback.AddTo(pool));
    // The first two blocks are neighbours.
    blocks[1] = pool.Alloc(2 * kBlock);
    blocks[0] = 0;
    EXPECT_EQ(1u, callback.calls);
    FreeAll(pool, blocks);
}

// The caches of a thread that is in a callback cannot be taken.
TEST_F(OomPressure, WhatACallbackFreesIsInReachOfOthers)
{
    Pool pool(Small());
    Worker worker;
    std::vector<moiety_devptr> blocks = Fill(pool, kBlock);
    moiety_devptr taken = 0;
    Callback callback;
    callback.act = [&](uint64_t) {
        if (callback.calls > 1)
            return 0; // for the other's allocation
        // So that the second one could be a hit.
        for (size_t i : {size_t{0}, size_t{1}})
            pool.Free(blocks[i], MOIETY_STREAM_DONE);
        worker.Do([&] { taken = pool.Alloc(2 * kBlock); });
        return 0;
    };
    ASSERT_OK(callback.AddTo(pool));
    Fail(pool, 4 * kBlock);
    blocks[0] = 0;
    blocks[1] = taken;
    FreeAll(pool, blocks);
}

// Who waits for a stream that is held does not stop those who need nothing.
TEST_F(OomPressure, HitsGoOnWhileAnotherWaits)
{
    const unsigned kPairs = 20000;
    moiety_pool_options options = Small();
    options.wait_ms = 60000;
    Pool pool(options);
    Stream held;
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB, 7 * kMiB);
    // All of the rest, so that the other gains nothing by what is freed here.
    std::vector<moiety_devptr> rest = Fill(pool, kBlock, kMiB);
    held.Hold();
    std::thread waiting([&] {
        pool_test::SetCurrent(pool_test::PrimaryContext());
        pool.Free(blocks[0], held);
        blocks[0] = pool.Alloc(kMiB, kStream);
    });
    while (pool.Stats().oom_steps[MOIETY_OOM_WAIT] == 0)
        std::this_thread::yield();
    uint64_t misses = pool.Stats().cache_misses;
    for (unsigned i = 0; i < kPairs; i++) {
        pool.Free(rest[0], MOIETY_STREAM_DONE);
        rest[0] = pool.Alloc(kBlock);
    }
    EXPECT_LT(pool.Stats().cache_misses - misses, kPairs / 2);
    EXPECT_EQ(0u, pool.Stats().oom_steps[MOIETY_OOM_LAST_LOOK])
        << "it still waits";
    held.Release();
    waiting.join();
    FreeAll(pool, rest);
    FreeAll(pool, blocks);
}

TEST_F(OomPressure, IsOverWithTheClimb)
{
    Pool pool(Small());
    Worker worker;
    std::vector<moiety_devptr> blocks = Fill(pool, kBlock);
    Fail(pool, kBlock);
    worker.Do([&] { pool.Free(blocks[0], MOIETY_STREAM_DONE); });
    EXPECT_EQ(kBlock, pool.Stats().cached_bytes);
    uint64_t misses = pool.Stats().cache_misses;
    worker.Do([&] { blocks[0] = pool.Alloc(kBlock); });
    EXPECT_EQ(misses, pool.Stats().cache_misses);
    FreeAll(pool, blocks);
}

// A thread that sleeps is not asked: what it has is taken.
TEST_F(OomPressure, IdleThreadsAreNotWaitedFor)
{
    moiety_pool_options options = Small();
    options.wait_ms = UINT32_MAX - 1;
    Pool pool(options);
    Worker worker;
    std::vector<moiety_devptr> blocks = Fill(pool, kBlock);
    worker.Do([&] { pool.Free(blocks[0], MOIETY_STREAM_DONE); });
    blocks[0] = pool.Alloc(kBlock);
    EXPECT_EQ(1u, pool.Stats().oom_steps[MOIETY_OOM_IDLE_THREADS]);
    EXPECT_EQ(0u, pool.Stats().oom_steps[MOIETY_OOM_WAIT]);
    FreeAll(pool, blocks);
}

// A stream that is held keeps events of the context from passing, and yet who
// needs what another stream freed has it at once.
TEST_F(OomPressure, IdleStreamsAreNotWaitedFor)
{
    moiety_pool_options options = Small();
    options.wait_ms = UINT32_MAX - 1;
    Pool pool(options);
    Stream held, idle, other;
    held.Hold();
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    for (moiety_devptr &block : blocks) {
        pool.Free(block, idle);
        block = pool.Alloc(kMiB, other);
    }
    EXPECT_EQ(0u, pool.Stats().oom_steps[MOIETY_OOM_LAST_LOOK]);
    held.Release();
    FreeAll(pool, blocks);
}

// What is freed on a stream with work is given up at once, so that who climbs
// can wait for its event.
TEST_F(OomPressure, FreesOnStreamsCanBeWaitedFor)
{
    moiety_pool_options options = Small();
    options.wait_ms = UINT32_MAX - 1;
    Pool pool(options);
    Worker worker;
    Stream stream, held;
    held.Hold();
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    Callback callback;
    callback.act = [&](uint64_t) {
        worker.Do([&] { pool.Free(blocks[0], held); });
        held.Release();
        return 0;
    };
    ASSERT_OK(callback.AddTo(pool));
    blocks[0] = pool.Alloc(kMiB, stream);
    FreeAll(pool, blocks);
}

} // namespace oom_test
