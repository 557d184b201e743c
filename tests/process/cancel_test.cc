// SPDX-License-Identifier: Apache-2.0
//
// A thread that is cancelled in a call: the call is finished first, and what it
// holds, counts and owns is as after any other.
#include <gtest/gtest.h>

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "moiety/expose.h"
#include "moiety/host.h"
#include "tests/pool/pool_under_test.h"
#include "tests/segment/fake_source.h"

namespace
{

using namespace pool_test;
using segment_test::FakeSource;

// A thread that makes one call, with its own cancellation pending: the first
// cancellation point ends it.
class Cancelled
{
  public:
    explicit Cancelled(std::function<moiety_status()> call)
        : call_(std::move(call))
    {
        EXPECT_EQ(0, pthread_create(&thread_, nullptr, Run, this));
    }
    ~Cancelled()
    {
        End();
    }
    Cancelled(const Cancelled &) = delete;
    Cancelled &operator=(const Cancelled &) = delete;

    // What the call returned; it did, and then the cancellation took effect.
    moiety_status End()
    {
        void *result = nullptr;
        if (!is_joined_) {
            is_joined_ = true;
            EXPECT_EQ(0, pthread_join(thread_, &result));
            EXPECT_TRUE(has_returned_) << "the thread ended in the call";
            EXPECT_EQ(PTHREAD_CANCELED, result);
        }
        return status_;
    }

  private:
    static void *Run(void *context)
    {
        auto *self = static_cast<Cancelled *>(context);
        pthread_cancel(pthread_self());
        self->status_ = self->call_();
        self->has_returned_ = true;
        pthread_testcancel();
        return nullptr;
    }

    std::function<moiety_status()> call_;
    pthread_t thread_;
    moiety_status status_ = MOIETY_E_WOULD_BLOCK;
    bool has_returned_ = false;
    bool is_joined_ = false;
};

void Nap()
{
    // Most times the other waits by then.
    usleep(20000);
}

using Cancel = StandinTest;

struct Growth {
    std::atomic<bool> has_begun{false}, may_end{false};

    static void Wait(void *context)
    {
        auto *self = static_cast<Growth *>(context);
        self->has_begun = true;
        while (!self->may_end)
            std::this_thread::yield();
    }
};

TEST_F(Cancel, OfAThreadThatWaitsForAnothersGrowthLeavesNoLock)
{
    FakeSource source;
    Growth growth;
    source.in_reserve = Growth::Wait;
    source.in_reserve_argument = &growth;
    moiety_source table = source.Table();
    moiety_pool_options options = Defaults();
    options.source = &table;
    Pool pool(options);
    moiety_devptr grown = 0, waited = 0;
    std::thread grower([&] { grown = pool.Alloc(64 * kMiB); });
    while (!growth.has_begun)
        std::this_thread::yield();
    Cancelled waiter(
        [&] { return moiety_alloc(pool, 64 * kMiB, kStream, &waited); });
    Nap(); // long enough to wait, most times
    growth.may_end = true;
    EXPECT_OK(waiter.End());
    grower.join();
    pool.Free(pool.Alloc(256 * kMiB));
    pool.Free(grown);
    pool.Free(waited);
}

TEST_F(Cancel, OfAThreadThatIsOutOfMemoryLeavesTheOthersTheirHits)
{
    moiety_pool_options options = Defaults();
    options.limit_bytes = options.first_segment_bytes =
        options.largest_segment_bytes = 2 * kMiB;
    options.wait_ms = 50;
    Pool pool(options);
    Stream stream;
    moiety_devptr all = pool.Alloc(2 * kMiB, stream), none = 0;
    stream.Hold();
    pool.Free(all, stream);
    Cancelled climber(
        [&] { return moiety_alloc(pool, 128 * kKiB, kStream, &none); });
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY, climber.End());
    stream.Release();
    pool_test::Synchronize();
    pool.Free(pool.Alloc(512));
    uint64_t misses = pool.Stats().cache_misses;
    for (int i = 0; i < 100; i++)
        pool.Free(pool.Alloc(512));
    EXPECT_EQ(misses, pool.Stats().cache_misses);
}

TEST_F(Cancel, WaitsForASourceOfThePrograms)
{
    FakeSource source;
    moiety_source table = source.Table();
    moiety_pool_options options = Defaults();
    options.source = &table;
    Pool pool(options);
    source.in_reserve = [](void *) { pthread_testcancel(); };
    moiety_devptr block = 0;
    Cancelled grower(
        [&] { return moiety_alloc(pool, 64 * kMiB, kStream, &block); });
    EXPECT_OK(grower.End());
    source.in_reserve = nullptr;
    pool.Free(block);
}

int AskToBeCancelled(moiety_pool *, uint64_t, void *)
{
    pthread_testcancel();
    return 0;
}

