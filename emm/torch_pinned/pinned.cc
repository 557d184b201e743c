/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Taking and giving pinned memory, and the streams that use it.
 */
#include "pinned.h"

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

} // namespace

PinnedAllocator &PinnedAllocator::instance()
{
    static PinnedAllocator *const allocator = new PinnedAllocator;
    return *allocator;
}

void PinnedAllocator::lock_all()
{
    instance().arenas_.lock().lock();
    instance().waits_.lock().lock();
    instance().lock_.lock();
}

void PinnedAllocator::unlock_all()
{
    instance().lock_.unlock();
    instance().waits_.lock().unlock();
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
    moiety_host *arena = arenas_.of_current_device();
    if (!arena)
        return nullptr;
    waits_.poll();
    void *block = nullptr;
    moiety_status status =
        moiety_host_alloc(arena, bytes, MOIETY_HOST_CPU, &block);
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
    if (insert(block, std::move(made)))
        return block;
    free_pinned(arena, block, MOIETY_STREAM_DONE);
    return nullptr;
}

bool PinnedAllocator::insert(void *block, Block made)
{
    const size_t bytes = made.bytes;
    std::lock_guard<std::mutex> guard(lock_);
    try {
        blocks_.emplace(address_of(block), std::move(made));
    } catch (const std::bad_alloc &) {
        return false;
    }
    requests_.increase(1);
    request_bytes_.increase(bytes);
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
        was = std::move(found->second);
        blocks_.erase(found);
        requests_.decrease(1);
        request_bytes_.decrease(was.bytes);
    }
    if (was.uses.empty())
        free_pinned(was.arena, block, MOIETY_STREAM_DONE);
    else
        waits_.add({was.arena, block, std::move(was.uses)});
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

bool PinnedAllocator::is_ours(const void *data)
{
    std::lock_guard<std::mutex> guard(lock_);
    return find_locked(data) != nullptr;
}

/* By the address alone: the context may be that of any tensor's memory. */
bool PinnedAllocator::record_event(void *data, void *context,
                                   c10::Stream stream)
{
    if (!is_ours(data))
        return before_->record_event(data, context, stream);
    const bool captures = is_capturing(stream);
    std::lock_guard<std::mutex> guard(lock_);
    Block *block = find_locked(data);
    if (!block)
        return false;
    block->is_kept = block->is_kept || captures;
    const bool is_known =
        std::any_of(block->uses.begin(), block->uses.end(),
                    [&](const PinnedUse &use) { return use.stream == stream; });
    if (!is_known)
        block->uses.push_back({stream});
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
