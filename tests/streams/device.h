/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The device as these tests use it: driver objects that free themselves,
 * streams that are held back, captures, and threads that do as they are told.
 * Order is made by holding a stream, never by a clock.
 */
#ifndef MOIETY_TESTS_STREAMS_DEVICE_H_
#define MOIETY_TESTS_STREAMS_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>

#include "pool/driver/cuda_abi.h"

namespace streams_test
{

// The entries that the tests call, of the driver that the product has opened.
#define MOIETY_TEST_ENTRIES(X)                                                 \
    X(CtxCreate, (CUcontext *, unsigned, CUdevice))                            \
    X(CtxDestroy, (CUcontext))                                                 \
    X(CtxSetCurrent, (CUcontext))                                              \
    X(CtxSynchronize, (void))                                                  \
    X(DevicePrimaryCtxRetain, (CUcontext *, CUdevice))                         \
    X(EventCreate, (CUevent *, unsigned))                                      \
    X(EventDestroy, (CUevent))                                                 \
    X(EventRecord, (CUevent, CUstream))                                        \
    X(GraphDestroy, (CUgraph))                                                 \
    X(GraphExecDestroy, (CUgraphExec))                                         \
    X(GraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long)) \
    X(GraphLaunch, (CUgraphExec, CUstream))                                    \
    X(MemHostAlloc, (void **, size_t, unsigned))                               \
    X(MemHostGetDevicePointer, (CUdeviceptr *, void *, unsigned))              \
    X(MemcpyDtoHAsync, (void *, CUdeviceptr, size_t, CUstream))                \
    X(MemcpyDtoDAsync, (CUdeviceptr, CUdeviceptr, size_t, CUstream))           \
    X(MemsetD32Async, (CUdeviceptr, unsigned, size_t, CUstream))               \
    X(StreamBeginCapture, (CUstream, CUstreamCaptureMode))                     \
    X(StreamCreate, (CUstream *, unsigned))                                    \
    X(StreamDestroy, (CUstream))                                               \
    X(StreamEndCapture, (CUstream, CUgraph *))                                 \
    X(StreamIsCapturing, (CUstream, CUstreamCaptureStatus *))                  \
    X(StreamQuery, (CUstream))                                                 \
    X(StreamSynchronize, (CUstream))                                           \
    X(StreamWaitEvent, (CUstream, CUevent, unsigned))                          \
    X(StreamWaitValue32, (CUstream, CUdeviceptr, cuuint32_t, unsigned))

struct Driver {
#define X(name, parameters) CUresult(*name) parameters = nullptr;
    MOIETY_TEST_ENTRIES(X)
#undef X
};

extern Driver cu;

// Fills `cu` once moiety_probe() has opened a driver; the reason if it has
// not, or if the driver lacks an entry.
std::string OpenDriver();

// Throws, which fails the test, unless the call succeeded.
void Must(CUresult code, const char *call);
#define MUST(call) ::streams_test::Must((call), #call)

// Device 0's primary context, retained for good; current in every test.
CUcontext PrimaryContext();
// Runs what the tests run once, and once for all makes the words of holds:
// neither may happen first while a stream is held.
void WarmUp();

struct Stream {
    Stream();
    ~Stream();
    Stream(const Stream &) = delete;
    Stream &operator=(const Stream &) = delete;
    operator CUstream() const
    {
        return handle;
    }
    CUstream handle = nullptr;
};

struct Event {
    Event();
    ~Event();
    Event(const Event &) = delete;
    Event &operator=(const Event &) = delete;
    operator CUevent() const
    {
        return handle;
    }
    CUevent handle = nullptr;
};

// A second context of device 0; the primary one stays current.
struct Context {
    Context();
    ~Context();
    Context(const Context &) = delete;
    Context &operator=(const Context &) = delete;
    operator CUcontext() const
    {
        return handle;
    }
    CUcontext handle = nullptr;
};

// Makes a context current for a scope.
struct Current {
    explicit Current(CUcontext context);
    ~Current();
    Current(const Current &) = delete;
    Current &operator=(const Current &) = delete;
};

// Keeps a stream from running what is queued after this, until released.
class Hold
{
  public:
    explicit Hold(CUstream stream);
    ~Hold();
    Hold(const Hold &) = delete;
    Hold &operator=(const Hold &) = delete;
    void Release();

  private:
    volatile uint32_t *word_;
};

// A capture under way; the graph goes. One that nobody ends expects to end well.
class Capture
{
  public:
    explicit Capture(CUstream stream,
                     CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED);
    ~Capture();
    Capture(const Capture &) = delete;
    Capture &operator=(const Capture &) = delete;
    // What the driver says at the end: whether somebody broke it.
    CUresult End();

  private:
    CUstream stream_;
    bool is_open_ = true;
};

// A thread with the primary context current that does one thing after another.
class Worker
{
  public:
    Worker();
    ~Worker();
    Worker(const Worker &) = delete;
    Worker &operator=(const Worker &) = delete;
    // Returns when it is done; rethrows what it threw.
    void Do(const std::function<void()> &task);
    // Returns at once.
    std::future<void> Start(const std::function<void()> &task);
    // Lets the thread end, and waits until it has.
    void End();

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// Fills bytes with a word, as work of the stream.
void Write(CUstream stream, CUdeviceptr address, size_t size_bytes,
           uint32_t word);
// True when they all are that word once what is queued on the stream is over.
bool Holds(CUstream stream, CUdeviceptr address, size_t size_bytes,
           uint32_t word);

// Gives what must not happen the time to happen.
void PauseForTheForbidden();

} // namespace streams_test

#endif
