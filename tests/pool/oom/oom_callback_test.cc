// SPDX-License-Identifier: Apache-2.0
//
// Callbacks: what they may do, and when they are called.
#include "tests/pool/oom/oom_under_test.h"
#include "tests/support/tools/pools.h"

namespace oom_test
{

class OomCallback : public OomTest
{
};

TEST_F(OomCallback, IsNotCalledWhileThereIsMemory)
{
    Pool pool(Small());
    Callback callback;
    ASSERT_OK(callback.AddTo(pool));
    FreeAll(pool, Fill(pool, kMiB));
    pool.Free(pool.Alloc(8 * kMiB));
    EXPECT_EQ(0u, callback.calls);
}

TEST_F(OomCallback, ThatFreesServesTheAllocation)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    Callback callback;
    callback.act = [&](uint64_t requested_bytes) {
        EXPECT_EQ(3000u, requested_bytes);
        pool.Free(blocks.back(), MOIETY_STREAM_DONE);
        blocks.pop_back();
        return 1;
    };
    ASSERT_OK(callback.AddTo(pool));
    blocks.push_back(pool.Alloc(3000));
    EXPECT_EQ(1u, callback.calls);
    EXPECT_EQ(1u, pool.Stats().oom_steps[MOIETY_OOM_CALLBACKS]);
    EXPECT_EQ(0u, pool.Stats().ooms);
    FreeAll(pool, blocks);
}

// What it frees on a stream is the allocating stream's, or is waited for.
TEST_F(OomCallback, MayFreeOnAnyStream)
{
    moiety_pool_options options = Small();
    options.wait_ms = UINT32_MAX - 1;
    Pool pool(options);
    Stream stream, other;
    for (moiety_stream freed :
         {static_cast<moiety_stream>(stream), static_cast<moiety_stream>(other),
          MOIETY_STREAM_ANY, MOIETY_STREAM_PER_THREAD}) {
        std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
        Callback callback;
        callback.act = [&](uint64_t) {
            pool.Free(blocks.back(), freed);
            blocks.pop_back();
            return 1;
        };
        ASSERT_OK(callback.AddTo(pool));
        blocks.push_back(pool.Alloc(kMiB, stream));
        EXPECT_EQ(1u, callback.calls);
        ASSERT_OK(callback.RemoveFrom(pool));
        FreeAll(pool, blocks);
    }
}

// The driver's memory, which the pool then asks for again.
TEST_F(OomCallback, MayFreeMemoryThatIsNotThePools)
{
    Pool pool;
    Callback callback;
    callback.act = [&](uint64_t) {
        pool_test::SetFaults("");
        return 1;
    };
    ASSERT_OK(callback.AddTo(pool));
    pool_test::SetFaults("cuMemAlloc:every=1:code=CUDA_ERROR_OUT_OF_MEMORY");
    pool.Free(pool.Alloc(512));
    pool_test::SetFaults("");
    EXPECT_EQ(1u, callback.calls);
}

TEST_F(OomCallback, ThatDoesNothingChangesNothing)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    Callback callback;
    ASSERT_OK(callback.AddTo(pool));
    moiety_oom_report report = Fail(pool, 512);
    EXPECT_EQ(1u, callback.calls);
    EXPECT_EQ(1u, report.callback_calls);
    EXPECT_EQ(0u, report.callback_successes);
    EXPECT_EQ(1u, report.steps[MOIETY_OOM_CALLBACKS].tries);
    FreeAll(pool, blocks);
}

TEST_F(OomCallback, ThatClaimsToHaveFreedIsNotBelieved)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    Callback liar, next;
    liar.act = [](uint64_t) { return 1; };
    ASSERT_OK(liar.AddTo(pool));
    ASSERT_OK(next.AddTo(pool));
    moiety_oom_report report = Fail(pool, 512);
    EXPECT_EQ(16u, liar.calls);
    EXPECT_EQ(16u, next.calls);
    EXPECT_EQ(32u, report.callback_calls);
    EXPECT_EQ(16u, report.callback_successes);
    FreeAll(pool, blocks);
}

