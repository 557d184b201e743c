/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pinned_arenas.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>

#include <cstring>

namespace moiety_torch
{

namespace
{

constexpr uint64_t kNsPerUs = 1000;
/* Larger caches hold more memory, and Python hides that they are faster:
 * docs/dev/adr/0047-pytorch-pinned.md. */
constexpr uint64_t kThreadCacheBytes = uint64_t(256) << 10;

uint64_t bit_of(int device)
{
    return uint64_t(1) << device;
}

moiety_status read_host_stats(moiety_host *arena, moiety_host_stats *out)
{
    *out = {};
    out->struct_size = sizeof(*out);
    return moiety_host_get_stats(arena, out);
}

bool are_of_the_same_nodes(moiety_host *one, moiety_host *other)
{
    moiety_host_stats mine, its;
    return read_host_stats(one, &mine) == MOIETY_OK &&
           read_host_stats(other, &its) == MOIETY_OK &&
           !memcmp(mine.nodes, its.nodes, sizeof(mine.nodes));
}

} // namespace

void refuse_child(moiety_status status)
{
    TORCH_CHECK(status != MOIETY_E_FORKED,
                "Moiety: a child of a fork has no pinned memory after its "
                "parent has used some: start the process by \"spawn\": ",
                moiety_last_error_message());
}

moiety_host *PinnedArenas::of_current_device()
{
    const int device = c10::cuda::current_device();
    /* Edge pinned_arena, with publish(). */
    moiety_host *arena = arenas_[device].load(std::memory_order_acquire);
    if (arena)
        return arena;
    /* PyTorch pins in any context that there is, this device's first. */
    const auto ready = c10::cuda::getDeviceIndexWithPrimaryContext();
    return make(ready ? *ready : device);
}

/* Without the lock while the library works, which may call the program. Two threads
 * may make one each: publish() keeps one of them. */
moiety_host *PinnedArenas::make(int device)
{
    /* Edge pinned_arena, with publish(). */
    moiety_host *arena = arenas_[device].load(std::memory_order_acquire);
    if (arena || is_refused(device))
        return arena;
    moiety_host_options options = MOIETY_HOST_OPTIONS_INIT;
    options.device = device;
    options.thread_cache_bytes = kThreadCacheBytes;
    moiety_host *made = nullptr;
    moiety_status status = moiety_host_create(&options, &made);
    if (status != MOIETY_OK) {
        refuse_child(status);
        return refuse(device, moiety_last_error_message());
    }
    arena = publish(device, made);
    if (arena != made)
        ignore(moiety_host_destroy(made, nullptr));
    return arena;
}

bool PinnedArenas::is_refused(int device)
{
    std::lock_guard<std::mutex> guard(lock_);
    return refused_ & bit_of(device);
}

/* Returns the arena that another thread has made meanwhile, if any. */
moiety_host *PinnedArenas::refuse(int device, const std::string &why)
{
    {
        std::lock_guard<std::mutex> guard(lock_);
        /* Relaxed: the lock orders makers. */
        moiety_host *arena = arenas_[device].load(std::memory_order_relaxed);
        if (arena || refused_ & bit_of(device))
            return arena;
        refused_ |= bit_of(device);
    }
    TORCH_WARN("Moiety: PyTorch's own allocator provides pinned memory near "
               "device ",
               device, ": ", why);
    return nullptr;
}

/* The device's arena from now on. */
moiety_host *PinnedArenas::publish(int device, moiety_host *made)
{
    std::lock_guard<std::mutex> guard(lock_);
    moiety_host *arena = join_locked(made);
    /* Edge pinned_arena, with of_current_device(). */
    arenas_[device].store(arena, std::memory_order_release);
    return arena;
}

/* The older arena of the same nodes, if there is one. */
moiety_host *PinnedArenas::join_locked(moiety_host *made)
{
    for (moiety_host *one : all_) {
        if (are_of_the_same_nodes(one, made))
            return one;
    }
    all_.push_back(made);
    return made;
}

std::vector<moiety_host *> PinnedArenas::all()
{
    std::lock_guard<std::mutex> guard(lock_);
    return all_;
}

PinnedTotals PinnedArenas::totals()
{
    PinnedTotals out;
    for (moiety_host *arena : all()) {
        moiety_pool_stats pool;
        moiety_host_stats host;
        ignore(read_stats(moiety_host_pool(arena), &pool));
        ignore(read_host_stats(arena, &host));
        out.segment_count += pool.segment_current;
        out.bytes += static_cast<int64_t>(pool.reserved_bytes_current);
        out.peak_bytes += static_cast<int64_t>(pool.reserved_bytes_peak);
        for (uint64_t ns : host.stage_ns)
            out.pin_us += static_cast<int64_t>(ns / kNsPerUs);
    }
    return out;
}

void PinnedArenas::reset_peaks()
{
    for (moiety_host *arena : all())
        ignore(moiety_pool_reset_peaks(moiety_host_pool(arena)));
}

uint64_t PinnedArenas::trim()
{
    uint64_t bytes = 0;
    for (moiety_host *arena : all()) {
        uint64_t trimmed = 0;
        ignore(moiety_host_trim(arena, 0, &trimmed));
        bytes += trimmed;
    }
    return bytes;
}

} // namespace moiety_torch
