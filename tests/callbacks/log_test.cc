// SPDX-License-Identifier: Apache-2.0
//
// The log: what is told, when, by whom, and what its function may do.
#include <atomic>
#include <cerrno>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/pool/pool_under_test.h"
#include "tests/segment/fake_source.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

struct Message {
    uint32_t level;
    std::string text;
    std::thread::id thread;
};

class Log : public ::testing::Test
{
  public:
    static void SetUpTestSuite()
    {
        setenv("MOIETY_STANDIN_MEMORY", "256M", 1);
        pool_test::UseStandin();
    }

    void TearDown() override
    {
        EXPECT_OK(moiety_set_log(0, nullptr, nullptr));
        pool_test::SetFaults("");
    }

    void Listen(uint32_t level = MOIETY_LOG_INFO)
    {
        ASSERT_OK(moiety_set_log(level, Told, this));
    }

    static void Told(uint32_t level, const char *message, void *user)
    {
        auto *self = static_cast<Log *>(user);
        {
            std::lock_guard<std::mutex> guard(self->lock_);
            self->messages_.push_back(
                {level, message, std::this_thread::get_id()});
        }
        if (self->act)
            self->act();
    }

    std::vector<Message> Messages()
    {
        std::lock_guard<std::mutex> guard(lock_);
        return messages_;
    }

    // How many of the level have this in them.
    size_t Count(uint32_t level, const std::string &part)
    {
        size_t count = 0;
        for (const Message &message : Messages())
            count += message.level == level &&
                     message.text.find(part) != std::string::npos;
        return count;
    }

    static moiety_pool_options Small()
    {
        moiety_pool_options options = Defaults();
        options.limit_bytes = 8 * kMiB;
        options.first_segment_bytes = 8 * kMiB;
        options.wait_ms = MOIETY_WAIT_NONE;
        return options;
    }

    static void Fail(moiety_pool *pool)
    {
        moiety_devptr block = 0;
        EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
                  moiety_alloc(pool, 6 * kMiB, kStream, &block));
    }

    std::function<void()> act;

  private:
    std::mutex lock_;
    std::vector<Message> messages_;
};

TEST_F(Log, HasTheReportOfAnAllocationThatFails)
{
    Pool pool(Small());
    moiety_devptr block = pool.Alloc(4 * kMiB);
    Listen(MOIETY_LOG_ERROR);
    errno = 77;
    Fail(pool);
    EXPECT_EQ(77, errno);
    std::vector<Message> messages = Messages();
    ASSERT_EQ(1u, messages.size());
    EXPECT_EQ(uint32_t{MOIETY_LOG_ERROR}, messages[0].level);
    EXPECT_NE(std::string::npos, messages[0].text.find("out of memory: 6 MiB"));
    EXPECT_NE(std::string::npos, messages[0].text.find("last look: taken"));
    EXPECT_NE('\n', messages[0].text.back());
    EXPECT_EQ(std::this_thread::get_id(), messages[0].thread);
    EXPECT_NE(std::string::npos,
              std::string(moiety_last_error_message()).find("6291456 bytes"));
    pool.Free(block);
}

// Once, until the pool has grown again.
TEST_F(Log, SaysThatALimitIsReached)
{
    Pool pool(Small());
    Listen();
    moiety_devptr block = pool.Alloc(4 * kMiB);
    Fail(pool);
    Fail(pool);
    EXPECT_EQ(1u, Count(MOIETY_LOG_INFO, "the limit leaves no room"));
    pool.Free(block, MOIETY_STREAM_DONE);
    pool.TrimAll();
    block = pool.Alloc(4 * kMiB);
    Fail(pool);
    EXPECT_EQ(2u, Count(MOIETY_LOG_INFO, "the limit leaves no room"));
    EXPECT_EQ(3u, Count(MOIETY_LOG_ERROR, "out of memory"));
    pool.Free(block);
}

TEST_F(Log, SaysThatTheDriverHasNoMemoryAndWhoGaveSome)
{
    moiety_pool_options options = driver_options();
    Pool rich(options), poor(options);
    rich.Free(rich.Alloc(200 * kMiB), MOIETY_STREAM_DONE);
    Listen();
    poor.Free(poor.Alloc(100 * kMiB));
    EXPECT_EQ(1u, Count(MOIETY_LOG_WARNING, "the driver has no room"));
    EXPECT_EQ(1u, Count(MOIETY_LOG_INFO, "bytes back for pool"));
    EXPECT_EQ(2u, Messages().size());
}