// A cache that gives up one entry at a time, and another that lies elsewhere.
TEST_F(OomCallback, IsCalledAgainForAsLongAsItFrees)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, 64 * kKiB);
    constexpr size_t needed = 40;
    ASSERT_LT(needed, blocks.size());
    Callback first, second;
    size_t half = blocks.size() - needed / 2;
    first.act = [&](uint64_t) {
        if (blocks.size() <= half)
            return 0;
        pool.Free(blocks.back(), MOIETY_STREAM_ANY);
        blocks.pop_back();
        return 1;
    };
    second.act = [&](uint64_t) {
        if (blocks.size() > half)
            return 0;
        pool.Free(blocks.back(), MOIETY_STREAM_ANY);
        blocks.pop_back();
        return 1;
    };
    ASSERT_OK(first.AddTo(pool));
    ASSERT_OK(second.AddTo(pool));
    moiety_devptr large = pool.Alloc(needed * 64 * kKiB);
    EXPECT_LE(needed, first.calls + second.calls);
    EXPECT_LT(needed / 2 - 1, second.calls);
    EXPECT_EQ(0u, pool.Stats().ooms);
    pool.Free(large);
    FreeAll(pool, blocks);
}

// Enough bytes, but not in one piece.
TEST_F(OomCallback, IsCalledAgainIfWhatItFreedIsInPieces)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, 64 * kKiB);
    Callback callback;
    size_t next = 0;
    callback.act = [&](uint64_t) {
        size_t begin = next;
        for (; next < blocks.size() && next - begin < 32; next += 2)
            pool.Free(blocks[next], MOIETY_STREAM_DONE);
        for (; begin == next && !blocks.empty(); blocks.pop_back())
            if (blocks.size() % 2 == 0)
                pool.Free(blocks.back(), MOIETY_STREAM_DONE);
        return 1;
    };
    ASSERT_OK(callback.AddTo(pool));
    pool.Free(pool.Alloc(kMiB));
    EXPECT_TRUE(blocks.empty());
}

// It waits for what is enough, and does not take more from the program.
TEST_F(OomCallback, IsNotCalledAgainForWhatIsOnItsWay)
{
    moiety_pool_options options = Small();
    options.wait_ms = 20;
    Pool pool(options);
    Stream stream;
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    Callback callback;
    callback.act = [&](uint64_t) {
        pool.Free(blocks.back(), stream);
        blocks.pop_back();
        return 1;
    };
    ASSERT_OK(callback.AddTo(pool));
    stream.Hold();
    (void)Fail(pool, kMiB);
    EXPECT_EQ(1u, callback.calls);
    stream.Release();
    FreeAll(pool, blocks);
}

TEST_F(OomCallback, IsCalledInTheOrderOfRegistrationUntilOneHelps)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    std::string order;
    Callback first, second, third;
    first.act = [&](uint64_t) { return order += "1", 0; };
    second.act = [&](uint64_t) {
        order += "2";
        pool.Free(blocks.back(), MOIETY_STREAM_DONE);
        blocks.pop_back();
        return 1;
    };
    third.act = [&](uint64_t) { return order += "3", 0; };
    for (Callback *callback : {&first, &second, &third})
        ASSERT_OK(callback->AddTo(pool));
    blocks.push_back(pool.Alloc(kMiB));
    EXPECT_EQ("12", order);
    FreeAll(pool, blocks);
}

TEST_F(OomCallback, MayAllocate)
{
    Pool pool(Small());
    moiety_devptr block = pool.Alloc(6 * kMiB);
    Callback callback;
    callback.act = [&](uint64_t) {
        // Another stream and size, so that it is no hit.
        pool.Free(pool.Alloc(kMiB, MOIETY_STREAM_PER_THREAD),
                  MOIETY_STREAM_PER_THREAD);
        return 0;
    };
    ASSERT_OK(callback.AddTo(pool));
    Fail(pool, 4 * kMiB);
    EXPECT_EQ(1u, callback.calls);
    pool.Free(block);
}

