// SPDX-License-Identifier: Apache-2.0
//
// Growths of an arena in a thread of their own: how they end, what ends them, and
// what is left of them.
#include "tests/host/arena_under_test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "moiety/callbacks.h"
#include "moiety/pool.h"
#include "moiety/segment.h"
#include "tests/host/pinned_under_test.h"

namespace host_test
{
namespace
{

constexpr uint64_t kPiece = 4 * kMiB;
constexpr uint64_t kAll = 4 * kPiece;
constexpr uint32_t kLong = 600000;
constexpr unsigned kNever = 1000000;

std::string Message()
{
    return moiety_last_error_message();
}

moiety_host_options Pieces()
{
    moiety_host_options options = HostDefaults();
    options.first_segment_bytes = options.largest_segment_bytes = kPiece;
    options.limit_bytes = 64 * kMiB;
    options.stall_ms = 60000; // the patience with a turn follows from it
    options.wait_ms = MOIETY_WAIT_NONE;
    options.touch_threads = 2;
    return options;
}

class GrowthTest : public PinnedTest
{
  protected:
    void SetUp() override
    {
        PinnedTest::SetUp();
        host_count_ = pool_test::Live("host");
        const char *folder = getenv("TEST_TMPDIR");
        folder_ = folder ? folder : "/tmp";
        setenv("MOIETY_LOCK_DIR", folder_.c_str(), 1);
        unlink(LockFile().c_str());
    }
    // Not what is mapped: the process keeps the records of as many threads as there
    // were at a time, and nobody waits for the exit of a growth's.
    void TearDown() override
    {
        (void)failing_steps_disarm();
        pool_test::SetFaults("");
        EXPECT_EQ(host_count_, pool_test::Live("host"));
    }
    std::string LockFile() const
    {
        return folder_ + "/moiety-pin." + std::to_string(geteuid());
    }

    std::string folder_;
    int64_t host_count_ = 0;
};

// As long as there is one, growths wait for their turn.
class Turn
{
  public:
    explicit Turn(const std::string &path)
        : file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600))
    {
        EXPECT_EQ(0, flock(file_, LOCK_EX));
    }
    ~Turn()
    {
        close(file_);
    }
    Turn(const Turn &) = delete;
    Turn &operator=(const Turn &) = delete;

  private:
    int file_;
};

class Growth
{
  public:
    explicit Growth(moiety_host *host, uint64_t bytes = kAll)
    {
        EXPECT_EQ(MOIETY_OK, moiety_host_reserve_async(host, bytes, 0, &own_))
            << Message();
    }
    ~Growth()
    {
        EXPECT_EQ(MOIETY_OK, moiety_growth_destroy(own_));
    }
    Growth(const Growth &) = delete;
    Growth &operator=(const Growth &) = delete;
    operator moiety_growth *() const
    {
        return own_;
    }
    moiety_status Wait(uint32_t timeout_ms = kLong) const
    {
        return moiety_growth_wait(own_, timeout_ms);
    }
    bool IsReadable(int timeout_ms = 0) const
    {
        pollfd one = {moiety_growth_descriptor(own_), POLLIN, 0};
        return poll(&one, 1, timeout_ms) == 1;
    }

  private:
    moiety_growth *own_ = nullptr;
};

TEST_F(GrowthTest, PinsAllInAThreadOfItsOwn)
{
    Arena arena(Pieces());
    Growth growth(arena);
    EXPECT_TRUE(growth.IsReadable(-1));
    EXPECT_TRUE(growth.IsReadable());
    EXPECT_OK(growth.Wait(0)) << Message();
    EXPECT_OK(growth.Wait());
    EXPECT_EQ(kAll, moiety_growth_ready_bytes(growth));
    EXPECT_EQ(kAll, arena.Stats().pinned_bytes);
    EXPECT_EQ(4u, arena.Stats().region_count);
}

TEST_F(GrowthTest, IsOverAtOnceWhereAllIsThere)
{
    Arena arena(Pieces());
    EXPECT_OK(moiety_host_reserve(arena, kAll, 0, nullptr, nullptr));
    Growth growth(arena);
    EXPECT_OK(growth.Wait());
    EXPECT_EQ(0u, moiety_growth_ready_bytes(growth));
    EXPECT_EQ(kAll, arena.Stats().pinned_bytes);
}

