// SPDX-License-Identifier: Apache-2.0
//
// Reserves of an arena: mapped and bound once, touched ahead, pinned piece by
// piece; what fails, what ends one, and what others do meanwhile.
#include "tests/host/arena_under_test.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "moiety/callbacks.h"
#include "tests/host/pinned_under_test.h"

namespace
{

// What flock() fails with; 0: the system's answers. And how often it did.
int g_lock_error;
unsigned g_lock_failures;

} // namespace

// The library's calls in this process come here.
extern "C" int flock(int file, int operation) noexcept
{
    using Flock = int(int, int);
    static auto *const own =
        reinterpret_cast<Flock *>(dlsym(RTLD_NEXT, "flock"));
    if (!g_lock_error)
        return own(file, operation);
    g_lock_failures++;
    errno = g_lock_error;
    return -1;
}

namespace host_test
{
namespace
{

constexpr unsigned kNever = 1000000;
constexpr uint64_t kPiece = 4 * kMiB;
constexpr uint64_t kPieces = 4;
constexpr uint64_t kAll = kPieces * kPiece;

std::string Message()
{
    return moiety_last_error_message();
}

// Pieces of one size, whatever the clock says.
moiety_host_options Pieces(uint32_t flags = 0, uint64_t bytes = kPiece)
{
    moiety_host_options options = HostDefaults();
    options.first_segment_bytes = options.largest_segment_bytes = bytes;
    options.flags = flags;
    options.stall_ms = 60000;
    options.wait_ms = MOIETY_WAIT_NONE;
    options.touch_threads = 2;
    return options;
}

// A reserve that calls a function of the test with what is done.
using Seen = std::function<void(uint64_t)>;

moiety_status Reserve(moiety_host *host, uint64_t bytes, const Seen &seen)
{
    return moiety_host_reserve(
        host, bytes, 0,
        [](void *data, uint64_t done, uint64_t) {
            (*static_cast<const Seen *>(data))(done);
        },
        const_cast<Seen *>(&seen));
}

moiety_status Reserve(moiety_host *host, uint64_t bytes = kAll)
{
    return moiety_host_reserve(host, bytes, 0, nullptr, nullptr);
}

class Runway : public PinnedTest
{
  protected:
    static void SetUpTestSuite()
    {
        PinnedTest::SetUpTestSuite();
        Arena once(Pieces());
        EXPECT_OK(Reserve(once));
    }
    void SetUp() override
    {
        PinnedTest::SetUp();
        const char *folder = getenv("TEST_TMPDIR");
        folder_ = folder ? folder : "/tmp";
        setenv("MOIETY_LOCK_DIR", folder_.c_str(), 1);
        unlink(LockFile().c_str());
    }
    std::string LockFile() const
    {
        return folder_ + "/moiety-pin." + std::to_string(geteuid());
    }