TEST_F(OomCallback, IsNotCalledForItsOwnFailures)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    Callback callback;
    callback.act = [&](uint64_t) {
        EXPECT_EQ(1024u, Fail(pool, 1024).requested_bytes);
        return 0;
    };
    ASSERT_OK(callback.AddTo(pool));
    // The outer failure's report is the last one.
    EXPECT_EQ(512u, Fail(pool, 512).requested_bytes);
    EXPECT_EQ(1u, callback.calls);
    EXPECT_EQ(2u, pool.Stats().ooms);
    FreeAll(pool, blocks);
}

TEST_F(OomCallback, MayUseAnotherPoolThatCallsBackAsWell)
{
    Pool pool(Small()), other(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    std::vector<moiety_devptr> others = Fill(other, kMiB);
    Callback outer, inner;
    outer.act = [&](uint64_t) {
        Fail(other, 512);
        return 0;
    };
    inner.act = [&](uint64_t) {
        Fail(pool, 512);
        return 0;
    };
    ASSERT_OK(outer.AddTo(pool));
    ASSERT_OK(inner.AddTo(other));
    Fail(pool, 512);
    EXPECT_EQ(1u, outer.calls);
    EXPECT_EQ(1u, inner.calls);
    FreeAll(pool, blocks);
    FreeAll(other, others);
}

TEST_F(OomCallback, MayRetireOtherStreams)
{
    Pool pool(Small());
    Stream stream, other;
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB, 8 * kMiB, other);
    Callback callback;
    callback.act = [&](uint64_t) {
        pool.Free(blocks.back(), other);
        blocks.pop_back();
        EXPECT_OK(moiety_pool_retire_stream(pool, other));
        pool_test::Synchronize();
        return 1;
    };
    ASSERT_OK(callback.AddTo(pool));
    blocks.push_back(pool.Alloc(kMiB, stream));
    FreeAll(pool, blocks);
}

// Its thread is outside of the pool and has something in its caches, but its
// allocation goes on afterwards: nobody may take them meanwhile.
TEST_F(OomCallback, KeepsItsThreadsCachesFromOthers)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, 64 * kKiB);
    uint64_t threads = 0;
    Callback callback;
    callback.act = [&](uint64_t) {
        // While a guard is held, what ANY freed stays where it is.
        EXPECT_OK(moiety_capture_guard_begin());
        pool.Free(blocks.back(), MOIETY_STREAM_ANY);
        blocks.pop_back();
        std::thread([&] {
            moiety_devptr block = 0;
            pool_test::SetCurrent(pool_test::PrimaryContext());
            EXPECT_EQ(MOIETY_E_WOULD_BLOCK,
                      alloc_no_wait(pool, 64 * kKiB, kStream, &block));
            threads = pool.Stats().threads;
        }).join();
        EXPECT_OK(moiety_capture_guard_end());
        return 1;
    };
    ASSERT_OK(callback.AddTo(pool));
    blocks.push_back(pool.Alloc(64 * kKiB, kStream));
    EXPECT_GE(pool.Stats().oom_steps[MOIETY_OOM_IDLE_THREADS], 1u);
    EXPECT_EQ(2u, threads);
    FreeAll(pool, blocks);
}

TEST_F(OomCallback, IsNotCalledByATry)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    Callback callback;
    moiety_devptr address;
    ASSERT_EQ(MOIETY_OK, callback.AddTo(pool));
    EXPECT_EQ(MOIETY_E_WOULD_BLOCK,
              alloc_no_wait(pool, 512, kStream, &address));
    EXPECT_EQ(0u, callback.calls);
    FreeAll(pool, blocks);
}

class OomRegistration : public OomTest
{
};

