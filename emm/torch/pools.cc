/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pools.h"

#include <c10/util/StringUtil.h>

#include <utility>

namespace moiety_torch
{

void check(moiety_status status, const char *what)
{
    if (status != MOIETY_OK)
        throw StatusError(status, c10::str("Moiety: ", what, ": ",
                                           moiety_last_error_message()));
}

void Pools::set(const PoolSettings &settings, Made made)
{
    moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
    options.flags = settings.flags;
    options.memory = settings.memory;
    options.limit_bytes = settings.limit_bytes;
    check(moiety_default_pool_set_options(&options),
          "enable PyTorch's pools before others of the process are used");
    std::lock_guard<std::mutex> guard(lock_);
    made_ = std::move(made);
}

moiety_pool *Pools::make(int device)
{
    std::lock_guard<std::mutex> guard(lock_);
    /* Relaxed: the lock orders makers. */
    moiety_pool *pool = pools_[device].load(std::memory_order_relaxed);
    if (pool)
        return pool;
    check(moiety_default_pool(device, &pool), "no pool for the device");
    made_(device, pool);
    /* Edge pool_made, with get(). */
    pools_[device].store(pool, std::memory_order_release);
    return pool;
}

int Pools::device_of(const void *block, int likely, size_t *out_bytes) const
{
    for (int i = -1; i < kDevicesMax; i++) {
        int device = i < 0 ? likely : i;
        moiety_pool *pool = i == likely ? nullptr : find(device);
        if (pool &&
            moiety_usable_size(pool, address_of(block), out_bytes) == MOIETY_OK)
            return device;
    }
    return -1;
}

} // namespace moiety_torch
