// SPDX-License-Identifier: Apache-2.0
//
// A stream's launch queue where a test has made it short: exactly so many
// operations, of every kind, and nobody left behind when what they wait for
// goes. What a real driver does too is in tests/conformance.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <ostream>
#include <string>
#include <vector>

#include "tests/standin/standin_under_test.h"

namespace
{

constexpr int kLimit = 4;
constexpr size_t kBytes = 4096;
// What must not happen is given this time to happen.
constexpr auto kTurn = std::chrono::milliseconds(1);
constexpr auto kMoment = std::chrono::milliseconds(100);
// A watchdog, no bound.
constexpr auto kEver = std::chrono::minutes(5);

template <typename... Arguments>
CUresult Call(const char *entry, Arguments... arguments)
{
    return standin::Get<CUresult(Arguments...)>(entry)(arguments...);
}

// A test that cannot go on ends the process: threads may be blocked.
void Must(CUresult code)
{
    if (code == CUDA_SUCCESS)
        return;
    std::fprintf(stderr, "the test cannot go on: %d\n", code);
    std::abort();
}

// What the operations work on.
struct Objects {
    CUcontext context = nullptr;
    CUstream full = nullptr, other = nullptr;
    CUevent event = nullptr, pending = nullptr;
    CUdeviceptr memory = 0, freed = 0, made = 0;
    CUgraphExec graph = nullptr;
    std::vector<char> pageable = std::vector<char>(kBytes);
};

void DoNothing(void *) {}

void CallNothing(CUstream, CUresult, void *) {}

// Each stream fills a half of its own: they run side by side.
CUresult Memset(const Objects &o, CUstream stream)
{
    CUdeviceptr half = o.memory + (stream == o.full ? 0 : kBytes / 2);
    return Call("cuMemsetD8Async", half, static_cast<unsigned char>(1),
                kBytes / 2, stream);
}

struct Operation {
    const char *name;
    CUresult (*call)(Objects &);
};

[[maybe_unused]] void PrintTo(const Operation &operation, std::ostream *out)
{
    *out << operation.name;
}

const Operation kOperations[] = {
    {"Memset", [](Objects &o) { return Memset(o, o.full); }},
    {"Copy",
     [](Objects &o) {
         return Call("cuMemcpyDtoDAsync_v2", o.memory, o.memory + kBytes / 4,
                     kBytes / 4, o.full);
     }},
    {"CopyOfPageable",
     [](Objects &o) {
         const void *from = o.pageable.data();
         return Call("cuMemcpyHtoDAsync_v2", o.memory, from, size_t{16},
                     o.full);
     }},
    {"EventRecord",
     [](Objects &o) { return Call("cuEventRecord", o.event, o.full); }},
    {"StreamWaitEvent",
     [](Objects &o) {
         return Call("cuStreamWaitEvent", o.full, o.pending, 0u);
     }},
    {"WriteValue",
     [](Objects &o) {
         return Call("cuStreamWriteValue32_v2", o.full, o.memory, 1u, 0u);
     }},
    {"WaitValue",
     [](Objects &o) {
         return Call("cuStreamWaitValue32_v2", o.full, o.memory, 0u, 0u);
     }},
    {"HostFunction",
     [](Objects &o) {
         void *nothing = nullptr;
         return Call("cuLaunchHostFunc", o.full, DoNothing, nothing);
     }},
    {"Callback",
     [](Objects &o) {
         void *nothing = nullptr;
         return Call("cuStreamAddCallback", o.full, CallNothing, nothing, 0u);
     }},
    {"Graph",
     [](Objects &o) { return Call("cuGraphLaunch", o.graph, o.full); }},
    {"FreeAsync",
     [](Objects &o) { return Call("cuMemFreeAsync", o.freed, o.full); }},
};

class Queue : public ::testing::TestWithParam<Operation>
{
  protected:
    static void SetUpTestSuite()
    {
        setenv("MOIETY_STANDIN_QUEUE", std::to_string(kLimit).c_str(), 1);
        setenv("MOIETY_STANDIN_MEMORY_POOLS", "1", 1);
        standin::StartOnDevice0();
    }

    void SetUp() override
    {
        Must(Call("cuCtxGetCurrent", &o_.context));
        for (CUstream *stream : {&o_.full, &o_.other})
            Must(Call("cuStreamCreate", stream,
                      unsigned{CU_STREAM_NON_BLOCKING}));
        for (CUevent *event : {&o_.event, &o_.pending})
            Must(Call("cuEventCreate", event,
                      unsigned{CU_EVENT_DISABLE_TIMING}));
        Must(standin::MemAlloc(&o_.memory, kBytes));
        Must(Call("cuMemAllocAsync", &o_.freed, kBytes, o_.other));
        MakeGraph();
        Hold(o_.other);
        Must(Call("cuEventRecord", o_.pending, o_.other));
        Hold(o_.full);
    }

