/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The pools behind PyTorch's allocator: one for each device, made when the
 * device's first tensor is.
 */
#ifndef BINADE_EMM_TORCH_POOLS_H_
#define BINADE_EMM_TORCH_POOLS_H_

#include <binade/binade.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

namespace binade_torch
{

constexpr int kDevicesMax = 64;

inline binade_devptr address_of(const void *block)
{
    return reinterpret_cast<binade_devptr>(block);
}

inline void *block_at(binade_devptr address)
{
    return reinterpret_cast<void *>(address);
}

inline binade_stream stream_of(void *stream)
{
    return static_cast<binade_stream>(stream);
}

/** What a pool is made with. */
struct PoolSettings {
    uint32_t flags = BINADE_POOL_NOTE_STREAMS | BINADE_POOL_PREFER_MAPPED;
    uint64_t limit_bytes = 0;
};

class Pools
{
  public:
    /** Told of each pool that is made, before anybody else has it. */
    using Made = std::function<void(int device, binade_pool *pool)>;

    void set(const PoolSettings &settings, Made made);

    /** The device's pool. Throws c10::Error where there can be none. */
    binade_pool *get(int device)
    {
        /* Edge pool_made, with make(). */
        binade_pool *pool = pools_[device].load(std::memory_order_acquire);
        return pool ? pool : make(device);
    }

    /** NULL: none was made yet. */
    binade_pool *find(int device) const
    {
        /* Edge pool_made, with make(). */
        return pools_[device].load(std::memory_order_acquire);
    }

    /** Which device's pool has the block, and what of it may be used; -1: none.
     *  `likely` is looked at first. */
    int device_of(const void *block, int likely, size_t *out_bytes) const;

  private:
    binade_pool *make(int device);

    std::atomic<binade_pool *> pools_[kDevicesMax] = {};
    std::mutex lock_; /* of the rest */
    PoolSettings settings_;
    Made made_;
};

/** Throws what the library's last error was, if `status` is one. */
void check(binade_status status, const char *what);

/** What a pool has; nothing was written where that fails. */
inline binade_status read_stats(binade_pool *pool, binade_stats *out)
{
    *out = {};
    out->struct_size = sizeof(*out);
    return binade_pool_stats(pool, out);
}

/** Where a call that fails leaves all as it was, and its caller goes on. */
inline void ignore(binade_status) {}

} // namespace binade_torch

#endif
