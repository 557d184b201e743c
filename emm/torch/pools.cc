/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pools.h"

#include <c10/util/Exception.h>

#include <utility>

namespace binade_torch
{

void check(binade_status status, const char *what)
{
    TORCH_CHECK(status == BINADE_OK, "Binade: ", what, ": ",
                binade_last_error_message());
}

void Pools::set(const PoolSettings &settings, Made made)
{
    std::lock_guard<std::mutex> guard(lock_);
    settings_ = settings;
    made_ = std::move(made);
}

binade_pool *Pools::make(int device)
{
    std::lock_guard<std::mutex> guard(lock_);
    /* Relaxed: the lock orders makers. */
    binade_pool *pool = pools_[device].load(std::memory_order_relaxed);
    if (pool)
        return pool;
    binade_pool_options options = BINADE_POOL_OPTIONS_INIT;
    options.device = device;
    options.flags = settings_.flags;
    options.limit_bytes = settings_.limit_bytes;
    check(binade_pool_create(&options, &pool), "no pool for the device");
    made_(device, pool);
    /* Edge pool_made, with get(). */
    pools_[device].store(pool, std::memory_order_release);
    return pool;
}

int Pools::device_of(const void *block, int likely, size_t *out_bytes) const
{
    for (int i = -1; i < kDevicesMax; i++) {
        int device = i < 0 ? likely : i;
        binade_pool *pool = i == likely ? nullptr : find(device);
        if (pool &&
            binade_usable_size(pool, address_of(block), out_bytes) == BINADE_OK)
            return device;
    }
    return -1;
}

} // namespace binade_torch
