// SPDX-License-Identifier: Apache-2.0
#include "tests/streams/device.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/driver_probe.h"

namespace streams_test
{

Driver cu;

namespace
{

// One word per hold of a process; no hold takes another's.
constexpr size_t kHoldWords = 65536;

volatile uint32_t *NextHoldWord()
{
    static std::mutex mutex;
    static uint32_t *words = nullptr;
    static size_t next = 0;
    std::lock_guard<std::mutex> guard(mutex);
    if (words == nullptr) {
        void *host = nullptr;
        MUST(cu.MemHostAlloc(&host, kHoldWords * sizeof(uint32_t),
                             CU_MEMHOSTALLOC_PORTABLE |
                                 CU_MEMHOSTALLOC_DEVICEMAP));
        words = static_cast<uint32_t *>(host);
        std::fill(words, words + kHoldWords, 0u);
    }
    if (next == kHoldWords)
        throw std::runtime_error("too many holds");
    return words + next++;
}

template <typename Function>
bool Find(const char *name, Function *out, std::string *missing)
{
    *out = reinterpret_cast<Function>(driver_probe_function(name));
    if (*out == nullptr)
        *missing = std::string("the driver has no ") + name;
    return *out != nullptr;
}

} // namespace

std::string OpenDriver()
{
    std::string missing;
#define X(name, parameters)                                                    \
    if (!Find("cu" #name, &cu.name, &missing))                                 \
        return missing;
    MOIETY_TEST_ENTRIES(X)
#undef X
    return missing;
}

void Must(CUresult code, const char *call)
{
    if (code != CUDA_SUCCESS)
        throw std::runtime_error(std::string("the test cannot go on: ") + call +
                                 ": " + std::to_string(code));
}

CUcontext PrimaryContext()
{
    static const CUcontext context = [] {
        CUcontext retained = nullptr;
        MUST(cu.DevicePrimaryCtxRetain(&retained, 0));
        return retained;
    }();
    return context;
}

void WarmUp()
{
    MUST(cu.CtxSetCurrent(PrimaryContext()));
    Stream stream;
    CUdeviceptr word = 0;
    MUST(cu.MemHostGetDevicePointer(&word,
                                    const_cast<uint32_t *>(NextHoldWord()), 0));
    Write(stream, word, sizeof(uint32_t), 1);
    if (!Holds(stream, word, sizeof(uint32_t), 1))
        throw std::runtime_error("the device does not write");
}

Stream::Stream()
{
    MUST(cu.StreamCreate(&handle, CU_STREAM_NON_BLOCKING));
}

Stream::~Stream()
{
    cu.StreamDestroy(handle);
}

Event::Event()
{
    MUST(cu.EventCreate(&handle, CU_EVENT_DISABLE_TIMING));
}

Event::~Event()
{
    cu.EventDestroy(handle);
}

Context::Context()
{
    MUST(cu.CtxCreate(&handle, 0, 0));
    MUST(cu.CtxSetCurrent(PrimaryContext()));
}

Context::~Context()
{
    cu.CtxDestroy(handle);
}

Current::Current(CUcontext context)
{
    MUST(cu.CtxSetCurrent(context));
}

Current::~Current()
{
    cu.CtxSetCurrent(PrimaryContext());
}

Hold::Hold(CUstream stream) : word_(NextHoldWord())
{
    CUdeviceptr address = 0;
    MUST(
        cu.MemHostGetDevicePointer(&address, const_cast<uint32_t *>(word_), 0));
    MUST(cu.StreamWaitValue32(stream, address, 1, CU_STREAM_WAIT_VALUE_GEQ));
}

Hold::~Hold()
{
    Release();
}

void Hold::Release()
{
    __atomic_store_n(word_, 1u, __ATOMIC_RELEASE);
}

Capture::Capture(CUstream stream, CUstreamCaptureMode mode) : stream_(stream)
{
    MUST(cu.StreamBeginCapture(stream, mode));
}

Capture::~Capture()
{
    if (is_open_) {
        EXPECT_EQ(End(), CUDA_SUCCESS);
    }
}

CUresult Capture::End()
{
    CUgraph graph = nullptr;
    is_open_ = false;
    CUresult code = cu.StreamEndCapture(stream_, &graph);
    if (graph != nullptr)
        cu.GraphDestroy(graph);
    return code;
}

struct Worker::State {
    std::mutex mutex; // guards what is below
    std::condition_variable has_news;
    std::deque<std::packaged_task<void()>> tasks;
    bool is_over = false;
    std::thread thread;

    void Run()
    {
        MUST(cu.CtxSetCurrent(PrimaryContext()));
        for (;;) {
            std::unique_lock<std::mutex> lock(mutex);
            has_news.wait(lock, [this] { return is_over || !tasks.empty(); });
            if (tasks.empty())
                return;
            std::packaged_task<void()> task = std::move(tasks.front());
            tasks.pop_front();
            lock.unlock();
            task();
        }
    }
};

Worker::Worker() : state_(new State)
{
    State *state = state_.get();
    state->thread = std::thread([state] { state->Run(); });
}

Worker::~Worker()
{
    End();
}

std::future<void> Worker::Start(const std::function<void()> &task)
{
    std::lock_guard<std::mutex> guard(state_->mutex);
    state_->tasks.emplace_back(task);
    state_->has_news.notify_one();
    return state_->tasks.back().get_future();
}

void Worker::Do(const std::function<void()> &task)
{
    Start(task).get();
}

void Worker::End()
{
    {
        std::lock_guard<std::mutex> guard(state_->mutex);
        state_->is_over = true;
        state_->has_news.notify_one();
    }
    if (state_->thread.joinable())
        state_->thread.join();
}

void Write(CUstream stream, CUdeviceptr address, size_t size_bytes,
           uint32_t word)
{
    MUST(cu.MemsetD32Async(address, word, size_bytes / sizeof word, stream));
}

bool Holds(CUstream stream, CUdeviceptr address, size_t size_bytes,
           uint32_t word)
{
    std::vector<uint32_t> words(size_bytes / sizeof word);
    MUST(cu.MemcpyDtoHAsync(words.data(), address, size_bytes, stream));
    MUST(cu.StreamSynchronize(stream));
    return std::all_of(words.begin(), words.end(),
                       [word](uint32_t found) { return found == word; });
}

void PauseForTheForbidden()
{
    // A busy machine may only miss it.
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
}

} // namespace streams_test
