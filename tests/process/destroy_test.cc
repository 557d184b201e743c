// SPDX-License-Identifier: Apache-2.0
//
// A pool that is destroyed while others use it. That is their error; calls that
// are seen under way have it refused, and calls that come later are told.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "tests/pool/pool_under_test.h"
#include "tests/segment/fake_source.h"
#include "tests/support/tools/pools.h"

namespace
{

moiety_status CreateOfDriver(moiety_pool **out)
{
    const moiety_pool_options options = driver_options();
    return moiety_pool_create(&options, out);
}

using namespace pool_test;

using Destroy = StandinTest;

void ExpectToBeRefusedAndUsable(Pool &pool, const char *when)
{
    SCOPED_TRACE(when);
    EXPECT_EQ(MOIETY_E_IN_USE, moiety_pool_destroy(pool, nullptr));
    EXPECT_NE(std::string(), moiety_last_error_message());
}

// A source that tells when it is asked, and answers when told.
struct SlowSource : segment_test::FakeSource {
    SlowSource()
    {
        in_reserve = [](void *self) {
            auto *own = static_cast<SlowSource *>(self);
            own->asked.set_value();
            own->told.get_future().wait();
        };
        in_reserve_argument = this;
    }

    std::promise<void> asked, told;
};

TEST_F(Destroy, WhileAThreadWaitsForTheSourceIsRefused)
{
    SlowSource source;
    moiety_source table = source.Table();
    moiety_pool_options options = pool_test::Defaults();
    options.source = &table;
    Pool pool(options);
    std::thread thread([&] { pool.Free(pool.Alloc(512)); });
    source.asked.get_future().wait();
    ExpectToBeRefusedAndUsable(pool, "in reserve");
    source.told.set_value();
    thread.join();
    source.in_reserve = nullptr;
    pool.Free(pool.Alloc(512));
}

// The driver waits for a stream before it takes memory back.
TEST_F(Destroy, WhileAThreadTrimsIsRefused)
{
    Pool pool, other;
    pool_test::Stream stream;
    moiety_devptr block = other.Alloc(4 * kKiB);
    stream.Hold();
    ASSERT_EQ(0, pool_test::Get<int(uint64_t, unsigned, size_t, void *)>(
                     "cuMemsetD32Async")(block, 1, 1, stream));
    uint64_t before = pool_test::Calls("cuMemFree");
    std::thread thread([&] {
        pool.Free(pool.Alloc(3 * kMiB), MOIETY_STREAM_DONE);
        pool.Trim();
    });
    while (pool_test::Calls("cuMemFree") == before)
        std::this_thread::yield();
    ExpectToBeRefusedAndUsable(pool, "in trim");
    stream.Release();
    thread.join();
    other.Free(block);
    pool.Free(pool.Alloc(512));
}

TEST_F(Destroy, FromItsOwnCallbackIsRefused)
{
    moiety_pool_options options = pool_test::Defaults();
    options.limit_bytes = 4 * kMiB;
    options.first_segment_bytes = 4 * kMiB;
    options.wait_ms = MOIETY_WAIT_NONE;
    Pool pool(options);
    moiety_status answer = MOIETY_OK;
    auto callback = [](moiety_pool *own, size_t, void *user) {
        *static_cast<moiety_status *>(user) = moiety_pool_destroy(own, nullptr);
        return 0;
    };
    ASSERT_OK(moiety_pool_add_oom_callback(pool, callback, &answer));
    moiety_devptr all = pool.Alloc(4 * kMiB), more = 0;
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, 512, kStream, &more));
    EXPECT_EQ(MOIETY_E_IN_USE, answer);
    pool.Free(all);
}