TEST_F(Cancel, WaitsForACallback)
{
    moiety_pool_options options = Defaults();
    options.limit_bytes = options.first_segment_bytes =
        options.largest_segment_bytes = 2 * kMiB;
    options.wait_ms = MOIETY_WAIT_NONE;
    Pool pool(options);
    moiety_devptr all = pool.Alloc(2 * kMiB), none = 0;
    ASSERT_OK(moiety_pool_add_oom_callback(pool, AskToBeCancelled, nullptr));
    Cancelled climber([&] { return moiety_alloc(pool, 512, kStream, &none); });
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY, climber.End());
    EXPECT_OK(moiety_pool_remove_oom_callback(pool, AskToBeCancelled, nullptr));
    pool.Free(all);
}

// Making and ending read files, start threads and write to stderr.
TEST_F(Cancel, WaitsForTheBeginningAndTheEndOfAPool)
{
    moiety_pool_options options = Defaults();
    moiety_pool *pool = nullptr;
    options.flags = MOIETY_POOL_REPORT_LEAKS;
    Cancelled maker([&] { return moiety_pool_create(&options, &pool); });
    ASSERT_OK(maker.End());
    moiety_devptr left = 0;
    ASSERT_OK(moiety_alloc(pool, 512, kStream, &left));
    ::testing::internal::CaptureStderr();
    Cancelled ender([&] { return moiety_pool_destroy(pool, nullptr); });
    EXPECT_OK(ender.End());
    EXPECT_NE(std::string::npos,
              ::testing::internal::GetCapturedStderr().find("1 blocks"));
}

// The first guard records an event, and says on stderr whose capture that broke.
TEST_F(Cancel, WaitsForTheBeginningOfAGuard)
{
    Pool pool;
    Stream captured, stream;
    void *graph = nullptr;
    // More than the caches keep.
    moiety_devptr block = pool.Alloc(16 * kMiB, stream);
    stream.Hold();
    pool.Free(block, stream);
    ASSERT_EQ(0, pool_test::Get<int(void *, int)>("cuStreamBeginCapture_v2")(
                     captured, 2));
    ::testing::internal::CaptureStderr();
    Cancelled beginner([] { return moiety_capture_guard_begin(); });
    EXPECT_OK(beginner.End());
    EXPECT_NE(std::string::npos,
              ::testing::internal::GetCapturedStderr().find("met a graph"));
    Cancelled ender([] { return moiety_capture_guard_end(); });
    EXPECT_OK(ender.End());
    pool_test::Get<int(void *, void **)>("cuStreamEndCapture")(captured,
                                                               &graph);
    stream.Release();
}

TEST_F(Cancel, WaitsForAnArena)
{
    moiety_host_options options = MOIETY_HOST_OPTIONS_INIT;
    moiety_host *host = nullptr;
    options.touch_threads = 2;
    Cancelled maker([&] { return moiety_host_create(&options, &host); });
    ASSERT_OK(maker.End());
    Cancelled grower([&] {
        return moiety_host_reserve(
            host, 64 * kMiB, 2,
            [](void *, uint64_t, uint64_t) { pthread_testcancel(); }, nullptr);
    });
    EXPECT_OK(grower.End());
    Cancelled ender([&] { return moiety_host_destroy(host, nullptr); });
    EXPECT_OK(ender.End());
}

TEST_F(Cancel, WaitsForTheEndOfServing)
{
    char folder[] = "/tmp/cancelXXXXXX";
    ASSERT_NE(nullptr, mkdtemp(folder));
    const std::string path = std::string(folder) + "/socket";
    Cancelled starter([&] { return moiety_expose_start(path.c_str()); });
    EXPECT_OK(starter.End());
    Cancelled stopper([] { return moiety_expose_stop(); });
    EXPECT_OK(stopper.End());
    EXPECT_EQ(0, rmdir(folder));
}

// Each waits for what the other two do with the same pages.
TEST_F(Cancel, WaitsForPages)
{
    static char memory[64 * 1024];
    auto pin_and_unpin = [] {
        pool_test::SetCurrent(pool_test::PrimaryContext());
        moiety_status status = MOIETY_OK;
        for (int i = 0; i < 200 && status == MOIETY_OK; i++) {
            status = moiety_host_pin(memory, sizeof(memory));
            if (status == MOIETY_OK)
                status = moiety_host_unpin(memory, sizeof(memory));
        }
        return status;
    };
    Cancelled one(pin_and_unpin), two(pin_and_unpin), three(pin_and_unpin);
    EXPECT_OK(one.End());
    EXPECT_OK(two.End());
    EXPECT_OK(three.End());
}

// A hit is no cancellation point, and no call leaves the state changed.
TEST_F(Cancel, IsAsItWasAfterEachCall)
{
    Pool pool;
    int state = PTHREAD_CANCEL_DISABLE;
    pool.Free(pool.Alloc(512));
    ASSERT_EQ(0, pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state));
    EXPECT_EQ(PTHREAD_CANCEL_ENABLE, state);
    pool.Free(pool.Alloc(3 * kMiB));
    pool.Trim();
    ASSERT_EQ(0, pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state));
    EXPECT_EQ(PTHREAD_CANCEL_DISABLE, state);
}

} // namespace