TEST_F(OomRegistration, ChecksItsArguments)
{
    Pool pool;
    Callback callback;
    EXPECT_EQ(MOIETY_E_INVALID, callback.AddTo(nullptr));
    EXPECT_EQ(MOIETY_E_INVALID, callback.RemoveFrom(nullptr));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_pool_add_oom_callback(pool, nullptr, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_pool_remove_oom_callback(pool, nullptr, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID, callback.RemoveFrom(pool));
}

TEST_F(OomRegistration, RefusesTheSameTwice)
{
    Pool pool;
    Callback callback, other;
    EXPECT_OK(callback.AddTo(pool));
    EXPECT_EQ(MOIETY_E_INVALID, callback.AddTo(pool));
    EXPECT_OK(other.AddTo(pool));
    EXPECT_OK(callback.RemoveFrom(pool));
    EXPECT_EQ(MOIETY_E_INVALID, callback.RemoveFrom(pool));
    EXPECT_OK(callback.AddTo(pool));
}

TEST_F(OomRegistration, IsOverOnceItIsRemoved)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    Callback callback;
    ASSERT_OK(callback.AddTo(pool));
    ASSERT_OK(callback.RemoveFrom(pool));
    Fail(pool, 512);
    EXPECT_EQ(0u, callback.calls);
    FreeAll(pool, blocks);
}

TEST_F(OomRegistration, ByACallbackCountsFromTheNextFailureOn)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    Callback callback, later;
    callback.act = [&](uint64_t) {
        (void)later.AddTo(pool);
        return 0;
    };
    ASSERT_OK(callback.AddTo(pool));
    Fail(pool, 512);
    EXPECT_EQ(0u, later.calls);
    Fail(pool, 512);
    EXPECT_EQ(1u, later.calls);
    FreeAll(pool, blocks);
}

TEST_F(OomRegistration, IsNotEndedByTheCallbackItself)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    Callback callback;
    callback.act = [&](uint64_t) {
        EXPECT_EQ(MOIETY_E_REENTRANT, callback.RemoveFrom(pool));
        return 0;
    };
    ASSERT_OK(callback.AddTo(pool));
    Fail(pool, 512);
    Fail(pool, 512);
    EXPECT_EQ(2u, callback.calls);
    EXPECT_OK(callback.RemoveFrom(pool));
    FreeAll(pool, blocks);
}

TEST_F(OomRegistration, MayBeEndedByAnotherCallback)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    Callback callback, other;
    callback.act = [&](uint64_t) {
        EXPECT_OK(other.RemoveFrom(pool));
        return 0;
    };
    ASSERT_OK(callback.AddTo(pool));
    ASSERT_OK(other.AddTo(pool));
    Fail(pool, 512);
    EXPECT_EQ(1u, callback.calls);
    EXPECT_EQ(0u, other.calls);
    FreeAll(pool, blocks);
}

// Whether the removal has begun to wait cannot be seen; that it has not ended
// before the callback has can.
TEST_F(OomRegistration, EndsOnlyWhenTheCallbackHasReturned)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    std::atomic<bool> is_running{false}, is_returning{false};
    Callback callback;
    callback.act = [&](uint64_t) {
        is_running = true;
        // What must not happen is given the time to happen.
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        is_returning = true;
        return 0;
    };
    ASSERT_OK(callback.AddTo(pool));
    std::thread failing([&] { Fail(pool, 512); });
    while (!is_running)
        std::this_thread::yield();
    EXPECT_OK(callback.RemoveFrom(pool));
    EXPECT_TRUE(is_returning);
    failing.join();
    FreeAll(pool, blocks);
}

TEST_F(OomRegistration, MayOutliveItsThread)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    Callback callback;
    std::thread([&] { EXPECT_OK(callback.AddTo(pool)); }).join();
    Fail(pool, 512);
    EXPECT_EQ(1u, callback.calls);
    FreeAll(pool, blocks);
}

TEST_F(OomRegistration, OfADestroyedPoolIsRefused)
{
    moiety_pool *pool = nullptr;
    moiety_pool_options options = Small();
    Callback callback;
    ASSERT_OK(moiety_pool_create(&options, &pool));
    ASSERT_OK(callback.AddTo(pool));
    ASSERT_OK(moiety_pool_destroy(pool, nullptr));
    EXPECT_EQ(MOIETY_E_DESTROYED, callback.AddTo(pool));
    EXPECT_EQ(MOIETY_E_DESTROYED, callback.RemoveFrom(pool));
}

} // namespace oom_test
