/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pinned_waits.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include <utility>

namespace moiety_torch
{

namespace
{

/* Errors of the runtime are values here, since memory is freed by destructors, also
 * in a child of a fork, where CUDA only fails. */
bool is_good(cudaError_t error)
{
    if (C10_CUDA_ERROR_HANDLED(error) == cudaSuccess)
        return true;
    (void)cudaGetLastError();
    return false;
}

/* Makes a device current. */
class OnDevice
{
  public:
    explicit OnDevice(int device)
        : is_there_(is_good(cudaGetDevice(&before_))),
          is_other_(is_there_ && before_ != device)
    {
        if (is_other_)
            is_there_ = is_good(cudaSetDevice(device));
    }
    ~OnDevice()
    {
        if (is_other_)
            (void)is_good(cudaSetDevice(before_));
    }
    OnDevice(const OnDevice &) = delete;
    OnDevice &operator=(const OnDevice &) = delete;
    bool is_there() const
    {
        return is_there_;
    }

  private:
    int before_ = 0;
    bool is_there_;
    bool is_other_;
};

/* Lets the thread call the driver for events while another thread captures. */
class Relaxed
{
  public:
    Relaxed() : is_set_(is_good(cudaThreadExchangeStreamCaptureMode(&mode_))) {}
    ~Relaxed()
    {
        if (is_set_)
            (void)is_good(cudaThreadExchangeStreamCaptureMode(&mode_));
    }
    Relaxed(const Relaxed &) = delete;
    Relaxed &operator=(const Relaxed &) = delete;

  private:
    cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
    bool is_set_;
};

cudaStream_t handle_of(const c10::Stream &stream)
{
    return c10::cuda::CUDAStream(c10::cuda::CUDAStream::UNCHECKED, stream)
        .stream();
}

/* Of a stream of the current device. */
bool is_capturing_here(cudaStream_t stream)
{
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const cudaError_t error = cudaStreamIsCapturing(stream, &status);
    return is_good(error) ? status != cudaStreamCaptureStatusNone
                          : error == cudaErrorStreamCaptureImplicit;
}

} // namespace

bool is_capturing(const c10::Stream &stream)
{
    /* The default stream is that of the current device. */
    OnDevice device(stream.device_index());
    return device.is_there() && is_capturing_here(handle_of(stream));
}

void free_pinned(moiety_host *arena, void *block, moiety_stream stream)
{
    moiety_status status = moiety_host_free(arena, block, stream);
    if (status != MOIETY_OK && status != MOIETY_E_FORKED)
        TORCH_WARN("Moiety: a tensor's pinned memory was not freed: ",
                   moiety_last_error_message());
}

cudaEvent_t PinnedWaits::take_event(c10::DeviceIndex device)
{
    cudaEvent_t event = nullptr;
    {
        std::lock_guard<std::mutex> guard(lock_);
        auto &kept = events_[device];
        if (!kept.empty()) {
            event = kept.back();
            kept.pop_back();
            return event;
        }
    }
    return is_good(cudaEventCreateWithFlags(&event, cudaEventDisableTiming))
               ? event
               : nullptr;
}

void PinnedWaits::keep_event(const PinnedUse &use)
{
    std::lock_guard<std::mutex> guard(lock_);
    events_[use.stream.device_index()].push_back(use.event);
}

bool PinnedWaits::record(PinnedUse &use)
{
    OnDevice device(use.stream.device_index());
    Relaxed relaxed;
    if (!device.is_there())
        return false;
    const cudaStream_t stream = handle_of(use.stream);
    if (is_capturing_here(stream))
        return true;
    use.event = take_event(use.stream.device_index());
    if (!use.event)
        return false;
    if (is_good(cudaEventRecord(use.event, stream)))
        return true;
    keep_event(use);
    use.event = nullptr;
    return false;
}

void PinnedWaits::add(PinnedFreed freed)
{
    bool is_recorded = true;
    for (PinnedUse &use : freed.uses)
        is_recorded = is_recorded && record(use);
    if (is_recorded) {
        push(std::move(freed), false);
        return;
    }
    free_after_all(freed);
}

/* A stream is gone, say. */
void PinnedWaits::free_after_all(const PinnedFreed &freed)
{
    for (const PinnedUse &use : freed.uses) {
        if (use.event)
            keep_event(use);
    }
    free_pinned(freed.arena, freed.block, MOIETY_STREAM_ANY);
}

PinnedWaits::Look PinnedWaits::look(PinnedUse &use)
{
    if (!use.event && !record(use))
        return Look::kLost;
    if (!use.event)
        return Look::kPending;
    Relaxed relaxed;
    const cudaError_t error = cudaEventQuery(use.event);
    if (is_good(error)) {
        keep_event(use);
        return Look::kOver;
    }
    return error == cudaErrorNotReady ? Look::kPending : Look::kLost;
}

void PinnedWaits::push(PinnedFreed freed, bool is_first)
{
    std::lock_guard<std::mutex> guard(lock_);
    /* Relaxed: advice. */
    count_.fetch_add(1, std::memory_order_relaxed);
    auto &queue = freed_.try_emplace(freed.uses.back().stream).first->second;
    if (is_first)
        queue.push_front(std::move(freed));
    else
        queue.push_back(std::move(freed));
}

bool PinnedWaits::pop(const c10::Stream &stream, PinnedFreed *out)
{
    std::lock_guard<std::mutex> guard(lock_);
    auto found = freed_.find(stream);
    if (found == freed_.end())
        return false;
    *out = std::move(found->second.front());
    found->second.pop_front();
    /* Relaxed: advice. */
    count_.fetch_sub(1, std::memory_order_relaxed);
    if (found->second.empty())
        freed_.erase(found);
    return true;
}

/* Without the lock while the driver is called. Blocks of one stream are over in the
 * order of their frees, or nearly: the first that is not ends the look. */
void PinnedWaits::poll_stream(const c10::Stream &stream)
{
    PinnedFreed freed;
    while (pop(stream, &freed)) {
        const Look found = look(freed.uses.back());
        if (found == Look::kPending) {
            push(std::move(freed), true);
            return;
        }
        if (found == Look::kLost) {
            free_after_all(freed);
            continue;
        }
        freed.uses.pop_back();
        if (freed.uses.empty())
            free_pinned(freed.arena, freed.block, MOIETY_STREAM_DONE);
        else
            push(std::move(freed), false);
    }
}

void PinnedWaits::poll()
{
    std::vector<c10::Stream> streams;
    /* Relaxed: advice; who misses a block now looks at it with the next one. */
    if (!count_.load(std::memory_order_relaxed))
        return;
    {
        std::lock_guard<std::mutex> guard(lock_);
        for (const auto &entry : freed_)
            streams.push_back(entry.first);
    }
    for (const c10::Stream &stream : streams)
        poll_stream(stream);
}

} // namespace moiety_torch
