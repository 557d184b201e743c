// SPDX-License-Identifier: Apache-2.0
//
// Forks while other threads are in the middle of everything: each child is
// answered by every public function at once, whatever locks its parent's
// threads held, and calls no driver; the parent goes on.
#include <gtest/gtest.h>

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/pool/pool_under_test.h"
#include "tests/process/every_function.h"
#include "tests/serve/keeper_under_test.h"
#include "tests/support/tools/pools.h"

// A child has what the parent's threads were, and cannot join them.
extern "C" MOIETY_API const char *__tsan_default_options();
extern "C" const char *__tsan_default_options()
{
    return "report_thread_leaks=0";
}

namespace
{

using namespace pool_test;
using namespace process_test;

constexpr int kDriverWasCalled = 200;
constexpr unsigned kSecondsUntilAChildHangs = 60;
// TSan reports threads that were to be joined when the parent forked, and is not
// made for bare forks while threads come and go: there the arena does not grow.
#if defined(__SANITIZE_THREAD__)
constexpr uint64_t kKeepBytes = UINT64_MAX;
#else
constexpr uint64_t kKeepBytes = 0;
#endif

unsigned Rounds()
{
    const char *text = std::getenv("MOIETY_TEST_FORKS");
    return text ? static_cast<unsigned>(std::atoi(text)) : 1000;
}

class Forks : public StandinTest
{
  protected:
    void SetUp() override
    {
        moiety_pool_options options = pool_test::Defaults();
        options.flags = MOIETY_POOL_EXPORTABLE | MOIETY_POOL_NOTE_STREAMS;
        options.first_segment_bytes = options.largest_segment_bytes = 4 * kMiB;
        ASSERT_OK(moiety_pool_create(&options, &arguments_.pool));
        ASSERT_OK(moiety_alloc(arguments_.pool, 4 * kKiB, MOIETY_STREAM_LEGACY,
                               &arguments_.block));
        ASSERT_OK(moiety_ipc_export(arguments_.pool, arguments_.block,
                                    &arguments_.handle));
        ASSERT_OK(create_tenant(arguments_.pool, "", 0, &arguments_.tenant));
        ASSERT_OK(create_arena(arguments_.pool, 0, &arguments_.arena));
        MakeHostArena();
        MakeRegion();
        arguments_.stream = stream_;
        arguments_.event = pool_test::NewEvent();
        arguments_.context = pool_test::PrimaryContext();
        calls_ = EveryFunctionInAChild(arguments_);
        // No look-up of a symbol in a child.
        driver_calls_ =
            pool_test::Get<uint64_t(const char *)>("moiety_standin_calls");
    }

    void MakeHostArena()
    {
        moiety_host_options options = MOIETY_HOST_OPTIONS_INIT;
        options.first_segment_bytes = options.largest_segment_bytes = 2 * kMiB;
        options.touch_threads = 1;
        ASSERT_OK(moiety_host_create(&options, &arguments_.host));
        ASSERT_OK(moiety_host_reserve_async(arguments_.host, 4 * kMiB, 1,
                                            &arguments_.growth));
        ASSERT_OK(moiety_growth_wait(arguments_.growth, 600000));
        ASSERT_OK(moiety_host_alloc(arguments_.host, 4 * kKiB, MOIETY_HOST_CPU,
                                    &arguments_.host_block));
    }

    void MakeRegion()
    {
        moiety_keeper_options at = MOIETY_KEEPER_OPTIONS_INIT;
        moiety_region_part part = {nullptr, 0, 2 * kMiB, 0, 0};
        moiety_region_options options = MOIETY_REGION_OPTIONS_INIT;
        at.path = keeper_.path().c_str();
        options.name = "region";
        options.parts = &part;
        options.part_count = 1;
        ASSERT_OK(moiety_keeper_connect(&at, &arguments_.keeper));
        ASSERT_OK(moiety_region_create(arguments_.keeper, &options,
                                       &arguments_.region));
    }