TEST_F(Log, HasNothingAboveItsLevel)
{
    Pool pool(Small());
    Listen(MOIETY_LOG_WARNING);
    moiety_devptr block = pool.Alloc(4 * kMiB);
    Fail(pool);
    EXPECT_EQ(0u, Count(MOIETY_LOG_INFO, ""));
    EXPECT_EQ(1u, Count(MOIETY_LOG_ERROR, ""));
    pool.Free(block);
}

TEST_F(Log, HasNothingOfCallsThatGoWell)
{
    Listen();
    Pool pool;
    pool.Free(pool.Alloc(kMiB));
    pool.TrimAll();
    pool.End();
    EXPECT_TRUE(Messages().empty());
}

TEST_F(Log, HasWhatTheProgramGivesIt)
{
    CaptureStderr();
    moiety_log(MOIETY_LOG_ERROR, "to %s stderr");
    EXPECT_EQ("moiety: to %s stderr\n", GetCapturedStderr());
    Listen(MOIETY_LOG_WARNING);
    moiety_log(MOIETY_LOG_ERROR, "an error");
    moiety_log(MOIETY_LOG_WARNING, "a warning");
    moiety_log(MOIETY_LOG_INFO, "above the level");
    moiety_log(0, "no level");
    moiety_log(4, "no level");
    moiety_log(MOIETY_LOG_ERROR, nullptr);
    EXPECT_EQ(1u, Count(MOIETY_LOG_ERROR, "an error"));
    EXPECT_EQ(1u, Count(MOIETY_LOG_WARNING, "a warning"));
    EXPECT_EQ(2u, Messages().size());
}

// --- what was printed before ---

TEST_F(Log, HasLeaksAlsoWithoutTheFlag)
{
    moiety_pool_options options = Small();
    Listen();
    for (uint32_t flags : {uint32_t{0}, uint32_t{MOIETY_POOL_REPORT_LEAKS}}) {
        options.flags = flags;
        Pool pool(options);
        pool.Alloc(5 * kKiB);
        CaptureStderr();
        pool.End();
        EXPECT_EQ("", GetCapturedStderr());
    }
    EXPECT_EQ(2u, Count(MOIETY_LOG_WARNING, "1 blocks of cuMemAlloc, 5120 "
                                            "bytes, were not freed: 0x"));
}

TEST_F(Log, WithoutAFunctionLeaksArePrintedByTheFlagAlone)
{
    moiety_pool_options options = Small();
    for (uint32_t flags : {uint32_t{0}, uint32_t{MOIETY_POOL_REPORT_LEAKS}}) {
        options.flags = flags;
        Pool pool(options);
        pool.Alloc(5 * kKiB);
        CaptureStderr();
        pool.End();
        std::string printed = GetCapturedStderr();
        if (flags)
            EXPECT_EQ(0u, printed.find("moiety: 1 blocks of cuMemAlloc, 5120 "
                                       "bytes, were not freed: 0x"));
        else
            EXPECT_EQ("", printed);
    }
}

TEST_F(Log, HasWhatACheckedPoolFinds)
{
    moiety_pool_options options = Small();
    set_kind(&options, KIND_CHECKED);
    options.limit_bytes = 0;
    Pool pool(options);
    moiety_devptr block = pool.Alloc(5 * kKiB);
    pool.Free(block);
    Listen();
    CaptureStderr();
    EXPECT_EQ(MOIETY_E_DOUBLE_FREE, moiety_free(pool, block, kStream));
    EXPECT_EQ("", GetCapturedStderr());
    EXPECT_EQ(1u, Count(MOIETY_LOG_ERROR, "checked: "));
    pool.End();
}

TEST_F(Log, HasWhatASourceDoesNotTakeBack)
{
    segment_test::FakeSource source;
    moiety_source table = source.Table();
    moiety_pool_options options = Defaults();
    options.source = &table;
    Pool pool(options);
    pool.Free(pool.Alloc(512), MOIETY_STREAM_DONE);
    source.failing_release = 1;
    Listen();
    EXPECT_EQ(MOIETY_E_DRIVER, moiety_pool_trim(pool, 0, nullptr));
    EXPECT_EQ(1u, Count(MOIETY_LOG_WARNING, "does not take"));
    pool.End();
}