TEST_F(Destroy, OfAPoolThatOthersUsedTellsTheirLaterCalls)
{
    constexpr size_t kThreads = 4;
    std::promise<void> is_gone;
    std::shared_future<void> gone = is_gone.get_future().share();
    std::vector<std::promise<void>> has_used(kThreads);
    std::vector<std::thread> threads;
    moiety_pool *pool = nullptr;
    ASSERT_OK(CreateOfDriver(&pool));
    for (size_t i = 0; i < kThreads; i++)
        threads.emplace_back([&, i] {
            moiety_devptr block = 0, out = 0;
            ASSERT_OK(moiety_alloc(pool, 4 * kKiB, kStream, &block));
            ASSERT_OK(moiety_free(pool, block, kStream));
            has_used[i].set_value();
            gone.wait();
            EXPECT_EQ(MOIETY_E_DESTROYED,
                      moiety_alloc(pool, 4 * kKiB, kStream, &out));
            EXPECT_EQ(MOIETY_E_DESTROYED, moiety_free(pool, block, kStream));
            EXPECT_EQ(MOIETY_E_DESTROYED,
                      moiety_free_sized(pool, block, 4 * kKiB, kStream));
            EXPECT_EQ(MOIETY_E_DESTROYED, moiety_pool_trim(pool, 0, nullptr));
            EXPECT_EQ(MOIETY_E_DESTROYED, moiety_pool_destroy(pool, nullptr));
        });
    for (auto &used : has_used)
        used.get_future().wait();
    EXPECT_OK(moiety_pool_destroy(pool, nullptr));
    is_gone.set_value();
    for (std::thread &thread : threads)
        thread.join();
}

// Whoever waited for its threads' last calls may destroy the pool, although the
// threads themselves, as Python's after join(), have not ended yet.
TEST_F(Destroy, BesideThreadsThatEndSucceeds)
{
    constexpr size_t kThreads = 4;
    for (int round = 0; round < 500; round++) {
        std::atomic<size_t> over_count{0};
        std::vector<std::thread> threads;
        moiety_pool *pool = nullptr;
        ASSERT_OK(CreateOfDriver(&pool));
        for (size_t i = 0; i < kThreads; i++)
            threads.emplace_back([&] {
                moiety_devptr block = 0;
                EXPECT_OK(moiety_alloc(pool, 4 * kKiB, kStream, &block));
                EXPECT_OK(moiety_free(pool, block, kStream));
                over_count++;
            });
        while (over_count < kThreads)
            std::this_thread::yield();
        EXPECT_OK(moiety_pool_destroy(pool, nullptr)) << round;
        for (std::thread &thread : threads)
            thread.join();
    }
}

// --- moiety_pool_destroy_later() ---

bool IsGone(moiety_pool *pool)
{
    return moiety_pool_reset_peaks(pool) == MOIETY_E_DESTROYED;
}

// With memory, and work that it waits for no more.
moiety_pool *PoolInUse()
{
    moiety_pool *pool = nullptr;
    moiety_devptr block = 0;
    EXPECT_OK(CreateOfDriver(&pool));
    EXPECT_OK(moiety_alloc(pool, kMiB, kStream, &block));
    EXPECT_OK(moiety_free(pool, block, kStream));
    return pool;
}

TEST_F(Destroy, LaterIsAtOnceIfNothingKeepsThePool)
{
    moiety_pool *pool = PoolInUse();
    EXPECT_OK(moiety_pool_destroy_later(pool));
    EXPECT_TRUE(IsGone(pool));
    EXPECT_EQ(MOIETY_E_DESTROYED, moiety_pool_destroy_later(pool));
    EXPECT_OK(moiety_pool_destroy_later(nullptr));
}

TEST_F(Destroy, LaterIsAtTheEndOfTheLastGuard)
{
    moiety_pool *pools[] = {PoolInUse(), PoolInUse(), PoolInUse()};
    uint64_t before = pool_test::Calls("cuMemFree");
    ASSERT_OK(moiety_capture_guard_begin());
    ASSERT_OK(moiety_capture_guard_begin());
    EXPECT_EQ(MOIETY_E_INVALID, moiety_alloc(pools[0], 1, kStream, nullptr));
    const std::string message = moiety_last_error_message();
    for (moiety_pool *pool : pools)
        EXPECT_OK(moiety_pool_destroy_later(pool));
    EXPECT_OK(moiety_capture_guard_end());
    EXPECT_EQ(message, moiety_last_error_message());
    EXPECT_FALSE(IsGone(pools[0]));
    EXPECT_EQ(before, pool_test::Calls("cuMemFree"));
    EXPECT_OK(moiety_capture_guard_end());
    for (moiety_pool *pool : pools)
        EXPECT_TRUE(IsGone(pool));
    EXPECT_EQ(before + 3, pool_test::Calls("cuMemFree"));
}

TEST_F(Destroy, LaterIsAtTheEndOfAScope)
{
    pool_test::Stream stream;
    moiety_pool *pool = PoolInUse();
    moiety_scope scope = 0;
    ASSERT_EQ(MOIETY_OK, moiety_scope_begin(pool, stream, &scope));
    EXPECT_EQ(MOIETY_OK, moiety_pool_destroy_later(pool));
    EXPECT_FALSE(IsGone(pool));
    EXPECT_OK(moiety_scope_end(scope));
    EXPECT_TRUE(IsGone(pool));
}