TEST_F(GrowthTest, GoesOnUntilItHasHadItsTurn)
{
    Arena arena(Pieces());
    auto turn = std::make_unique<Turn>(LockFile());
    Growth growth(arena);
    EXPECT_EQ(MOIETY_E_TIMEOUT, growth.Wait(0));
    EXPECT_EQ(MOIETY_E_TIMEOUT, growth.Wait(30)) << Message();
    EXPECT_FALSE(growth.IsReadable());
    EXPECT_EQ(0u, moiety_growth_ready_bytes(growth));
    // Blocks are pinned for those that want one meanwhile.
    arena.Free(arena.Alloc(kMiB));
    turn.reset();
    EXPECT_OK(growth.Wait()) << Message();
    EXPECT_EQ(kAll, arena.Stats().pinned_bytes);
}

TEST_F(GrowthTest, SeveralOfAnArenaAreDoneTogether)
{
    Arena arena(Pieces());
    Growth small(arena, 2 * kPiece);
    Growth large(arena, kAll);
    EXPECT_OK(small.Wait());
    EXPECT_OK(large.Wait());
    EXPECT_EQ(kAll, arena.Stats().pinned_bytes);
}

// --- its ends ---

TEST_F(GrowthTest, EndsWhenItIsCancelledBeforeItHasBegun)
{
    Arena arena(Pieces());
    {
        Turn turn(LockFile());
        Growth growth(arena);
        moiety_growth_cancel(growth);
        EXPECT_EQ(MOIETY_E_INTERRUPTED, growth.Wait());
        EXPECT_NE("", Message());
    }
    EXPECT_EQ(0u, arena.Stats().pinned_bytes);
    EXPECT_OK(moiety_host_reserve(arena, kAll, 0, nullptr, nullptr));
}

TEST_F(GrowthTest, EndsWithoutAnotherThatGoesOn)
{
    Arena arena(Pieces());
    auto turn = std::make_unique<Turn>(LockFile());
    Growth first(arena);
    Growth second(arena);
    moiety_growth_cancel(first);
    EXPECT_EQ(MOIETY_E_INTERRUPTED, first.Wait());
    turn.reset();
    EXPECT_OK(second.Wait());
    EXPECT_EQ(kAll, arena.Stats().pinned_bytes);
}

TEST_F(GrowthTest, EndsWithAllThatPinsMemoryForTheArena)
{
    Arena arena(Pieces());
    Turn turn(LockFile());
    Growth first(arena);
    Growth second(arena);
    moiety_host_cancel(arena);
    EXPECT_EQ(MOIETY_E_INTERRUPTED, first.Wait());
    EXPECT_EQ(MOIETY_E_INTERRUPTED, second.Wait());
}

TEST_F(GrowthTest, EndsBeforeATrim)
{
    Arena arena(Pieces());
    Turn turn(LockFile());
    Growth growth(arena);
    EXPECT_OK(moiety_host_trim(arena, 0, nullptr));
    EXPECT_EQ(MOIETY_E_INTERRUPTED, growth.Wait());
}

TEST_F(GrowthTest, EndsWithItsArenaAndKeepsItsHandle)
{
    moiety_host *host = nullptr;
    moiety_host_options options = Pieces();
    EXPECT_OK(moiety_host_create(&options, &host));
    Turn turn(LockFile());
    Growth growth(host);
    EXPECT_OK(moiety_host_destroy(host, nullptr)) << Message();
    EXPECT_EQ(MOIETY_E_INTERRUPTED, growth.Wait(0));
    EXPECT_TRUE(growth.IsReadable(-1));
    moiety_growth *none = nullptr;
    EXPECT_NE(MOIETY_OK, moiety_host_reserve_async(host, kAll, 0, &none));
    EXPECT_EQ(nullptr, none);
}

TEST_F(GrowthTest, EndsWithAnArenaThatIsDestroyedLater)
{
    moiety_host *host = nullptr;
    moiety_host_options options = Pieces();
    EXPECT_OK(moiety_host_create(&options, &host));
    EXPECT_OK(moiety_host_reserve(host, kPiece, 0, nullptr, nullptr));
    {
        Turn turn(LockFile());
        Growth growth(host);
        EXPECT_OK(moiety_host_destroy_later(host)) << Message();
        EXPECT_EQ(MOIETY_E_INTERRUPTED, growth.Wait());
    }
    // Its thread ends the arena, or the next call that makes one.
    while (pool_test::Live("host") != host_count_)
        Arena next(Pieces());
}

moiety_growth *g_cancelled;