    void TearDown() override
    {
        EXPECT_OK(moiety_region_close(arguments_.region));
        EXPECT_OK(moiety_keeper_disconnect(arguments_.keeper));
        pool_test::DestroyEvent(arguments_.event);
        EXPECT_OK(moiety_host_free(arguments_.host, arguments_.host_block,
                                   MOIETY_STREAM_DONE));
        EXPECT_OK(moiety_host_destroy(arguments_.host, nullptr));
        EXPECT_OK(moiety_growth_destroy(arguments_.growth));
        EXPECT_OK(moiety_private_destroy(arguments_.arena));
        EXPECT_OK(moiety_ipc_release_exports(arguments_.pool, 0));
        EXPECT_OK(
            moiety_free(arguments_.pool, arguments_.block, MOIETY_STREAM_DONE));
        moiety_leaks leaks = {};
        leaks.struct_size = sizeof(leaks);
        EXPECT_OK(moiety_pool_destroy(arguments_.pool, &leaks));
        EXPECT_EQ(0u, leaks.block_count);
    }

    // In the child: 0, or which of the calls, counted from 1, was wrong.
    int CallEverything()
    {
        int index = 0;
        alarm(kSecondsUntilAChildHangs);
        uint64_t before = driver_calls_("*");
        for (const auto &call : calls_) {
            index++;
            if (!call.second())
                return index;
        }
        return driver_calls_("*") == before ? 0 : kDriverWasCalled;
    }

    // `by_library`: with handlers of fork, or as bare as the kernel does it.
    void ForkOnce(bool by_library)
    {
        pid_t child =
            by_library ? fork() : static_cast<pid_t>(syscall(SYS_fork));
        if (child == 0)
            _exit(CallEverything());
        int status = -1;
        ASSERT_EQ(child, waitpid(child, &status, 0));
        ASSERT_TRUE(WIFEXITED(status))
            << "signal " << WTERMSIG(status) << "; 14: it hung";
        ASSERT_EQ(0, WEXITSTATUS(status))
            << "which of the calls, in the order of names; 200: the driver was "
               "called";
    }

    serve_test::Keeper keeper_;
    Arguments arguments_ = {};
    pool_test::Stream stream_;
    std::map<std::string, std::function<bool()>> calls_;
    uint64_t (*driver_calls_)(const char *) = nullptr;
};

TEST_F(Forks, EveryPublicFunctionIsCalled)
{
    std::set<std::string> expected, found;
    std::ifstream symbols("tests/abi/symbols.txt");
    for (std::string name; std::getline(symbols, name);)
        expected.insert(name);
    for (const auto &call : calls_)
        found.insert(call.first);
    EXPECT_EQ(expected, found) << "a function is missing in every_function.cc";
}

TEST_F(Forks, AtRestAnswerEveryFunction)
{
    ForkOnce(true);
    ForkOnce(false);
}

// What the other threads are in the middle of. Each returns how often its calls
// were not answered with MOIETY_OK.
class Load
{
  public:
    explicit Load(const Arguments &arguments)
        : pool_(arguments.pool), arena_(arguments.arena), host_(arguments.host)
    {
        threads_.emplace_back([this] { Run(&Load::AllocAndFree); });
        threads_.emplace_back([this] { Run(&Load::AllocAndTrim); });
        threads_.emplace_back([this] { Run(&Load::AllocAndRetire); });
        threads_.emplace_back([this] { Run(&Load::ExportAndImport); });
        threads_.emplace_back([this] { Run(&Load::UsePrivateArena); });
        threads_.emplace_back([this] { Run(&Load::UseHostArena); });
    }

    // Returns how many rounds each thread made, at least.
    unsigned Stop()
    {
        is_over_ = true;
        unsigned least = UINT32_MAX;
        for (std::thread &thread : threads_)
            thread.join();
        for (unsigned rounds : rounds_)
            least = std::min(least, rounds);
        return least;
    }

    unsigned failed_count() const
    {
        return failed_count_;
    }

  private:
    void Run(void (Load::*body)())
    {
        unsigned rounds = 0;
        pool_test::SetCurrent(pool_test::PrimaryContext());
        do {
            (this->*body)();
            rounds++;
        } while (!is_over_);
        std::lock_guard<std::mutex> hold(lock_);
        rounds_.push_back(rounds);
    }