// Its own callback keeps it: the next pool that is made looks again.
TEST_F(Destroy, LaterIsWhenTheNextPoolIsMade)
{
    moiety_pool_options options = pool_test::Defaults();
    options.limit_bytes = 4 * kMiB;
    options.wait_ms = MOIETY_WAIT_NONE;
    moiety_pool *pool = nullptr;
    ASSERT_OK(moiety_pool_create(&options, &pool));
    moiety_status answer = MOIETY_E_INVALID;
    auto callback = [](moiety_pool *own, size_t, void *user) {
        *static_cast<moiety_status *>(user) = moiety_pool_destroy_later(own);
        return 0;
    };
    ASSERT_OK(moiety_pool_add_oom_callback(pool, callback, &answer));
    moiety_devptr all = 0, more = 0;
    ASSERT_OK(moiety_alloc(pool, 4 * kMiB, kStream, &all));
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, 512, kStream, &more));
    EXPECT_OK(answer);
    EXPECT_FALSE(IsGone(pool));
    Pool next;
    EXPECT_TRUE(IsGone(pool));
}

TEST_F(Destroy, LaterMeansWhoDestroysItMeanwhile)
{
    moiety_pool *pool = PoolInUse();
    pool_test::Stream stream;
    moiety_scope scope = 0;
    ASSERT_EQ(MOIETY_OK, moiety_scope_begin(pool, stream, &scope));
    EXPECT_EQ(MOIETY_OK, moiety_pool_destroy_later(pool));
    EXPECT_OK(moiety_pool_destroy_later(pool));
    EXPECT_OK(moiety_scope_end(scope));
    EXPECT_TRUE(IsGone(pool));
}

// Edge LA: whichever comes first, the pool is gone after both.
TEST_F(Destroy, LaterVsTheEndOfTheGuard)
{
    for (int round = 0; round < 300; round++) {
        moiety_pool *pool = PoolInUse();
        ASSERT_OK(moiety_capture_guard_begin());
        std::atomic<int> come{0};
        auto meet = [&] {
            for (come++; come < 2;)
                std::this_thread::yield();
        };
        std::thread thread([&] {
            meet();
            EXPECT_OK(moiety_capture_guard_end());
        });
        meet();
        EXPECT_OK(moiety_pool_destroy_later(pool));
        thread.join();
        EXPECT_TRUE(IsGone(pool)) << round;
    }
}

// --- what two threads do with it at once ---

// A source whose release tells that it is asked, and answers when told.
struct SlowRelease {
    static moiety_status Reserve(void *self, size_t bytes, moiety_devptr *out)
    {
        auto *own = static_cast<SlowRelease *>(self);
        return own->inner.reserve(own->inner.context, bytes, out);
    }

    static moiety_status Release(void *self, moiety_devptr address,
                                 size_t bytes)
    {
        auto *own = static_cast<SlowRelease *>(self);
        own->asked.set_value();
        own->told.get_future().wait();
        return own->inner.release(own->inner.context, address, bytes);
    }

    moiety_pool *PoolInUse()
    {
        moiety_source table = inner;
        table.context = this;
        table.reserve = Reserve;
        table.release = Release;
        moiety_pool_options options = pool_test::Defaults();
        options.source = &table;
        moiety_pool *pool = nullptr;
        moiety_devptr block = 0;
        EXPECT_OK(moiety_pool_create(&options, &pool));
        EXPECT_OK(moiety_alloc(pool, kMiB, kStream, &block));
        EXPECT_OK(moiety_free(pool, block, kStream));
        return pool;
    }

    segment_test::FakeSource source;
    moiety_source inner = source.Table();
    std::promise<void> asked, told;
};

// Each of them meets the thread that destroys it, in the middle of that.
void ExpectOthersToLetItBe(moiety_pool *pool)
{
    EXPECT_EQ(MOIETY_E_DESTROYED, moiety_pool_destroy_later(pool));
    EXPECT_EQ(MOIETY_E_DESTROYED, moiety_pool_destroy(pool, nullptr));
    ASSERT_OK(moiety_capture_guard_begin());
    EXPECT_OK(moiety_capture_guard_end());
    Pool next;
}