TEST_F(GrowthTest, EndsByASignalHandler)
{
    Arena arena(Pieces());
    Turn turn(LockFile());
    Growth growth(arena);
    g_cancelled = growth;
    struct sigaction action = {};
    struct sigaction before;
    action.sa_handler = [](int) { moiety_growth_cancel(g_cancelled); };
    ASSERT_EQ(0, sigaction(SIGUSR1, &action, &before));
    // To any thread of the process that has it not blocked: this one.
    EXPECT_EQ(0, kill(getpid(), SIGUSR1));
    EXPECT_EQ(MOIETY_E_INTERRUPTED, growth.Wait());
    EXPECT_EQ(0, sigaction(SIGUSR1, &before, nullptr));
}

TEST_F(GrowthTest, GoesOnWhereTheProgramEndsAWait)
{
    Arena arena(Pieces());
    auto turn = std::make_unique<Turn>(LockFile());
    Growth growth(arena);
    moiety_set_interrupt([](void *) { return 1; }, nullptr);
    EXPECT_EQ(MOIETY_E_INTERRUPTED, growth.Wait());
    moiety_set_interrupt(nullptr, nullptr);
    EXPECT_EQ(MOIETY_E_TIMEOUT, growth.Wait(0));
    turn.reset();
    EXPECT_OK(growth.Wait());
}

// --- in functions that the pool calls ---

struct Watched {
    moiety_host *arena = nullptr;
    moiety_growth *growth = nullptr;
    moiety_status destroyed = MOIETY_OK;
    moiety_status trimmed = MOIETY_OK;
    unsigned calls = 0;
};

// While another growth may wait for the one that calls this.
void Added(void *user, const moiety_segment_info *)
{
    auto *watched = static_cast<Watched *>(user);
    if (watched->calls++ > 0)
        return;
    watched->destroyed = moiety_host_destroy(watched->arena, nullptr);
    watched->trimmed = moiety_host_trim(watched->arena, 0, nullptr);
    // Its own, or another's.
    EXPECT_OK(moiety_growth_destroy(watched->growth));
}

TEST_F(GrowthTest, AWatcherWaitsForNoGrowth)
{
    for (bool is_own : {false, true}) {
        SCOPED_TRACE(is_own);
        Arena arena(Pieces());
        Watched watched;
        moiety_segment_watcher watcher = {};
        watcher.struct_size = sizeof(watcher);
        watcher.added = Added;
        watcher.user = &watched;
        moiety_watch watch = {};
        EXPECT_OK(
            moiety_segment_watch(moiety_host_pool(arena), &watcher, &watch));
        auto turn = std::make_unique<Turn>(LockFile());
        watched.arena = arena;
        EXPECT_OK(moiety_host_reserve_async(arena, kAll, 0, &watched.growth));
        if (is_own) {
            turn.reset();
        } else {
            arena.Free(arena.Alloc(kMiB));
            turn.reset();
        }
        while (arena.Stats().region_count == 0)
            std::this_thread::yield();
        EXPECT_OK(moiety_segment_unwatch(moiety_host_pool(arena), watch));
        EXPECT_EQ(MOIETY_E_REENTRANT, watched.destroyed);
        EXPECT_EQ(MOIETY_E_REENTRANT, watched.trimmed);
        EXPECT_LE(1u, watched.calls);
    }
}

// --- what fails ---

TEST_F(GrowthTest, SaysToEveryThreadWhyItFailed)
{
    Arena arena(Pieces());
    pool_test::SetFaults(
        "cuMemHostRegister:every=1:code=CUDA_ERROR_OUT_OF_MEMORY");
    Growth growth(arena);
    const moiety_status status = growth.Wait();
    EXPECT_EQ(MOIETY_E_NO_PINNED_MEMORY, status);
    const std::string message = Message();
    EXPECT_NE("", message);
    std::thread([&] {
        EXPECT_EQ(status, growth.Wait());
        EXPECT_EQ(message, Message());
    }).join();
    pool_test::SetFaults("");
    EXPECT_EQ(status, growth.Wait());
    Growth again(arena);
    EXPECT_OK(again.Wait());
    EXPECT_EQ(kAll, arena.Stats().pinned_bytes);
}

TEST_F(GrowthTest, KeepsWhatItHasWhateverTheDriverRefuses)
{
    for (unsigned n = 1;; n++) {
        SCOPED_TRACE(n);
        Arena arena(Pieces());
        uint64_t before = pool_test::Calls();
        pool_test::SetFaults("*:nth=" + std::to_string(n) +
                             ":code=CUDA_ERROR_OUT_OF_MEMORY");
        {
            Growth growth(arena);
            bool is_whole = growth.Wait() == MOIETY_OK;
            EXPECT_EQ(is_whole, arena.Stats().pinned_bytes == kAll);
            EXPECT_EQ(arena.Stats().pinned_bytes,
                      moiety_growth_ready_bytes(growth));
        }
        uint64_t calls = pool_test::Calls() - before;
        pool_test::SetFaults("");
        if (calls < n)
            break;
    }
}