TEST_F(Log, HasTheEndOfAContext)
{
    moiety_pool_options options = Defaults();
    options.context = pool_test::NewContext();
    Pool pool(options);
    pool_test::DestroyContext(options.context);
    pool_test::SetCurrent(pool_test::PrimaryContext());
    Listen();
    moiety_devptr block = 0;
    EXPECT_EQ(MOIETY_E_CONTEXT_DESTROYED,
              moiety_alloc(pool, 512, kStream, &block));
    EXPECT_EQ(1u, Count(MOIETY_LOG_ERROR, "was reset or destroyed"));
    pool.End();
}

TEST_F(Log, HasWhatAHostArenaDoesWithout)
{
    moiety_host_options options = MOIETY_HOST_OPTIONS_INIT;
    moiety_host *host = nullptr;
    void *block = nullptr;
    moiety_host_stats stats = {};
    stats.struct_size = sizeof(stats);
    options.flags |= MOIETY_HOST_HUGE_1GIB;
    Listen();
    ASSERT_OK(moiety_host_create(&options, &host));
    ASSERT_OK(moiety_host_alloc(host, 4 * kKiB, MOIETY_HOST_CPU, &block));
    ASSERT_OK(moiety_host_get_stats(host, &stats));
    EXPECT_EQ(stats.fallbacks != 0,
              Count(MOIETY_LOG_WARNING, "a host arena does without") != 0);
    ASSERT_OK(moiety_host_free(host, block, MOIETY_STREAM_DONE));
    ASSERT_OK(moiety_host_destroy(host, nullptr));
}

TEST_F(Log, HasThatPreferredMemoryIsNotMapped)
{
    moiety_pool_options options = Defaults();
    set_kind(&options, KIND_AUTO | MOIETY_POOL_EXPORTABLE);
    Listen();
    Pool pool(options);
    EXPECT_EQ(1u, Count(MOIETY_LOG_INFO, "memory is auto"));
}

// --- what the function may do ---

TEST_F(Log, MayUseThePoolAndIsNotToldOfThat)
{
    Pool pool(Small());
    moiety_devptr block = pool.Alloc(4 * kMiB);
    act = [&] {
        moiety_pool_stats stats = {};
        stats.struct_size = sizeof(stats);
        EXPECT_OK(moiety_pool_get_stats(pool, &stats));
        EXPECT_EQ(1u, stats.ooms);
        pool.Free(pool.Alloc(512));
        EXPECT_OK(moiety_pool_trim(pool, 0, nullptr));
        Pool other;
        other.Alloc(512);
        other.End();
    };
    Listen(MOIETY_LOG_WARNING);
    Fail(pool);
    EXPECT_EQ(1u, Messages().size());
    EXPECT_NE(std::string::npos,
              std::string(moiety_last_error_message()).find("6291456 bytes"));
    pool.Free(block);
}

TEST_F(Log, MayFailInThePool)
{
    Pool pool(Small());
    moiety_devptr block = pool.Alloc(4 * kMiB);
    act = [&] { Fail(pool); };
    Listen(MOIETY_LOG_ERROR);
    Fail(pool);
    EXPECT_EQ(1u, Messages().size());
    pool.Free(block);
}

// A lock of the program's under which others allocate: nobody holds anything of
// the pool's while the function waits.
TEST_F(Log, MayTakeALockUnderWhichOthersAllocate)
{
    std::mutex program;
    moiety_pool_options options = Small();
    options.first_segment_bytes = 2 * kMiB;
    Pool pool(options);
    act = [&] { std::lock_guard<std::mutex> guard(program); };
    Listen();
    auto churn = [&] {
        pool_test::SetCurrent(pool_test::PrimaryContext());
        for (int i = 0; i < 200; i++) {
            moiety_devptr block = 0;
            if (moiety_alloc(pool, (i % 4 + 1) * 2 * kMiB, MOIETY_STREAM_DONE,
                             &block) == MOIETY_OK)
                pool.Free(block, MOIETY_STREAM_DONE);
            EXPECT_OK(moiety_pool_trim(pool, 0, nullptr));
        }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++)
        threads.emplace_back(churn);
    // Calls without messages, which would wait for itself.
    std::thread holding([&] {
        for (int i = 0; i < 200; i++) {
            std::lock_guard<std::mutex> guard(program);
            moiety_pool_stats stats = {};
            stats.struct_size = sizeof(stats);
            EXPECT_OK(moiety_pool_get_stats(pool, &stats));
            EXPECT_OK(moiety_pool_trim(pool, 0, nullptr));
        }
    });
    for (std::thread &thread : threads)
        thread.join();
    holding.join();
}

