// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/conformance/checks.h"
#include "tests/conformance/driver_under_test.h"

namespace conformance
{

namespace
{

/* One word per hold of a process; no hold reuses another's. */
constexpr size_t kHoldWords = 16384;

volatile uint32_t *NextHoldWord()
{
    static PinnedBlock *const words =
        new PinnedBlock(kHoldWords * sizeof(uint32_t));
    static size_t next = 0;
    MUST_BE(next < kHoldWords);
    return reinterpret_cast<volatile uint32_t *>(words->bytes) + next++;
}

template <typename Query> CUresult SettledBy(Query query)
{
    using Clock = std::chrono::steady_clock;
    auto deadline = Clock::now() + std::chrono::milliseconds(kRequiredMs);
    CUresult code = query();
    /* A watchdog: what is over is seen at once. */
    while (code == CUDA_ERROR_NOT_READY && Clock::now() < deadline) {
        Pause(1);
        code = query();
    }
    return code;
}

} // namespace

CUcontext PrimaryContext()
{
    static const CUcontext context = [] {
        CUcontext retained = nullptr;
        MUST(cu.Init(0));
        MUST(cu.DevicePrimaryCtxRetain(&retained, 0));
        return retained;
    }();
    return context;
}

void WarmUp()
{
    MUST(cu.CtxSetCurrent(PrimaryContext()));
    Stream stream;
    DeviceBlock block(2 * kMiB);
    PinnedBlock pinned(kMiB);
    for (size_t size_bytes : {size_t{256}, kMiB}) {
        CUdeviceptr other = block + kMiB;
        cu.MemsetD8Async(block, 1, size_bytes, stream);
        cu.MemsetD16Async(block, 1, size_bytes / 2, stream);
        cu.MemsetD32Async(block, 1, size_bytes / 4, stream);
        cu.MemcpyDtoDAsync(block, other, size_bytes, stream);
        cu.MemcpyHtoDAsync(block, pinned.bytes, size_bytes, stream);
        cu.MemcpyDtoHAsync(pinned.bytes, block, size_bytes, stream);
    }
    /* The default stream is not ordered with a non-blocking one. */
    MUST(cu.StreamSynchronize(stream));
    cu.MemsetD2D8(block, 512, 1, 16, 16);
    cu.MemsetD2D32(block, 512, 1, 16, 16);
    NextHoldWord();
    MUST(cu.CtxSynchronize());
}

void OnDevice::SetUp()
{
    MUST(cu.CtxSetCurrent(PrimaryContext()));
}

void OnDevice::TearDown()
{
    MUST(cu.CtxSetCurrent(PrimaryContext()));
    MUST(cu.CtxSynchronize());
}

Stream::Stream(unsigned flags)
{
    MUST(cu.StreamCreate(&handle, flags));
}

Stream::~Stream()
{
    cu.StreamDestroy(handle);
}

Event::Event(unsigned flags)
{
    MUST(cu.EventCreate(&handle, flags));
}

Event::~Event()
{
    cu.EventDestroy(handle);
}

DeviceBlock::DeviceBlock(size_t size_bytes)
{
    MUST(cu.MemAlloc(&address, size_bytes));
    MUST(cu.MemsetD8(address, 0, size_bytes));
    MUST(cu.StreamSynchronize(CU_STREAM_LEGACY));
}

DeviceBlock::~DeviceBlock()
{
    cu.MemFree(address);
}

PinnedBlock::PinnedBlock(size_t size_bytes)
{
    void *host = nullptr;
    MUST(cu.MemHostAlloc(&host, size_bytes,
                         CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    bytes = static_cast<unsigned char *>(host);
    std::memset(bytes, 0, size_bytes);
    MUST(cu.MemHostGetDevicePointer(&address, host, 0));
}

PinnedBlock::~PinnedBlock()
{
    cu.MemFreeHost(bytes);
}

StreamHold::StreamHold(CUstream stream) : word_(NextHoldWord())
{
    void *host = const_cast<uint32_t *>(word_);
    CUdeviceptr address = 0;
    MUST(cu.MemHostGetDevicePointer(&address, host, 0));
    MUST(cu.StreamWaitValue32(stream, address, 1, CU_STREAM_WAIT_VALUE_GEQ));
}

StreamHold::~StreamHold()
{
    Release();
}

void StreamHold::Release()
{
    __atomic_store_n(word_, 1u, __ATOMIC_RELEASE);
}

Background::~Background()
{
    if (result_.valid())
        result_.wait();
}

void Background::Start(std::function<CUresult()> call)
{
    CUcontext context = PrimaryContext();
    result_ = std::async(std::launch::async, [call, context] {
        CUresult code = cu.CtxSetCurrent(context);
        return code == CUDA_SUCCESS ? call() : code;
    });
}

bool Background::ReturnsWithin(int timeout_ms)
{
    return result_.wait_for(std::chrono::milliseconds(timeout_ms)) ==
           std::future_status::ready;
}

CUresult Background::Result()
{
    return result_.get();
}

void Pause(int duration_ms)
{
    /* For what must not happen, or between two looks. */
    std::this_thread::sleep_for(std::chrono::milliseconds(duration_ms));
}

CUresult Settled(CUevent event)
{
    return SettledBy([event] { return cu.EventQuery(event); });
}

CUresult Settled(CUstream stream)
{
    return SettledBy([stream] { return cu.StreamQuery(stream); });
}

CUresult StillHeld(CUevent event)
{
    Pause(50);
    return cu.EventQuery(event);
}

CUresult StillHeld(CUstream stream)
{
    Pause(50);
    return cu.StreamQuery(stream);
}

CUresult OnOtherThread(const std::function<CUresult()> &call)
{
    Background other;
    other.Start(call);
    return other.Result();
}

std::vector<unsigned char> BytesAt(CUdeviceptr address, size_t size_bytes)
{
    std::vector<unsigned char> bytes(size_bytes);
    MUST(cu.MemcpyDtoH(bytes.data(), address, size_bytes));
    return bytes;
}

bool AllBytesAre(CUdeviceptr address, size_t size_bytes, unsigned char value)
{
    std::vector<unsigned char> bytes = BytesAt(address, size_bytes);
    return std::all_of(bytes.begin(), bytes.end(),
                       [value](unsigned char byte) { return byte == value; });
}

} // namespace conformance
