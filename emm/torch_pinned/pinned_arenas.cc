/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pinned_arenas.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <memory>

namespace moiety_torch
{

namespace
{

constexpr uint64_t kNsPerUs = 1000;
/* Larger ones make threads' calls no faster that pass Python, and hold memory:
 * docs/dev/adr/0047-pytorch-pinned.md. */
constexpr uint64_t kThreadCacheBytes = uint64_t(256) << 10;

uint64_t bit_of(int device)
{
    return uint64_t(1) << device;
}

moiety_status read_place(PinnedArena &arena)
{
    arena.place.struct_size = sizeof(arena.place);
    return moiety_host_get_stats(arena.host, &arena.place);
}

/* The context that the arena has made current for its driver calls. */
moiety_status read_context(PinnedArena &arena)
{
    moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
    moiety_status status = moiety_pool_get_options(arena.pool, &options);
    arena.context = options.context;
    return status;
}

moiety_status open(PinnedArena &arena)
{
    moiety_host_options options = MOIETY_HOST_OPTIONS_INIT;
    options.device = arena.device;
    options.thread_cache_bytes = kThreadCacheBytes;
    moiety_status status = moiety_host_create(&options, &arena.host);
    if (status != MOIETY_OK)
        return status;
    arena.pool = moiety_host_pool(arena.host);
    arena.devices = bit_of(arena.device);
    status = read_context(arena);
    return status == MOIETY_OK ? read_place(arena) : status;
}

bool are_of_the_same_nodes(const PinnedArena &one, const PinnedArena &other)
{
    return !memcmp(one.place.nodes, other.place.nodes, sizeof(one.place.nodes));
}

} // namespace

void refuse_child(moiety_status status)
{
    TORCH_CHECK(status != MOIETY_E_FORKED,
                "Moiety: a child of a fork has no pinned memory after its "
                "parent has used some: start the process by \"spawn\": ",
                moiety_last_error_message());
}

PinnedArena *PinnedArenas::of_current_device()
{
    const int device = c10::cuda::current_device();
    /* Edge pinned_arena, with make_locked(). */
    PinnedArena *arena = arenas_[device].load(std::memory_order_acquire);
    if (!arena) {
        /* PyTorch pins in any context that there is, this device's first. */
        auto ready = c10::cuda::getDeviceIndexWithPrimaryContext();
        arena = make(ready ? *ready : device);
    }
    return arena ? arena->first : nullptr;
}

PinnedArena *PinnedArenas::make(int device)
{
    std::string why;
    {
        std::lock_guard<std::mutex> guard(lock_);
        /* Relaxed: the lock orders makers. */
        PinnedArena *arena = arenas_[device].load(std::memory_order_relaxed);
        if (!arena && !(refused_ & bit_of(device)))
            arena = make_locked(device, &why);
        if (arena || why.empty())
            return arena;
    }
    /* A warning may wait for the interpreter: without the lock. */
    TORCH_WARN("Moiety: PyTorch's own allocator provides pinned memory near "
               "device ",
               device, ": ", why);
    return nullptr;
}

PinnedArena *PinnedArenas::make_locked(int device, std::string *out_why)
{
    auto made = std::make_unique<PinnedArena>();
    made->device = device;
    moiety_status status = open(*made);
    if (status != MOIETY_OK) {
        *out_why = moiety_last_error_message();
        refuse_child(status);
        refused_ |= bit_of(device);
        if (made->host)
            ignore(moiety_host_destroy(made->host, nullptr));
        return nullptr;
    }
    for (PinnedArena *one : with_memory()) {
        if (are_of_the_same_nodes(*one, *made))
            made->first = one;
    }
    /* Edge pinned_arena, with of_current_device() and with_memory(). */
    arenas_[device].store(made.get(), std::memory_order_release);
    return made.release();
}

std::vector<PinnedArena *> PinnedArenas::with_memory() const
{
    std::vector<PinnedArena *> out;
    for (const auto &one : arenas_) {
        /* Edge pinned_arena, with make_locked(). */
        PinnedArena *arena = one.load(std::memory_order_acquire);
        if (arena && arena->first == arena)
            out.push_back(arena);
    }
    return out;
}

/* A stream has a context, so the other device's arena starts nothing. */
std::optional<moiety_stream>
PinnedArenas::stream_of(PinnedArena &arena, c10::cuda::CUDAStream stream)
{
    const int device = stream.device_index();
    moiety_stream named = moiety_torch::stream_of(stream.stream());
    if (device == arena.device)
        return named;
    PinnedArena *other = make(device);
    if (!other)
        return std::nullopt;
    std::lock_guard<std::mutex> guard(lock_);
    if (!(arena.devices & bit_of(device)) &&
        moiety_pool_add_context(arena.pool, other->context) != MOIETY_OK)
        return std::nullopt;
    arena.devices |= bit_of(device);
    /* The null stream would be that of the arena's own context. */
    return named ? named : MOIETY_STREAM_ANY;
}

PinnedTotals PinnedArenas::totals()
{
    PinnedTotals out;
    for (PinnedArena *arena : with_memory()) {
        moiety_pool_stats pool;
        moiety_host_stats host = {};
        host.struct_size = sizeof(host);
        ignore(read_stats(arena->pool, &pool));
        ignore(moiety_host_get_stats(arena->host, &host));
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
    for (PinnedArena *arena : with_memory())
        ignore(moiety_pool_reset_peaks(arena->pool));
}

uint64_t PinnedArenas::trim()
{
    uint64_t all = 0;
    for (PinnedArena *arena : with_memory()) {
        uint64_t bytes = 0;
        if (moiety_host_trim(arena->host, 0, &bytes) == MOIETY_OK)
            all += bytes;
    }
    return all;
}

} // namespace moiety_torch