    void TearDown() override
    {
        Release(o_.full);
        Release(o_.other);
        Must(Call("cuCtxSynchronize"));
        for (CUstream stream : {o_.full, o_.other})
            Call("cuStreamDestroy_v2", stream);
        for (CUevent event : {o_.event, o_.pending})
            Must(Call("cuEventDestroy_v2", event));
        Must(Call("cuGraphExecDestroy", o_.graph));
        Must(standin::MemFree(o_.memory));
        Must(standin::MemFree(o_.made));
    }

    void Fill()
    {
        for (int i = 0; i < kLimit; i++)
            Must(Memset(o_, o_.full));
    }

    // The call by another thread, with the same context current.
    std::future<CUresult> Start(std::function<CUresult()> call)
    {
        CUcontext context = o_.context;
        return std::async(std::launch::async, [context, call] {
            CUresult code = Call("cuCtxSetCurrent", context);
            return code == CUDA_SUCCESS ? call() : code;
        });
    }

    // Waits until so many calls are blocked, or this one is over.
    static void AwaitBlocked(const std::future<CUresult> &call, int64_t count)
    {
        auto live = standin::Get<moiety_standin_live_fn>("moiety_standin_live");
        while (live("blocked") < count &&
               call.wait_for(kTurn) != std::future_status::ready) {
        }
    }

    // Whether a call is over that is blocked now, if it is to be; with it as many
    // as `count`.
    static bool IsOver(const std::future<CUresult> &call, int64_t count)
    {
        AwaitBlocked(call, count);
        return call.wait_for(kMoment) == std::future_status::ready;
    }

    // A call that never returns fails here, and not by the test's time limit.
    static CUresult Result(std::future<CUresult> *call)
    {
        if (call->wait_for(kEver) == std::future_status::ready)
            return call->get();
        ADD_FAILURE() << "the call does not return";
        std::abort();
    }

    static void Hold(CUstream stream)
    {
        standin::Get<moiety_standin_hold_fn>("moiety_standin_hold")(stream);
    }
    static void Release(CUstream stream)
    {
        standin::Get<moiety_standin_release_fn>("moiety_standin_release")(
            stream);
    }

    Objects o_;

