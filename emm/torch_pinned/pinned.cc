/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Taking and giving pinned memory, and the streams that use it.
 */
#include "pinned.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <pthread.h>

#include <algorithm>
#include <new>
#include <utility>

namespace moiety_torch
{

namespace
{

void delete_pinned(void *block)
{
    PinnedAllocator::instance().raw_delete(block);
}

bool is_capturing(cudaStream_t stream)
{
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaError_t error =
        C10_CUDA_ERROR_HANDLED(cudaStreamIsCapturing(stream, &status));
    if (error == cudaSuccess)
        return status != cudaStreamCaptureStatusNone;
    (void)cudaGetLastError();
    return false;
}

} // namespace

PinnedAllocator &PinnedAllocator::instance()
{
    static PinnedAllocator *const allocator = new PinnedAllocator;
    return *allocator;
}

void PinnedAllocator::lock_all()
{
    instance().arenas_.lock().lock();
    instance().lock_.lock();
}

void PinnedAllocator::unlock_all()
{
    instance().lock_.unlock();
    instance().arenas_.lock().unlock();
}

void PinnedAllocator::wrap(at::HostAllocator *before)
{
    static const int error = pthread_atfork(lock_all, unlock_all, unlock_all);
    TORCH_CHECK(error == 0, "no memory to watch forks");
    before_ = before;
}

c10::DataPtr PinnedAllocator::allocate(size_t bytes)
{
    if (bytes == 0)
        return {nullptr, nullptr, &delete_pinned, c10::Device(c10::kCPU)};
    void *block = is_captured() ? nullptr : take(bytes);
    if (!block)
        return before_->allocate(bytes);
    return {block, block, &delete_pinned, c10::Device(c10::kCPU)};
}

void PinnedAllocator::copy_data(void *to, const void *from, size_t bytes) const
{
    default_copy_data(to, from, bytes);
}

void *PinnedAllocator::take(size_t bytes)
{
    PinnedArena *arena = arenas_.of_current_device();
    if (!arena)
        return nullptr;
    void *block = nullptr;
    moiety_status status =
        moiety_host_alloc(arena->host, bytes, MOIETY_HOST_CPU, &block);
    if (status != MOIETY_OK) {
        refuse_child(status);
        TORCH_WARN_ONCE("Moiety: PyTorch's own allocator provides pinned "
                        "memory: ",
                        moiety_last_error_message());
        return nullptr;
    }
    Block made;
    made.arena = arena;
    made.bytes = bytes;
    ignore(moiety_usable_size(arena->pool, address_of(block), &made.bytes));
    if (insert(block, made))
        return block;
    ignore(moiety_host_free(arena->host, block, MOIETY_STREAM_DONE));
    return nullptr;
}

bool PinnedAllocator::insert(void *block, const Block &made)
{
    std::lock_guard<std::mutex> guard(lock_);
    try {
        blocks_.emplace(address_of(block), made);
    } catch (const std::bad_alloc &) {
        return false;
    }
    requests_.increase(1);
    request_bytes_.increase(made.bytes);
    return true;
}

void PinnedAllocator::raw_delete(void *block)
{
    Block was;
    {
        std::lock_guard<std::mutex> guard(lock_);
        auto found = blocks_.find(address_of(block));
        if (found == blocks_.end() || found->second.is_kept)
            return;
        was = found->second;
        blocks_.erase(found);
        requests_.decrease(1);
        request_bytes_.decrease(was.bytes);
    }
    moiety_status status = moiety_host_free(was.arena->host, block, was.use);
    /* A stream that captures by now, or that is gone. */
    if (status != MOIETY_OK && was.use != MOIETY_STREAM_ANY)
        status = moiety_host_free(was.arena->host, block, MOIETY_STREAM_ANY);
    if (status != MOIETY_OK && status != MOIETY_E_FORKED)
        TORCH_WARN("Moiety: a tensor's pinned memory was not freed: ",
                   moiety_last_error_message());
}

PinnedAllocator::Block *PinnedAllocator::find_locked(const void *data)
{
    const uintptr_t address = reinterpret_cast<uintptr_t>(data);
    auto found = blocks_.upper_bound(address);
    if (found == blocks_.begin())
        return nullptr;
    --found;
    return address - found->first < found->second.bytes ? &found->second
                                                        : nullptr;
}

PinnedArena *PinnedAllocator::arena_of(const void *data)
{
    std::lock_guard<std::mutex> guard(lock_);
    Block *block = find_locked(data);
    return block ? block->arena : nullptr;
}

/* By the address alone: the context may be that of any tensor's memory. */
bool PinnedAllocator::record_event(void *data, void *context,
                                   c10::Stream stream)
{
    PinnedArena *arena = arena_of(data);
    if (!arena)
        return before_->record_event(data, context, stream);
    c10::cuda::CUDAStream used(c10::cuda::CUDAStream::UNCHECKED, stream);
    const bool captures = is_capturing(used.stream());
    const std::optional<moiety_stream> named = arenas_.stream_of(*arena, used);
    std::lock_guard<std::mutex> guard(lock_);
    Block *block = find_locked(data);
    if (!block)
        return false;
    if (captures || !named)
        block->is_kept = true;
    else if (block->use == MOIETY_STREAM_DONE || block->use == *named)
        block->use = *named;
    else
        block->use = MOIETY_STREAM_ANY;
    return true;
}

bool PinnedAllocator::is_captured()
{
    std::vector<Capture> captures;
    {
        std::lock_guard<std::mutex> guard(lock_);
        if (captures_.empty())
            return false;
        captures = captures_;
    }
    /* The filters ask the driver: without the lock. */
    const c10::Stream stream = c10::cuda::getCurrentCUDAStream().unwrap();
    return std::any_of(captures.begin(), captures.end(),
                       [&](const Capture &one) { return one.filter(stream); });
}

#if !MOIETY_TORCH_IS_BEFORE(2, 11)

void PinnedAllocator::begin_allocate_to_pool(
    c10::MempoolId_t pool, std::function<bool(c10::Stream)> filter)
{
    before_->begin_allocate_to_pool(pool, filter);
    std::lock_guard<std::mutex> guard(lock_);
    captures_.push_back({pool, std::move(filter)});
}

void PinnedAllocator::end_allocate_to_pool(c10::MempoolId_t pool)
{
    {
        std::lock_guard<std::mutex> guard(lock_);
        captures_.erase(std::remove_if(captures_.begin(), captures_.end(),
                                       [&](const Capture &one) {
                                           return one.pool == pool;
                                       }),
                        captures_.end());
    }
    before_->end_allocate_to_pool(pool);
}

void PinnedAllocator::release_pool(c10::MempoolId_t pool)
{
    before_->release_pool(pool);
}

#endif

} // namespace moiety_torch