// A source of the program's is in the middle of the pool's call, so what it causes
// is told when that is over.
TEST_F(Log, IsNotCalledInTheMiddleOfACall)
{
    segment_test::FakeSource source;
    moiety_source table = source.Table();
    moiety_pool_options options = Defaults();
    options.source = &table;
    Pool inner(Small());
    moiety_devptr block = inner.Alloc(4 * kMiB);
    struct Inside {
        moiety_pool *inner;
        Log *log;
        size_t told;
    } inside = {inner, this, 77};
    source.in_reserve_argument = &inside;
    source.in_reserve = [](void *argument) {
        auto *self = static_cast<Inside *>(argument);
        Fail(self->inner);
        self->told = self->log->Messages().size();
    };
    Listen(MOIETY_LOG_ERROR);
    Pool outer(options);
    outer.Free(outer.Alloc(512));
    EXPECT_EQ(0u, inside.told);
    EXPECT_EQ(1u, Messages().size());
    inner.Free(block);
}

// --- setting it ---

TEST_F(Log, ChecksItsArguments)
{
    Listen();
    EXPECT_EQ(MOIETY_E_INVALID, moiety_set_log(0, Told, this));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_set_log(4, Told, this));
    Pool pool(Small());
    moiety_devptr block = pool.Alloc(4 * kMiB);
    Fail(pool);
    EXPECT_EQ(1u, Count(MOIETY_LOG_ERROR, "")) << "the one before is there";
    EXPECT_OK(moiety_set_log(77, nullptr, nullptr));
    Fail(pool);
    EXPECT_EQ(1u, Count(MOIETY_LOG_ERROR, ""));
    pool.Free(block);
}

TEST_F(Log, IsNotSetByItself)
{
    Pool pool(Small());
    moiety_devptr block = pool.Alloc(4 * kMiB);
    act = [&] {
        EXPECT_EQ(MOIETY_E_REENTRANT, moiety_set_log(0, nullptr, nullptr));
        EXPECT_EQ(MOIETY_E_REENTRANT, moiety_set_log(1, Told, this));
    };
    Listen(MOIETY_LOG_ERROR);
    Fail(pool);
    Fail(pool);
    EXPECT_EQ(2u, Messages().size());
    pool.Free(block);
}

TEST_F(Log, EndsOnlyWhenItHasReturned)
{
    Pool pool(Small());
    moiety_devptr block = pool.Alloc(4 * kMiB);
    std::atomic<bool> is_running{false}, is_returning{false};
    act = [&] {
        is_running = true;
        // What must not happen is given the time to happen.
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        is_returning = true;
    };
    Listen(MOIETY_LOG_ERROR);
    std::thread failing([&] { Fail(pool); });
    while (!is_running)
        std::this_thread::yield();
    EXPECT_OK(moiety_set_log(0, nullptr, nullptr));
    EXPECT_TRUE(is_returning);
    failing.join();
    pool.Free(block);
}

TEST_F(Log, MayBeSetWhileThreadsHaveMessages)
{
    Pool pool(Small());
    moiety_devptr block = pool.Alloc(4 * kMiB);
    std::atomic<bool> is_over{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; i++)
        threads.emplace_back([&] {
            while (!is_over)
                Fail(pool);
        });
    for (int i = 0; i < 200; i++) {
        Listen(1 + i % 3);
        EXPECT_OK(moiety_set_log(0, nullptr, nullptr));
    }
    is_over = true;
    for (std::thread &thread : threads)
        thread.join();
    pool.Free(block);
}

} // namespace