    std::string folder_;
};

struct StepCalls {
    const char *name;
    failing_step step;
    unsigned calls;
    uint32_t flags;
};

// The whole is bound once. Strict places are read back page by page, in
// questions of 512.
TEST_F(Runway, DoesOnceWhatIsForAllOfIt)
{
    const StepCalls rows[] = {{"bind", FAILING_BIND, 1, 0},
                              {"touch", FAILING_POPULATE, kAll / (2 * kMiB), 0},
                              {"read back", FAILING_READ_BACK, kPieces, 0},
                              {"read back strictly", FAILING_READ_BACK,
                               kAll / 4096 / 512, MOIETY_HOST_STRICT}};
    for (const StepCalls &row : rows) {
        Arena arena(Pieces(row.flags));
        uint64_t before = pool_test::Calls("cuMemHostRegister");
        failing_steps_arm(row.step, kNever, 1);
        EXPECT_OK(Reserve(arena)) << Message();
        EXPECT_EQ(row.calls, failing_steps_disarm()) << row.name;
        EXPECT_EQ(before + kPieces, pool_test::Calls("cuMemHostRegister"));
        moiety_host_stats stats = arena.Stats();
        EXPECT_EQ(kAll, stats.pinned_bytes);
        EXPECT_EQ(kPieces, stats.region_count);
        EXPECT_EQ(kAll / 4096, stats.pages_asked);
        EXPECT_EQ(stats.pages_asked, stats.pages_near);
        EXPECT_EQ(0u, stats.fallbacks) << arena.Report();
    }
}

// Beside it the pool maps a table.
TEST_F(Runway, MapsOnceForAllPieces)
{
    Arena arena(Pieces());
    failing_steps_arm(FAILING_MAP, kNever, 1);
    EXPECT_OK(Reserve(arena));
    EXPECT_GT(kPieces, failing_steps_disarm());
}

TEST_F(Runway, KnowsTheAddressesOfManyPieces)
{
    constexpr uint64_t kMany = 150;
    Arena arena(Pieces(0, 2 * kMiB));
    EXPECT_OK(Reserve(arena, kMany * 2 * kMiB));
    EXPECT_EQ(kMany, arena.Stats().region_count);
    std::vector<void *> blocks;
    for (uint64_t i = 0; i < kMany; i++)
        blocks.push_back(arena.Alloc(2 * kMiB));
    EXPECT_EQ(kMany, arena.Stats().region_count);
    moiety_devptr device = 0;
    for (void *block : blocks) {
        char *last = static_cast<char *>(block) + 2 * kMiB - 1;
        *last = 1;
        EXPECT_OK(moiety_host_device_address(arena, last, &device));
        EXPECT_EQ(reinterpret_cast<uintptr_t>(last), device);
    }
    for (size_t i = 0; i < blocks.size(); i += 2)
        arena.Free(blocks[i]);
    EXPECT_OK(moiety_host_trim(arena, 0, nullptr));
    EXPECT_EQ(kMany / 2, arena.Stats().region_count);
    for (size_t i = 1; i < blocks.size(); i += 2) {
        EXPECT_OK(moiety_host_device_address(arena, blocks[i], &device));
        EXPECT_EQ(MOIETY_E_FOREIGN,
                  moiety_host_device_address(arena, blocks[i - 1], &device));
    }
    for (size_t i = 1; i < blocks.size(); i += 2)
        arena.Free(blocks[i]);
}

TEST_F(Runway, ReportsWhatIsPinnedAfterEachPiece)
{
    Arena arena(Pieces());
    // A slow machine reports the same again, also that nothing is done.
    std::vector<uint64_t> done = {0};
    EXPECT_OK(Reserve(arena, kAll, [&](uint64_t bytes) {
        if (bytes != done.back())
            done.push_back(bytes);
    }));
    EXPECT_EQ((std::vector<uint64_t>{0, kPiece, 2 * kPiece, 3 * kPiece, kAll}),
              done);
}

// Behind it there may be no room.
TEST_F(Runway, TouchesNothingBehindWhatIsGranted)
{
    for (uint64_t granted : {2 * kMiB, 130 * kMiB, 256 * kMiB})
        EXPECT_EQ(granted, pinned_probe_crew_bytes(256 * kMiB, granted));
}

// --- what fails ---

const failing_step kSteps[] = {
    FAILING_MAP,          FAILING_BIND,      FAILING_START,    FAILING_POPULATE,
    FAILING_OLD_POPULATE, FAILING_HUGE_WISH, FAILING_READ_BACK};

// What was pinned stays, and what is reported is there.
void ExpectConsistent(Arena &arena, moiety_status status)
{
    moiety_host_stats stats = arena.Stats();
    EXPECT_EQ(0u, stats.pinned_bytes % kPiece);
    EXPECT_EQ(stats.region_count * kPiece, stats.pinned_bytes);
    EXPECT_EQ(status == MOIETY_OK, stats.pinned_bytes == kAll);
    if (status != MOIETY_OK) {
        EXPECT_STRNE("", moiety_last_error_message());
    }
}

TEST_F(Runway, KeepsWhatItHasWhicheverStepFails)
{
    for (uint32_t flags :
         {UINT32_C(0), MOIETY_HOST_STRICT, MOIETY_HOST_HUGE_2MIB,
          MOIETY_HOST_WRITE_COMBINED, MOIETY_HOST_BY_DRIVER})
        for (failing_step step : kSteps)
            for (unsigned n = 1, calls = n; calls >= n; n++) {
                SCOPED_TRACE(std::to_string(flags) + " " +
                             std::to_string(step) + " " + std::to_string(n));
                Arena arena(Pieces(flags));
                failing_steps_arm(step, n, 1);
                ExpectConsistent(arena, Reserve(arena));
                calls = failing_steps_disarm();
                EXPECT_OK(Reserve(arena)) << Message();
                EXPECT_EQ(kAll, arena.Stats().pinned_bytes);
            }
}

TEST_F(Runway, KeepsWhatItHasWhateverTheDriverRefuses)
{
    for (const char *code :
         {"CUDA_ERROR_LAUNCH_FAILED", "CUDA_ERROR_OUT_OF_MEMORY",
          "CUDA_ERROR_INVALID_VALUE",
          "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
          "CUDA_ERROR_NOT_SUPPORTED"})
        for (uint32_t flags : {UINT32_C(0), MOIETY_HOST_STRICT})
            for (unsigned n = 1;; n++) {
                SCOPED_TRACE(std::string(code) + " " + std::to_string(flags) +
                             " " + std::to_string(n));
                Arena arena(Pieces(flags));
                uint64_t before = pool_test::Calls();
                pool_test::SetFaults("*:nth=" + std::to_string(n) +
                                     ":code=" + code);
                moiety_status status = Reserve(arena);
                uint64_t calls = pool_test::Calls() - before;
                pool_test::SetFaults("");
                // Of a length that was refused, the half was taken.
                if (arena.Stats().region_count * kPiece ==
                    arena.Stats().pinned_bytes)
                    ExpectConsistent(arena, status);
                EXPECT_OK(Reserve(arena)) << Message();
                EXPECT_EQ(kAll, arena.Stats().pinned_bytes);
                if (calls < n)
                    break;
            }
}

// As kernels do that register less than 2 GiB at once.
TEST_F(Runway, HalvesALengthThatTheDriverRefuses)
{
    moiety_host_options options = Pieces(0, 8 * kMiB);
    Arena arena(options);
    pool_test::SetFaults(
        "cuMemHostRegister:nth=1:code=CUDA_ERROR_INVALID_VALUE");
    EXPECT_OK(Reserve(arena, 16 * kMiB)) << Message();
    EXPECT_EQ(16 * kMiB, arena.Stats().pinned_bytes);
    EXPECT_EQ(4u, arena.Stats().region_count);
}

// A reserve that the driver refuses, always: it is asked once.
void ExpectOneRegistration(const std::string &code, uint64_t largest_bytes,
                           uint64_t size_bytes, moiety_status status)
{
    Arena arena(Pieces(0, largest_bytes));
    uint64_t before = pool_test::Calls("cuMemHostRegister");
    pool_test::SetFaults("cuMemHostRegister:every=1:code=" + code);
    EXPECT_EQ(status, Reserve(arena, size_bytes));
    EXPECT_EQ(before + 1, pool_test::Calls("cuMemHostRegister"));
    pool_test::SetFaults("");
}

// A last piece is shorter than others, and the half of others is not its half.
TEST_F(Runway, AsksOnceForALengthThatHasNoHalf)
{
    ExpectOneRegistration("CUDA_ERROR_INVALID_VALUE", 64 * kMiB, 2 * kMiB,
                          MOIETY_E_INVALID);
}

TEST_F(Runway, AsksOnceWhereTheDriverHasNoMemory)
{
    ExpectOneRegistration("CUDA_ERROR_OUT_OF_MEMORY", 8 * kMiB, 32 * kMiB,
                          MOIETY_E_NO_PINNED_MEMORY);
}

TEST_F(Runway, HasThePagesThatAreThereWhereNoneAreSetAside)
{
    Arena arena(Pieces(MOIETY_HOST_HUGE_2MIB));
    failing_steps_arm(FAILING_MAP, 1, 1);
    EXPECT_OK(Reserve(arena)) << Message();
    EXPECT_LE(1u, failing_steps_disarm());
    EXPECT_EQ(kAll, arena.Stats().pinned_bytes);
}

// All the memory of a node is never free: not one page is touched.
TEST_F(Runway, TouchesNothingWhereThereIsNoRoomForAll)
{
    moiety_host_options options = Pieces(MOIETY_HOST_STRICT, 64 * kMiB);
    options.policy = MOIETY_HOST_EXPLICIT;
    options.nodes[pinned_probe_node() / 64] = UINT64_C(1)
                                              << pinned_probe_node() % 64;
    Arena arena(options);
    moiety_pool_options pool = MOIETY_POOL_OPTIONS_INIT;
    EXPECT_OK(moiety_pool_get_options(moiety_host_pool(arena), &pool));
    failing_steps_arm(FAILING_POPULATE, 1, kNever);
    EXPECT_EQ(MOIETY_E_NO_PINNED_MEMORY, Reserve(arena, pool.limit_bytes));
    EXPECT_EQ(0u, failing_steps_disarm());
    EXPECT_NE(std::string::npos, Message().find("has room for")) << Message();
    EXPECT_EQ(0u, arena.Stats().pinned_bytes);
}

// --- what ends one ---

TEST_F(Runway, IsCancelledAfterEachPiece)
{
    for (uint64_t piece = 1; piece <= kPieces; piece++) {
        Arena arena(Pieces());
        moiety_status status = Reserve(arena, kAll, [&](uint64_t done) {
            if (done == piece * kPiece)
                moiety_host_cancel(arena);
        });
        EXPECT_EQ(piece < kPieces ? MOIETY_E_INTERRUPTED : MOIETY_OK, status);
        EXPECT_EQ(piece * kPiece, arena.Stats().pinned_bytes);
        if (piece < kPieces) {
            EXPECT_NE(std::string::npos, Message().find("stopped"));
        }
        // A cancel is of what is under way, and not of what comes.
        EXPECT_OK(Reserve(arena));
        arena.Free(arena.Alloc(kPiece));
        EXPECT_EQ(kAll, arena.Stats().pinned_bytes);
    }
}

TEST_F(Runway, IsCancelledWhileAChunkIsTouched)
{
    for (unsigned chunk = 1; chunk <= 4; chunk++) {
        Arena arena(Pieces());
        failing_steps_arm_call(
            FAILING_POPULATE, chunk,
            [](void *host) {
                moiety_host_cancel(static_cast<moiety_host *>(host));
            },
            static_cast<moiety_host *>(arena));
        EXPECT_EQ(MOIETY_E_INTERRUPTED, Reserve(arena));
        (void)failing_steps_disarm();
        EXPECT_LT(arena.Stats().pinned_bytes, kAll);
        EXPECT_OK(Reserve(arena));
    }
}

TEST_F(Runway, CancelEndsAnAllocationThatGrows)
{
    moiety_host_options options = Pieces();
    options.touch_threads = 1;
    Arena arena(options);
    void *block = nullptr;
    failing_steps_arm_call(
        FAILING_POPULATE, 1,
        [](void *host) {
            moiety_host_cancel(static_cast<moiety_host *>(host));
        },
        static_cast<moiety_host *>(arena));
    EXPECT_EQ(MOIETY_E_INTERRUPTED,
              moiety_host_alloc(arena, 32 * kMiB, MOIETY_HOST_CPU, &block));
    (void)failing_steps_disarm();
    EXPECT_EQ(nullptr, block);
    EXPECT_EQ(0u, arena.Stats().pinned_bytes);
    arena.Free(arena.Alloc(32 * kMiB));
}

moiety_host *g_host;

TEST_F(Runway, IsCancelledByASignalHandler)
{
    Arena arena(Pieces());
    g_host = arena;
    struct sigaction action = {}, before = {};
    action.sa_handler = [](int) { moiety_host_cancel(g_host); };
    ASSERT_EQ(0, sigaction(SIGUSR1, &action, &before));
    EXPECT_EQ(MOIETY_E_INTERRUPTED,
              Reserve(arena, kAll, [](uint64_t) { raise(SIGUSR1); }));
    EXPECT_EQ(0, sigaction(SIGUSR1, &before, nullptr));
    EXPECT_LT(arena.Stats().pinned_bytes, kAll);
    EXPECT_OK(Reserve(arena));
}

TEST_F(Runway, IsEndedByTheFunctionOfTheThread)
{
    Arena arena(Pieces());
    moiety_set_interrupt([](void *) { return 1; }, nullptr);
    EXPECT_EQ(MOIETY_E_INTERRUPTED, Reserve(arena));
    // It is no wait of an allocation.
    void *block = arena.Alloc(kPiece);
    moiety_set_interrupt(nullptr, nullptr);
    EXPECT_OK(Reserve(arena));
    arena.Free(block);
}

TEST_F(Runway, CancelOfNothingDoesNothing)
{
    moiety_host *host = nullptr;
    moiety_host_options options = Pieces();
    moiety_host_cancel(nullptr);
    ASSERT_OK(moiety_host_create(&options, &host));
    moiety_host_cancel(host);
    EXPECT_OK(Reserve(host));
    EXPECT_OK(moiety_host_destroy(host, nullptr));
    moiety_host_cancel(host);
}

struct Held {
    std::atomic<unsigned> ticks{0};
};

// The chunk that is touched next takes as long as two reports do.
void HoldAChunk(Held *held)
{
    failing_steps_arm_call(
        FAILING_POPULATE, 1,
        [](void *data) {
            auto *of = static_cast<Held *>(data);
            while (of->ticks < 2)
                std::this_thread::yield();
        },
        held);
}

// Also where it is in no call of its pool, as at the first reports.
TEST_F(Runway, KeepsItsArenaFromItsEnd)
{
    moiety_host *host = nullptr;
    moiety_host_options options = Pieces();
    Held held;
    ASSERT_OK(moiety_host_create(&options, &host));
    HoldAChunk(&held);
    EXPECT_OK(Reserve(host, kAll, [&](uint64_t) {
        std::thread other([&] {
            EXPECT_EQ(MOIETY_E_IN_USE, moiety_host_destroy(host, nullptr));
        });
        other.join();
        held.ticks++;
    }));
    (void)failing_steps_disarm();
    EXPECT_LE(2 + kPieces, held.ticks);
    void *block = nullptr;
    EXPECT_OK(moiety_host_alloc(host, kPiece, MOIETY_HOST_CPU, &block));
    EXPECT_OK(moiety_host_free(host, block, MOIETY_STREAM_DONE));
    EXPECT_OK(moiety_host_destroy(host, nullptr));
}

// A child has no crew that it could wait for.
TEST_F(Runway, EndsInAChildThatItsFunctionForks)
{
    Arena arena(Pieces());
    Held held;
    pid_t child = -1;
    int code = 0;
    HoldAChunk(&held);
    moiety_status status = Reserve(arena, kAll, [&](uint64_t) {
        if (child < 0) {
            child = fork();
            if (child == 0)
                alarm(20);
        }
        held.ticks++;
    });
    if (child == 0)
        _exit(status == MOIETY_E_FORKED ? 0 : 1);
    (void)failing_steps_disarm();
    EXPECT_OK(status);
    EXPECT_EQ(child, waitpid(child, &code, 0));
    EXPECT_EQ(0, code);
    EXPECT_EQ(kAll, arena.Stats().pinned_bytes);
}

// --- what goes on meanwhile ---

TEST_F(Runway, ReportsWhileItWaits)
{
    Arena arena(Pieces());
    Held held;
    HoldAChunk(&held);
    EXPECT_OK(Reserve(arena, 2 * kMiB,
                      [&](uint64_t done) { held.ticks += done == 0; }));
    (void)failing_steps_disarm();
    EXPECT_LE(2u, held.ticks);
}

// Its pieces are this thread's, and the arena has both.
TEST_F(Runway, OthersGrowMeanwhile)
{
    Arena arena(Pieces());
    std::vector<void *> blocks;
    std::thread other;
    EXPECT_OK(Reserve(arena, kAll, [&](uint64_t done) {
        // It may come again.
        if (done == kPiece && !other.joinable())
            other = std::thread([&] {
                for (int i = 0; i < 6; i++)
                    blocks.push_back(arena.Alloc(3 * kMiB));
            });
    }));
    other.join();
    EXPECT_LE(kAll, arena.Stats().pinned_bytes);
    for (void *block : blocks)
        arena.Free(block);
    uint64_t trimmed = 0;
    EXPECT_OK(moiety_host_trim(arena, 0, &trimmed));
    EXPECT_EQ(0u, arena.Stats().pinned_bytes);
}

// A report of a growth of one arena makes another grow.
TEST_F(Runway, IsNotTheRunwayOfAnotherArena)
{
    Arena arena(Pieces()), other(Pieces(0, 2 * kMiB));
    EXPECT_OK(Reserve(arena, kAll, [&](uint64_t done) {
        if (done == kPiece) {
            EXPECT_OK(Reserve(other, 4 * kMiB));
        }
    }));
    EXPECT_EQ(kAll, arena.Stats().pinned_bytes);
    EXPECT_EQ(4 * kMiB, other.Stats().pinned_bytes);
}

// --- turns ---

class RunwayTurn : public Runway
{
};

int LockOf(const std::string &path)
{
    int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_LE(0, file);
    EXPECT_EQ(0, flock(file, LOCK_EX));
    return file;
}

TEST_F(RunwayTurn, WaitsUntilAnotherHasPassedItOn)
{
    int file = LockOf(LockFile());
    unsigned waits = 0;
    Arena arena(Pieces());
    EXPECT_OK(Reserve(arena, kAll, [&](uint64_t done) {
        if (done == 0 && ++waits == 3) {
            EXPECT_EQ(0, flock(file, LOCK_UN));
        }
    }));
    EXPECT_LE(3u, waits);
    EXPECT_EQ(kAll, arena.Stats().pinned_bytes);
    uint64_t turns = 0;
    EXPECT_EQ(ssize_t{sizeof(turns)}, pread(file, &turns, sizeof(turns), 0));
    EXPECT_EQ(kPieces, turns);
    // It is passed on at the end.
    EXPECT_EQ(0, flock(file, LOCK_EX | LOCK_NB));
    close(file);
}

TEST_F(RunwayTurn, GoesOnWithoutAProcessThatIsStopped)
{
    int ends[2];
    ASSERT_EQ(0, pipe(ends));
    const std::string path = LockFile();
    pid_t child = fork();
    if (child == 0) {
        int file = open(path.c_str(), O_RDWR | O_CREAT, 0600);
        if (file < 0 || flock(file, LOCK_EX) != 0 ||
            write(ends[1], "x", 1) != 1)
            _exit(1);
        raise(SIGSTOP);
        _exit(0);
    }
    char letter;
    int status = 0;
    ASSERT_EQ(1, read(ends[0], &letter, 1));
    ASSERT_EQ(child, waitpid(child, &status, WUNTRACED));
    ASSERT_TRUE(WIFSTOPPED(status));
    moiety_host_options options = Pieces();
    options.stall_ms = 1;
    {
        Arena arena(options);
        EXPECT_OK(Reserve(arena));
        EXPECT_EQ(kAll, arena.Stats().pinned_bytes);
    }
    EXPECT_EQ(0, kill(child, SIGKILL));
    EXPECT_EQ(child, waitpid(child, &status, 0));
    close(ends[0]);
    close(ends[1]);
}

TEST_F(RunwayTurn, IsStoppedWhileItWaits)
{
    int file = LockOf(LockFile());
    Arena arena(Pieces());
    EXPECT_EQ(MOIETY_E_INTERRUPTED, Reserve(arena, kAll, [&](uint64_t) {
                  moiety_host_cancel(arena);
              }));
    close(file);
    EXPECT_EQ(MOIETY_OK, Reserve(arena));
}

// As file systems do that are not of this machine.
TEST_F(RunwayTurn, DoesNotWaitWhereNothingCanBeLocked)
{
    Arena arena(Pieces());
    g_lock_error = ENOLCK;
    g_lock_failures = 0;
    EXPECT_OK(Reserve(arena));
    g_lock_error = 0;
    // Each piece asks once.
    EXPECT_EQ(kPieces, g_lock_failures);
    EXPECT_EQ(kAll, arena.Stats().pinned_bytes);
}

// A write beyond the limit is a signal that ends the process.
TEST_F(RunwayTurn, GoesOnWhereNoFileMayGrow)
{
    struct rlimit before = {}, none = {};
    ASSERT_EQ(0, getrlimit(RLIMIT_FSIZE, &before));
    none.rlim_max = before.rlim_max;
    Arena arena(Pieces());
    ASSERT_EQ(0, setrlimit(RLIMIT_FSIZE, &none));
    moiety_status status = Reserve(arena);
    ASSERT_EQ(0, setrlimit(RLIMIT_FSIZE, &before));
    EXPECT_OK(status);
    EXPECT_EQ(kAll, arena.Stats().pinned_bytes);
}

// Nothing is written behind a link, to a file with a second name, to one that others
// may write, or to what is no file; and the arena is pinned all the same.
TEST_F(RunwayTurn, UsesNoFileOfAnother)
{
    const std::string path = LockFile(), elsewhere = folder_ + "/elsewhere",
                      precious = folder_ + "/precious";
    const std::function<void()> made[] = {
        [&] { ASSERT_EQ(0, symlink(elsewhere.c_str(), path.c_str())); },
        [&] { ASSERT_EQ(0, mkfifo(path.c_str(), 0600)); },
        [&] {
            close(open(path.c_str(), O_CREAT | O_WRONLY, 0600));
            ASSERT_EQ(0, chmod(path.c_str(), 0666));
        },
        [&] {
            close(open(precious.c_str(), O_CREAT | O_WRONLY, 0600));
            ASSERT_EQ(0, link(precious.c_str(), path.c_str()));
        },
    };
    for (const auto &make : made) {
        make();
        {
            Arena arena(Pieces());
            EXPECT_OK(Reserve(arena));
            EXPECT_EQ(kAll, arena.Stats().pinned_bytes);
        }
        struct stat found = {};
        EXPECT_EQ(0, lstat(path.c_str(), &found));
        EXPECT_TRUE(!S_ISREG(found.st_mode) || found.st_size == 0);
        EXPECT_NE(0, access(elsewhere.c_str(), F_OK));
        EXPECT_EQ(0, unlink(path.c_str()));
    }
    EXPECT_EQ(0, unlink(precious.c_str()));
    for (const char *folder : {"/nowhere", ""}) {
        setenv("MOIETY_LOCK_DIR", folder, 1);
        Arena arena(Pieces());
        EXPECT_OK(Reserve(arena));
    }
}

} // namespace
} // namespace host_test
