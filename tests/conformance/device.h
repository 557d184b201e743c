/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the tests share: a current context, driver objects that free
 * themselves, held streams, and calls made by another thread. Order is always
 * observed by holding a stream, never by a clock: a sleep only ever gives
 * something that must not happen the time to happen.
 */
#ifndef MOIETY_TESTS_CONFORMANCE_DEVICE_H_
#define MOIETY_TESTS_CONFORMANCE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "pool/driver/cuda_abi.h"

namespace conformance
{

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;

/* Device 0's primary context, retained once for the whole process. */
CUcontext PrimaryContext();

/* Runs each kind of copy and memset once in the primary context: the first of
 * a kind may load code, which must not happen while a stream is held. */
void WarmUp();

/* Every test begins with the primary context current and must leave it idle
 * and usable. */
class OnDevice : public ::testing::Test
{
  protected:
    void SetUp() override;
    void TearDown() override;
};

struct Stream {
    explicit Stream(unsigned flags = CU_STREAM_NON_BLOCKING);
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
    explicit Event(unsigned flags = CU_EVENT_DISABLE_TIMING);
    ~Event();
    Event(const Event &) = delete;
    Event &operator=(const Event &) = delete;
    operator CUevent() const
    {
        return handle;
    }
    CUevent handle = nullptr;
};

/* cuMemAlloc, zeroed. */
struct DeviceBlock {
    explicit DeviceBlock(size_t size_bytes);
    ~DeviceBlock();
    DeviceBlock(const DeviceBlock &) = delete;
    DeviceBlock &operator=(const DeviceBlock &) = delete;
    operator CUdeviceptr() const
    {
        return address;
    }
    CUdeviceptr address = 0;
};

/* cuMemHostAlloc, portable and mapped, zeroed. */
struct PinnedBlock {
    explicit PinnedBlock(size_t size_bytes);
    ~PinnedBlock();
    PinnedBlock(const PinnedBlock &) = delete;
    PinnedBlock &operator=(const PinnedBlock &) = delete;
    unsigned char *bytes = nullptr;
    CUdeviceptr address = 0; /* as the device sees it */
};

/* Keeps `stream` from running what is queued after this, until released. */
class StreamHold
{
  public:
    explicit StreamHold(CUstream stream);
    ~StreamHold();
    StreamHold(const StreamHold &) = delete;
    StreamHold &operator=(const StreamHold &) = delete;
    void Release();

  private:
    volatile uint32_t *word_;
};

/* A call made by a thread of its own, with the primary context current.
 * Declare it before the hold that it may wait for: destruction joins. */
class Background
{
  public:
    Background() = default;
    ~Background();
    Background(const Background &) = delete;
    Background &operator=(const Background &) = delete;
    void Start(std::function<CUresult()> call);
    /* True once the call has returned; waits up to `timeout_ms` for it. */
    bool ReturnsWithin(int timeout_ms);
    /* Waits for the call. */
    CUresult Result();

  private:
    std::future<CUresult> result_;
};

/* Long enough for what must not happen to happen. */
constexpr int kForbiddenMs = 200;
/* No machine is this slow: past it, what must happen will not. */
constexpr int kRequiredMs = 20000;

void Pause(int duration_ms);
/* What the query says once it is not NOT_READY any more; NOT_READY when it
 * stays so for kRequiredMs. */
CUresult Settled(CUevent event);
CUresult Settled(CUstream stream);
/* The same after a pause in which it had the chance to finish. */
CUresult StillHeld(CUevent event);
CUresult StillHeld(CUstream stream);

/* Runs `call` on a thread of its own with the primary context current. */
CUresult OnOtherThread(const std::function<CUresult()> &call);

/* First `size_bytes` at `address`; cuMemcpyDtoH. */
std::vector<unsigned char> BytesAt(CUdeviceptr address, size_t size_bytes);
/* True when all of them are `value`. */
bool AllBytesAre(CUdeviceptr address, size_t size_bytes, unsigned char value);

/* An address that nothing was ever allocated at. */
constexpr CUdeviceptr kNowhere = 0x10000;

} // namespace conformance

#endif