  private:
    void MakeGraph()
    {
        CUgraph graph = nullptr;
        Must(Call("cuStreamBeginCapture_v2", o_.other,
                  CU_STREAM_CAPTURE_MODE_RELAXED));
        Must(Memset(o_, o_.other));
        Must(Call("cuStreamEndCapture", o_.other, &graph));
        Must(Call("cuGraphInstantiateWithFlags", &o_.graph, graph, 0ull));
        Must(Call("cuGraphDestroy", graph));
    }
};

TEST_P(Queue, TheOperationAfterTheLastWaitsUntilTheStreamGoesOn)
{
    Fill();
    std::future<CUresult> launcher =
        Start([this] { return GetParam().call(o_); });
    EXPECT_FALSE(IsOver(launcher, 1));
    Release(o_.other); /* what the stream may be made to wait for */
    EXPECT_FALSE(IsOver(launcher, 1));
    Release(o_.full);
    EXPECT_EQ(Result(&launcher), CUDA_SUCCESS);
}

// Returns at once for as long as there is room.
TEST_P(Queue, TheOperationTakesAPlaceUnlessItRecordsAnEvent)
{
    const std::string name = GetParam().name;
    if (name == "FreeAsync")
        GTEST_SKIP() << "there is one block to free";
    for (int i = 0; i < kLimit; i++)
        ASSERT_EQ(GetParam().call(o_), CUDA_SUCCESS);
    std::future<CUresult> launcher =
        Start([this] { return Memset(o_, o_.full); });
    EXPECT_EQ(IsOver(launcher, 1), name == "EventRecord");
    Release(o_.other);
    Release(o_.full);
    EXPECT_EQ(Result(&launcher), CUDA_SUCCESS);
}

INSTANTIATE_TEST_SUITE_P(, Queue, ::testing::ValuesIn(kOperations),
                         [](const auto &row) { return row.param.name; });

using QueueOf = Queue;

TEST_F(QueueOf, EachStreamIsItsOwn)
{
    Fill();
    for (int i = 1; i < kLimit; i++) /* beside the event */
        EXPECT_EQ(Memset(o_, o_.other), CUDA_SUCCESS);
}

TEST_F(QueueOf, AFullStreamCanBeCapturedOn)
{
    CUgraph graph = nullptr;
    Fill();
    Must(Call("cuStreamBeginCapture_v2", o_.full,
              CU_STREAM_CAPTURE_MODE_RELAXED));
    for (int i = 0; i <= kLimit; i++)
        EXPECT_EQ(Memset(o_, o_.full), CUDA_SUCCESS);
    Must(Call("cuStreamEndCapture", o_.full, &graph));
    Must(Call("cuGraphDestroy", graph));
}

TEST_F(QueueOf, AFullStreamThatNobodyLaunchesOnHoldsNobodyUp)
{
    CUevent event = nullptr;
    Fill();
    EXPECT_EQ(Call("cuStreamQuery", o_.full), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(Call("cuEventCreate", &event, 0u), CUDA_SUCCESS);
    EXPECT_EQ(standin::MemAlloc(&o_.made, kBytes), CUDA_SUCCESS);
    Must(Call("cuEventDestroy_v2", event));
}

TEST_F(QueueOf, LaunchersThatAreBlockedInAnotherContextHoldNobodyUp)
{
    CUcontext other = nullptr;
    CUevent event = nullptr;
    CUdeviceptr address = 0;
    Fill();
    std::future<CUresult> launcher =
        Start([this] { return Memset(o_, o_.full); });
    EXPECT_FALSE(IsOver(launcher, 1));
    Must(Call("cuCtxCreate_v2", &other, 0u, 0));
    EXPECT_EQ(Call("cuEventCreate", &event, 0u), CUDA_SUCCESS);
    EXPECT_EQ(standin::MemAlloc(&address, kBytes), CUDA_SUCCESS);
    Must(Call("cuCtxDestroy_v2", other));
    Must(Call("cuCtxSetCurrent", o_.context));
    Release(o_.full);
    EXPECT_EQ(Result(&launcher), CUDA_SUCCESS);
}

/* The stream goes on by one operation, and stops at the value. */
TEST_F(QueueOf, ACallWaitsOnlyForLaunchersThatWereBlockedBeforeIt)
{
    Must(Memset(o_, o_.full));
    Must(Call("cuStreamWaitValue32_v2", o_.full, o_.memory, 7u,
              unsigned{CU_STREAM_WAIT_VALUE_EQ}));
    for (int i = 2; i < kLimit; i++)
        Must(Memset(o_, o_.full));
    std::future<CUresult> first = Start([this] { return Memset(o_, o_.full); });
    EXPECT_FALSE(IsOver(first, 1));
    std::future<CUresult> asker =
        Start([this] { return Call("cuStreamQuery", o_.full); });
    EXPECT_FALSE(IsOver(asker, 2));
    std::future<CUresult> second =
        Start([this] { return Memset(o_, o_.full); });
    EXPECT_FALSE(IsOver(second, 3));
    Release(o_.full);
    EXPECT_EQ(Result(&first), CUDA_SUCCESS);
    EXPECT_EQ(Result(&asker), CUDA_ERROR_NOT_READY);
    EXPECT_FALSE(IsOver(second, 1));
    Release(o_.other);
    Must(Call("cuStreamWriteValue32_v2", o_.other, o_.memory, 7u, 0u));
    EXPECT_EQ(Result(&second), CUDA_SUCCESS);
}

TEST_F(QueueOf, ALauncherWhoseStreamIsDestroyedIsTold)
{
    Fill();
    std::future<CUresult> launcher =
        Start([this] { return Memset(o_, o_.full); });
    EXPECT_FALSE(IsOver(launcher, 1));
    std::future<CUresult> asker =
        Start([this] { return Call("cuStreamQuery", o_.full); });
    EXPECT_FALSE(IsOver(asker, 2));
    Must(Call("cuStreamDestroy_v2", o_.full));
    EXPECT_EQ(Result(&launcher), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(Result(&asker), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(QueueOf, ALauncherWhoseContextIsDestroyedIsTold)
{
    CUcontext other = nullptr;
    CUstream stream = nullptr;
    CUdeviceptr memory = 0;
    Must(Call("cuCtxCreate_v2", &other, 0u, 0));
    Must(Call("cuStreamCreate", &stream, unsigned{CU_STREAM_NON_BLOCKING}));
    Must(standin::MemAlloc(&memory, kBytes));
    Hold(stream);
    auto memset = [=] {
        return Call("cuMemsetD8Async", memory, static_cast<unsigned char>(1),
                    kBytes, stream);
    };
    for (int i = 0; i < kLimit; i++)
        Must(memset());
    std::future<CUresult> launcher = Start(memset);
    EXPECT_FALSE(IsOver(launcher, 1));
    std::future<CUresult> maker = Start([other] {
        CUevent event = nullptr;
        CUresult code = Call("cuCtxSetCurrent", other);
        return code == CUDA_SUCCESS ? Call("cuEventCreate", &event, 0u) : code;
    });
    EXPECT_FALSE(IsOver(maker, 2));
    Must(Call("cuCtxDestroy_v2", other));
    EXPECT_EQ(Result(&launcher), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT_EQ(Result(&maker), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    Must(Call("cuCtxSetCurrent", o_.context));
}

} // namespace
