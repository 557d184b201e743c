// SPDX-License-Identifier: Apache-2.0
//
// How many instructions hits and misses take, and of how many lines of 64 bytes. A
// process of its own makes the calls, and its parent goes through them one
// instruction at a time: what it counts depends on the compiler alone, neither on the
// machine nor on what else runs there. The bounds leave room for other compilers.
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <set>
#include <vector>

#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

enum Kind {
    kHitAlloc,
    kHitFree,
    kLongAlloc, // longer than any magazine keeps
    kLongFree,
    kMixedAlloc,
    kMixedFree,
    kMixedFreeSized,
    kPlanted
};

constexpr unsigned kCallsMax = 4096;
constexpr unsigned kPlantedLoops = 1000;

struct Shared {
    unsigned count;
    Kind kinds[kCallsMax];
};
Shared *shared;

struct Call {
    Kind kind;
    unsigned instructions;
    unsigned lines;
};

// What is between them is counted.
extern "C" __attribute__((noinline)) void count_test_begin()
{
    __asm__ volatile("" ::: "memory");
}

extern "C" __attribute__((noinline)) void count_test_end()
{
    __asm__ volatile("nop" ::: "memory");
}

// The parent takes over where the signal stops the process.
#define COUNTED(kind, call)                                                    \
    do {                                                                       \
        shared->kinds[shared->count++] = (kind);                               \
        raise(SIGSTOP);                                                        \
        count_test_begin();                                                    \
        moiety_status counted_status = (call);                                 \
        count_test_end();                                                      \
        Check(counted_status);                                                 \
    } while (0)

class Maker
{
  public:
    Maker()
    {
        moiety_pool_options options = driver_options();
        options.first_segment_bytes = size_t{256} << 20; // nothing grows
        Check(moiety_pool_create(&options, &pool_));
        for (size_t &size : sizes_)
            size = static_cast<size_t>(std::exp2(8 + 13 * Unit()));
    }

    void HitsAndLongBlocks()
    {
        moiety_devptr address = 0;
        for (int i = 0; i < 100; i++) {
            Check(moiety_alloc(pool_, 512, kStream, &address));
            Check(moiety_free(pool_, address, kStream));
        }
        for (int i = 0; i < 2; i++) {
            COUNTED(kHitAlloc, moiety_alloc(pool_, 512, kStream, &address));
            COUNTED(kHitFree, moiety_free(pool_, address, kStream));
        }
        COUNTED(kPlanted, Plant(&address));
        for (int i = 0; i < 20; i++) {
            Check(moiety_alloc(pool_, size_t(3) << 20, kStream, &address));
            Check(moiety_free(pool_, address, kStream));
        }
        COUNTED(kLongAlloc,
                moiety_alloc(pool_, size_t(3) << 20, kStream, &address));
        COUNTED(kLongFree, moiety_free(pool_, address, kStream));
    }

    // As the workload `mixed` of bench.
    void Mixed(int warm, int counted)
    {
        for (Block &block : live_)
            Fill(&block);
        for (int i = 0; i < warm; i++) {
            Block &block = live_[Random() % kLive];
            Check(moiety_free(pool_, block.address, kStream));
            Fill(&block);
        }
        for (int i = 0; i < counted; i++) {
            Block &block = live_[Random() % kLive];
            if (i % 2)
                COUNTED(kMixedFree, moiety_free(pool_, block.address, kStream));
            else
                COUNTED(kMixedFreeSized,
                        moiety_free_sized(pool_, block.address, block.size,
                                          kStream));
            block.size = sizes_[Random() % kSizes];
            COUNTED(kMixedAlloc,
                    moiety_alloc(pool_, block.size, kStream, &block.address));
        }
    }

  private:
    static constexpr unsigned kLive = 64, kSizes = 4096;
    struct Block {
        moiety_devptr address;
        size_t size;
    };

    static void Check(moiety_status status)
    {
        if (status != MOIETY_OK)
            _exit(2);
    }

    uint64_t Random()
    {
        random_ ^= random_ << 13;
        random_ ^= random_ >> 7;
        random_ ^= random_ << 17;
        return random_ * UINT64_C(0x2545F4914F6CDD1D) >> 33;
    }

    double Unit()
    {
        return static_cast<double>(Random()) / 2147483648.0;
    }

    void Fill(Block *block)
    {
        block->size = sizes_[Random() % kSizes];
        Check(moiety_alloc(pool_, block->size, kStream, &block->address));
    }

    // A hit that became slower.
    moiety_status Plant(moiety_devptr *address)
    {
        Check(moiety_alloc(pool_, 512, kStream, address));
        for (volatile unsigned i = 0; i < kPlantedLoops;)
            i = i + 1;
        return moiety_free(pool_, *address, kStream);
    }

    moiety_pool *pool_ = nullptr;
    uint64_t random_ = UINT64_C(88172645463325252);
    size_t sizes_[kSizes];
    Block live_[kLive];
};

[[noreturn]] void MakeCalls()
{
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0)
        _exit(3);
    pool_test::UseStandin();
    Maker maker;
    maker.HitsAndLongBlocks();
    maker.Mixed(20000, 200);
    _exit(0);
}

uintptr_t ProgramCounter(pid_t pid)
{
    return static_cast<uintptr_t>(
        ptrace(PTRACE_PEEKUSER, pid, offsetof(user, regs.rip), nullptr));
}