    void Try(moiety_status status)
    {
        failed_count_ += status != MOIETY_OK;
    }

    void AllocAndFree()
    {
        moiety_devptr addresses[40] = {};
        for (moiety_devptr &address : addresses)
            Try(moiety_alloc(pool_, 20 * kKiB, MOIETY_STREAM_LEGACY, &address));
        for (moiety_devptr address : addresses)
            Try(moiety_free(pool_, address, MOIETY_STREAM_ANY));
    }

    void AllocAndTrim()
    {
        moiety_devptr address = 0;
        Try(moiety_alloc(pool_, 3 * kMiB, MOIETY_STREAM_LEGACY, &address));
        Try(moiety_free(pool_, address, MOIETY_STREAM_DONE));
        Try(moiety_pool_trim(pool_, 0, nullptr));
    }

    void AllocAndRetire()
    {
        pool_test::Stream stream;
        moiety_devptr address = 0;
        Try(moiety_alloc(pool_, 4 * kKiB, stream, &address));
        Try(moiety_record_use(pool_, address, MOIETY_STREAM_LEGACY));
        Try(moiety_free(pool_, address, stream));
        Try(moiety_pool_retire_stream(pool_, stream));
        moiety_pool_stats stats = {};
        stats.struct_size = sizeof(stats);
        Try(moiety_pool_get_stats(pool_, &stats));
    }

    void ExportAndImport()
    {
        moiety_devptr block = 0, address = 0;
        moiety_ipc_handle handle;
        Try(moiety_alloc(pool_, 64 * kKiB, MOIETY_STREAM_LEGACY, &block));
        Try(moiety_ipc_export(pool_, block, &handle));
        Try(moiety_ipc_import(&handle, sizeof handle, nullptr, &address));
        Try(moiety_ipc_close(address, MOIETY_STREAM_DONE, nullptr));
        Try(moiety_ipc_release_exports(pool_, block));
        Try(moiety_free(pool_, block, MOIETY_STREAM_LEGACY));
        Try(moiety_ipc_trim(0, nullptr));
    }

    void UsePrivateArena()
    {
        moiety_devptr address = 0;
        Try(alloc_of_arena(arena_, 3 * kMiB, MOIETY_STREAM_LEGACY, &address));
        Try(moiety_free_on_alloc_stream(pool_, address));
        Try(moiety_private_claim(arena_, address, 3 * kMiB,
                                 MOIETY_STREAM_LEGACY));
        Try(moiety_free(pool_, address, MOIETY_STREAM_DONE));
        Try(moiety_private_trim(arena_, nullptr));
    }

    void UseHostArena()
    {
        void *block = nullptr;
        char text[512];
        Try(moiety_host_alloc(host_, 2 * kMiB, MOIETY_HOST_CPU, &block));
        Try(moiety_host_report(host_, text, sizeof text));
        Try(moiety_host_free(host_, block, MOIETY_STREAM_DONE));
        Try(moiety_host_trim(host_, kKeepBytes, nullptr));
        Try(moiety_host_pin(text, sizeof text));
        Try(moiety_host_unpin(text, sizeof text));
    }

    moiety_pool *pool_;
    moiety_private arena_;
    moiety_host *host_;
    std::atomic<bool> is_over_{false};
    std::atomic<unsigned> failed_count_{0};
    std::mutex lock_;
    std::vector<unsigned> rounds_;
    std::vector<std::thread> threads_;
};

TEST_F(Forks, InTheMiddleOfEverythingAnswerEveryFunction)
{
    Load load(arguments_);
    unsigned rounds = Rounds();
    for (unsigned i = 0; i < rounds && !HasFatalFailure(); i++)
        ForkOnce(i % 2);
    unsigned least = load.Stop();
    std::printf("%u forks, %zu calls in each child; every thread made %u "
                "rounds or more\n",
                rounds, calls_.size(), least);
    EXPECT_EQ(0u, load.failed_count()) << "calls of the parent";
}

} // namespace