TEST_F(GrowthTest, NeedsAThread)
{
    Arena arena(Pieces());
    moiety_growth *growth = nullptr;
    failing_steps_arm(FAILING_START, 1, 1);
    EXPECT_EQ(MOIETY_E_NO_HOST_MEMORY,
              moiety_host_reserve_async(arena, kAll, 0, &growth));
    EXPECT_EQ(1u, failing_steps_disarm());
    EXPECT_EQ(nullptr, growth);
    EXPECT_EQ(0u, arena.Stats().pinned_bytes);
}

TEST_F(GrowthTest, DoesWithoutThreadsThatTouch)
{
    Arena arena(Pieces());
    failing_steps_arm(FAILING_START, 2, kNever);
    {
        Growth growth(arena);
        EXPECT_OK(growth.Wait()) << Message();
    }
    EXPECT_LE(2u, failing_steps_disarm());
}

TEST_F(GrowthTest, NeedsADescriptor)
{
    Arena arena(Pieces());
    moiety_growth *growth = nullptr;
    rlimit before;
    ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &before));
    const rlimit none = {0, before.rlim_max};
    ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &none));
    moiety_status status = moiety_host_reserve_async(arena, kAll, 0, &growth);
    const std::string message = Message();
    ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &before));
    EXPECT_EQ(MOIETY_E_NO_HOST_MEMORY, status);
    EXPECT_NE(std::string::npos, message.find("Too many open files"))
        << message;
    EXPECT_EQ(nullptr, growth);
}

TEST_F(GrowthTest, RefusesBadInput)
{
    Arena arena(Pieces());
    moiety_growth *growth = nullptr;
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_host_reserve_async(nullptr, kAll, 0, &growth));
    EXPECT_EQ("moiety_host_reserve_async: host is NULL", Message());
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_host_reserve_async(arena, kAll, 0, nullptr));
    EXPECT_EQ("moiety_host_reserve_async: out is NULL", Message());
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_host_reserve_async(arena, kAll, 65, &growth));
    EXPECT_EQ("moiety_host_reserve_async: thread_count is 65, must be 64 at "
              "most",
              Message());
    for (uint64_t bytes : {64 * kMiB + 1, UINT64_MAX})
        EXPECT_EQ(MOIETY_E_TOO_LARGE,
                  moiety_host_reserve_async(arena, bytes, 0, &growth));
    EXPECT_EQ(nullptr, growth);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_growth_wait(nullptr, 0));
    EXPECT_EQ("moiety_growth_wait: growth is NULL", Message());
    EXPECT_EQ(0u, moiety_growth_ready_bytes(nullptr));
    EXPECT_EQ(-1, moiety_growth_descriptor(nullptr));
    moiety_growth_cancel(nullptr);
    EXPECT_OK(moiety_growth_destroy(nullptr));
    EXPECT_EQ(0u, arena.Stats().pinned_bytes);
}

// --- beside others ---

TEST_F(GrowthTest, GrowsBesideThreadsThatUseTheArena)
{
    Arena arena(Pieces());
    std::vector<std::thread> users;
    Growth growth(arena);
    for (unsigned i = 0; i < 3; i++)
        users.emplace_back([&] {
            for (unsigned round = 0; round < 200; round++)
                arena.Free(arena.Alloc((round % 8 + 1) << 17));
        });
    for (unsigned i = 0; i < 20; i++) {
        Growth more(arena, kAll + i % 3 * kPiece);
        if (i % 2)
            moiety_growth_cancel(more);
    }
    for (std::thread &user : users)
        user.join();
    EXPECT_OK(growth.Wait()) << Message();
    EXPECT_LE(kAll, arena.Stats().pinned_bytes);
}

TEST_F(GrowthTest, IsDestroyedByOneThreadWhileAnotherEndsTheArena)
{
    for (unsigned i = 0; i < 20; i++) {
        moiety_host *host = nullptr;
        moiety_host_options options = Pieces();
        ASSERT_EQ(MOIETY_OK, moiety_host_create(&options, &host));
        moiety_growth *growth = nullptr;
        EXPECT_OK(moiety_host_reserve_async(host, kAll, 0, &growth));
        std::thread other([&] { EXPECT_OK(moiety_growth_destroy(growth)); });
        EXPECT_OK(moiety_host_destroy(host, nullptr)) << Message();
        other.join();
    }
}

} // namespace
} // namespace host_test