TEST_F(Destroy, LaterTwiceIsOnce)
{
    SlowRelease source;
    moiety_pool *pool = source.PoolInUse();
    std::thread thread([&] { EXPECT_OK(moiety_pool_destroy_later(pool)); });
    source.asked.get_future().wait();
    ExpectOthersToLetItBe(pool);
    source.told.set_value();
    thread.join();
    EXPECT_TRUE(IsGone(pool));
}

TEST_F(Destroy, LaterIsByOneThread)
{
    SlowRelease source;
    moiety_pool *pool = source.PoolInUse();
    ASSERT_OK(moiety_capture_guard_begin());
    EXPECT_OK(moiety_pool_destroy_later(pool));
    std::thread thread([&] { EXPECT_OK(moiety_capture_guard_end()); });
    source.asked.get_future().wait();
    ExpectOthersToLetItBe(pool);
    source.told.set_value();
    thread.join();
    EXPECT_TRUE(IsGone(pool));
}

TEST_F(Destroy, LaterFromManyThreadsAtOnce)
{
    constexpr size_t kThreads = 4;
    for (int round = 0; round < 100; round++) {
        moiety_pool *pool = PoolInUse();
        uint64_t before = pool_test::Calls("cuMemFree");
        std::atomic<size_t> come{0};
        std::vector<std::thread> threads;
        for (size_t i = 0; i < kThreads; i++)
            threads.emplace_back([&, i] {
                for (come++; come < kThreads;)
                    std::this_thread::yield();
                moiety_status status = i ? moiety_pool_destroy_later(pool)
                                         : moiety_pool_destroy(pool, nullptr);
                EXPECT_TRUE(status == MOIETY_OK ||
                            status == MOIETY_E_DESTROYED ||
                            (!i && status == MOIETY_E_IN_USE));
            });
        for (std::thread &thread : threads)
            thread.join();
        EXPECT_TRUE(IsGone(pool)) << round;
        EXPECT_EQ(before + 1, pool_test::Calls("cuMemFree"));
    }
}

// A pool whose memory a stream still writes.
class DestroyBusy : public Destroy
{
  protected:
    // A pool that ended without the driver has left its events.
    static void TearDownTestSuite()
    {
        pool_test::ResetContext();
    }

    void SetUp() override
    {
        moiety_pool_options options = pool_test::Defaults();
        set_kind(&options, KIND_MAPPED);
        ASSERT_OK(moiety_pool_create(&options, &pool_));
        ASSERT_OK(moiety_alloc(pool_, kMiB, stream_, &block_));
        stream_.Hold();
        Write();
        ASSERT_OK(moiety_free(pool_, block_, stream_));
    }

    void Write()
    {
        ASSERT_EQ(0, pool_test::Get<int(uint64_t, unsigned, size_t, void *)>(
                         "cuMemsetD32Async")(block_, 1, kMiB / 4, stream_));
    }

    int StreamEnds()
    {
        stream_.Release();
        return pool_test::Get<int(void *)>("cuStreamSynchronize")(stream_);
    }

    void ExpectItsWorkWhole()
    {
        EXPECT_EQ(0, StreamEnds());
        moiety_devptr again = 0;
        EXPECT_OK(moiety_alloc(pool_, kMiB, stream_, &again));
        EXPECT_OK(moiety_free(pool_, again, stream_));
    }

    pool_test::Stream stream_;
    moiety_pool *pool_ = nullptr;
    moiety_devptr block_ = 0;
};

TEST_F(DestroyBusy, WhileAGraphIsCapturedWithoutAGuardIsRefused)
{
    pool_test::Stream captured;
    void *graph = nullptr;
    ASSERT_EQ(0, pool_test::Get<int(void *, int)>("cuStreamBeginCapture_v2")(
                     captured, 2));
    EXPECT_EQ(MOIETY_E_CAPTURING, moiety_pool_destroy(pool_, nullptr));
    ExpectItsWorkWhole();
    pool_test::Get<int(void *, void **)>("cuStreamEndCapture")(captured,
                                                               &graph);
    EXPECT_OK(moiety_pool_destroy(pool_, nullptr));
}

TEST_F(DestroyBusy, WhenTheProgramStopsTheWaitIsRefused)
{
    moiety_set_interrupt([](void *) { return 1; }, nullptr);
    EXPECT_EQ(MOIETY_E_INTERRUPTED, moiety_pool_destroy(pool_, nullptr));
    moiety_set_interrupt(nullptr, nullptr);
    ExpectItsWorkWhole();
    EXPECT_EQ(MOIETY_OK, moiety_pool_destroy(pool_, nullptr));
}