// One instruction on. False: the process has ended.
bool Step(pid_t pid)
{
    int status = 0;
    return ptrace(PTRACE_SINGLESTEP, pid, nullptr, nullptr) == 0 &&
           waitpid(pid, &status, 0) == pid && WIFSTOPPED(status);
}

Call CountOne(pid_t pid, Kind kind)
{
    const auto begin = reinterpret_cast<uintptr_t>(&count_test_begin);
    const auto end = reinterpret_cast<uintptr_t>(&count_test_end);
    Call call = {kind, 0, 0};
    std::set<uintptr_t> lines;
    while (ProgramCounter(pid) != begin)
        if (!Step(pid))
            return call;
    for (uintptr_t at = begin; at != end; at = ProgramCounter(pid)) {
        lines.insert(at / 64);
        call.instructions++;
        if (!Step(pid))
            break;
    }
    call.lines = static_cast<unsigned>(lines.size());
    return call;
}

// All calls of the process, and how it ended.
std::vector<Call> CountAll(int *out_status)
{
    std::vector<Call> calls;
    shared = static_cast<Shared *>(mmap(nullptr, sizeof(Shared),
                                        PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    pid_t pid = fork();
    if (pid == 0)
        MakeCalls();
    while (waitpid(pid, out_status, 0) == pid && WIFSTOPPED(*out_status)) {
        if (WSTOPSIG(*out_status) == SIGSTOP)
            calls.push_back(CountOne(pid, shared->kinds[shared->count - 1]));
        ptrace(PTRACE_CONT, pid, nullptr, nullptr);
    }
    return calls;
}

struct Middle {
    unsigned calls;
    unsigned instructions;
    unsigned lines;
};

unsigned MedianOf(std::vector<unsigned> values)
{
    std::sort(values.begin(), values.end());
    return values.empty() ? 0 : values[values.size() / 2];
}

// Of those that took at least so many instructions. The median: some look at events,
// whose number is the machine's.
Middle MiddleOf(const std::vector<Call> &calls, const std::set<Kind> &kinds,
                unsigned least)
{
    std::vector<unsigned> instructions, lines;
    for (const Call &call : calls) {
        if (!kinds.count(call.kind) || call.instructions < least)
            continue;
        instructions.push_back(call.instructions);
        lines.push_back(call.lines);
    }
    return {static_cast<unsigned>(lines.size()), MedianOf(instructions),
            MedianOf(lines)};
}

struct Bound {
    const char *name;
    std::set<Kind> kinds;
    // A call with fewer is a hit, also of a block that is shorter than its class.
    unsigned least;
    unsigned calls; // at least
    unsigned instructions;
    unsigned lines;
};

const Bound kBounds[] = {
    {"a hit's allocation", {kHitAlloc}, 0, 2, 104, 11},
    {"a hit's free", {kHitFree}, 0, 2, 104, 11},
    {"a long block's allocation", {kLongAlloc}, 0, 1, 1360, 125},
    {"a long block's free", {kLongFree}, 0, 1, 935, 91},
    {"a miss", {kMixedAlloc}, 400, 20, 1500, 130},
    {"a free that misses", {kMixedFree}, 400, 12, 1135, 101},
    {"a sized free that misses", {kMixedFreeSized}, 400, 8, 1220, 115},
};

class Counted : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        calls_ = CountAll(&status_);
    }

    static std::vector<Call> calls_;
    static int status_;
};
std::vector<Call> Counted::calls_;
int Counted::status_;

TEST_F(Counted, AllCallsWereMade)
{
    EXPECT_TRUE(WIFEXITED(status_)) << status_;
    EXPECT_EQ(0, WEXITSTATUS(status_));
    EXPECT_EQ(shared->count, calls_.size());
}

TEST_F(Counted, NothingTakesMoreThanItsBound)
{
    for (const Bound &bound : kBounds) {
        SCOPED_TRACE(bound.name);
        Middle middle = MiddleOf(calls_, bound.kinds, bound.least);
        std::printf("%s: %u calls, %u instructions, %u lines\n", bound.name,
                    middle.calls, middle.instructions, middle.lines);
        EXPECT_GE(middle.calls, bound.calls);
        EXPECT_LE(middle.instructions, bound.instructions);
        EXPECT_LE(middle.lines, bound.lines);
    }
}

TEST_F(Counted, TheSameCallTakesTheSame)
{
    std::vector<unsigned> allocs, frees;
    for (const Call &call : calls_) {
        if (call.kind == kHitAlloc)
            allocs.push_back(call.instructions);
        if (call.kind == kHitFree)
            frees.push_back(call.instructions);
    }
    ASSERT_EQ(2u, allocs.size());
    ASSERT_EQ(2u, frees.size());
    EXPECT_EQ(allocs[0], allocs[1]);
    EXPECT_EQ(frees[0], frees[1]);
}

// Instructions that were put into a pair of hits are counted, and break its bound.
TEST_F(Counted, APlantedLoopIsSeen)
{
    Middle hits = MiddleOf(calls_, {kHitAlloc, kHitFree}, 0);
    Middle planted = MiddleOf(calls_, {kPlanted}, 0);
    ASSERT_EQ(1u, planted.calls);
    EXPECT_GE(planted.instructions, 2 * hits.instructions + kPlantedLoops);
    EXPECT_GT(planted.instructions, kBounds[0].instructions);
}

} // namespace