// Without events there is still the wait for all of a context.
TEST_F(DestroyBusy, WhenTheDriverRefusesEventsWaitsWithoutThem)
{
    for (const char *faults :
         {"cuEventCreate:every=1:code=999", "cuCtxRecordEvent:every=1:code=2",
          "cuEventQuery:every=1:code=911"}) {
        SCOPED_TRACE(faults);
        uint64_t before = pool_test::Calls("cuCtxSynchronize");
        pool_test::SetFaults(faults);
        std::thread thread(
            [&] { EXPECT_OK(moiety_pool_destroy(pool_, nullptr)); });
        while (pool_test::Calls("cuCtxSynchronize") == before)
            std::this_thread::yield();
        EXPECT_EQ(0, StreamEnds());
        thread.join();
        pool_test::SetFaults("");
        EXPECT_TRUE(IsGone(pool_));
        SetUp();
    }
    ExpectItsWorkWhole();
    EXPECT_OK(moiety_pool_destroy(pool_, nullptr));
}

TEST_F(DestroyBusy, WhenACaptureForbidsToWaitWithoutEventsIsRefused)
{
    pool_test::SetFaults("cuEventCreate:every=1:code=999,"
                         "cuCtxSynchronize:every=1:code=900");
    EXPECT_EQ(MOIETY_E_CAPTURING, moiety_pool_destroy(pool_, nullptr));
    pool_test::SetFaults("");
    ExpectItsWorkWhole();
    EXPECT_OK(moiety_pool_destroy(pool_, nullptr));
}

// Its memory may be in use for ever: nobody gives it back.
TEST_F(DestroyBusy, WhenTheDriverRefusesEveryWaitEndsWithoutIt)
{
    uint64_t before = pool_test::Calls("cuMemUnmap");
    pool_test::SetFaults("cuCtxRecordEvent:every=1:code=999,"
                         "cuCtxSynchronize:every=1:code=999");
    EXPECT_EQ(MOIETY_E_DRIVER, moiety_pool_destroy(pool_, nullptr));
    EXPECT_NE(
        std::string::npos,
        std::string(moiety_last_error_message()).find("cuCtxSynchronize"));
    pool_test::SetFaults("");
    EXPECT_TRUE(IsGone(pool_));
    EXPECT_EQ(before, pool_test::Calls("cuMemUnmap"));
    EXPECT_EQ(0, StreamEnds());
}

TEST_F(DestroyBusy, AfterOneRefusalOfTheDriverSucceeds)
{
    EXPECT_EQ(0, StreamEnds());
    pool_test::SetFaults("cuCtxRecordEvent:nth=1:code=999");
    EXPECT_OK(moiety_pool_destroy(pool_, nullptr));
    pool_test::SetFaults("");
}

// Nothing runs any more in such a context, and no wait would ever succeed.
TEST_F(DestroyBusy, AfterAFaultOfTheDeviceSucceeds)
{
    pool_test::SetFaults("cuEventQuery:nth=1:code=719");
    EXPECT_EQ(0, StreamEnds());
    EXPECT_EQ(MOIETY_E_DRIVER, moiety_pool_destroy(pool_, nullptr));
    pool_test::SetFaults("");
    EXPECT_EQ(MOIETY_E_DESTROYED, moiety_pool_destroy(pool_, nullptr));
}

// --- later, while the work goes on: nobody waits, or these would hang ---

constexpr uint64_t kLatelyNs = 2000000000;

void ForgetCaptures()
{
    while (moiety_capture_age_ns() < kLatelyNs)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

class DestroyLeft : public DestroyBusy
{
  protected:
    void SetUp() override
    {
        ForgetCaptures();
        DestroyBusy::SetUp();
    }
};

void LeaveUnderAGuard(moiety_pool *pool)
{
    ASSERT_OK(moiety_capture_guard_begin());
    EXPECT_OK(moiety_pool_destroy_later(pool));
    EXPECT_OK(moiety_capture_guard_end());
    EXPECT_FALSE(IsGone(pool));
}

TEST_F(DestroyLeft, LaterHoldsUpNobody)
{
    LeaveUnderAGuard(pool_);
    uint64_t events = pool_test::Calls("cuCtxRecordEvent");
    moiety_host_options options = MOIETY_HOST_OPTIONS_INIT;
    moiety_host *host = nullptr;
    Pool next;
    next.Free(next.Alloc(512));
    EXPECT_OK(moiety_host_create(&options, &host));
    EXPECT_EQ(events, pool_test::Calls("cuCtxRecordEvent"));
    EXPECT_FALSE(IsGone(pool_));
    EXPECT_EQ(0, StreamEnds());
    EXPECT_OK(moiety_host_destroy(host, nullptr));
    EXPECT_TRUE(IsGone(pool_));
}

TEST_F(DestroyLeft, LaterIsInAnAllocationThatTheCachesDoNotServe)
{
    Pool other;
    LeaveUnderAGuard(pool_);
    EXPECT_EQ(0, StreamEnds());
    other.Free(other.Alloc(512));
    EXPECT_TRUE(IsGone(pool_));
}

TEST_F(DestroyLeft, LaterIsInATrim)
{
    Pool other;
    LeaveUnderAGuard(pool_);
    EXPECT_EQ(0, StreamEnds());
    other.Trim();
    EXPECT_TRUE(IsGone(pool_));
}

// Others' work keeps mapped memory no longer, and the driver's as long as it is at
// it, since the driver would wait.
TEST_F(DestroyLeft, LaterIsWhileOthersWorkIfNothingWaitsForThat)
{
    Pool other;
    pool_test::Stream others;
    moiety_devptr block = other.Alloc(kMiB, others);
    moiety_pool *of_driver = PoolInUse();
    LeaveUnderAGuard(pool_);
    LeaveUnderAGuard(of_driver);
    others.Hold();
    ASSERT_EQ(0, pool_test::Get<int(uint64_t, unsigned, size_t, void *)>(
                     "cuMemsetD32Async")(block, 1, 1, others));
    EXPECT_EQ(0, StreamEnds());
    other.Trim();
    EXPECT_TRUE(IsGone(pool_));
    EXPECT_FALSE(IsGone(of_driver));
    others.Release();
    ASSERT_EQ(0, pool_test::Get<int(void *)>("cuStreamSynchronize")(others));
    other.Trim();
    EXPECT_TRUE(IsGone(of_driver));
    other.Free(block, others);
}

// A guard's end is not taken for the end of others' captures.
TEST_F(Destroy, LaterIsWhenNoCaptureWasMetForAWhile)
{
    void *captured = nullptr, *graph = nullptr;
    moiety_pool *met = PoolInUse(), *pool = PoolInUse();
    // A blocking one, of which the legacy stream tells.
    ASSERT_EQ(0, pool_test::Get<int(void **, unsigned)>("cuStreamCreate")(
                     &captured, 0));
    ASSERT_EQ(0, pool_test::Get<int(void *, int)>("cuStreamBeginCapture_v2")(
                     captured, 0));
    EXPECT_OK(moiety_pool_destroy_later(met));
    EXPECT_LT(moiety_capture_age_ns(), kLatelyNs);
    EXPECT_OK(moiety_pool_destroy_later(pool));
    EXPECT_EQ(0, pool_test::Get<int(void *, void **)>("cuStreamEndCapture")(
                     captured, &graph));
    EXPECT_EQ(0, pool_test::Get<int(void *)>("cuGraphDestroy")(graph));
    ASSERT_OK(moiety_capture_guard_begin());
    EXPECT_EQ(0u, moiety_capture_age_ns());
    EXPECT_OK(moiety_capture_guard_end());
    if (moiety_capture_age_ns() < kLatelyNs) {
        EXPECT_FALSE(IsGone(met) || IsGone(pool));
    }
    EXPECT_LT(moiety_capture_age_ns(), UINT64_MAX);
    ForgetCaptures();
    Pool next;
    EXPECT_TRUE(IsGone(met));
    EXPECT_TRUE(IsGone(pool));
    EXPECT_EQ(0, pool_test::Get<int(void *)>("cuStreamDestroy_v2")(captured));
}

// The work may wait for the thread that begins the guard.
TEST_F(DestroyBusy, HoldsUpNoCaptureGuard)
{
    uint64_t before = pool_test::Calls("cuEventQuery");
    std::thread thread([&] { EXPECT_OK(moiety_pool_destroy(pool_, nullptr)); });
    while (pool_test::Calls("cuEventQuery") < before + 2)
        std::this_thread::yield();
    EXPECT_OK(moiety_capture_guard_begin());
    EXPECT_OK(moiety_capture_guard_end());
    EXPECT_EQ(0, StreamEnds());
    thread.join();
}

} // namespace
