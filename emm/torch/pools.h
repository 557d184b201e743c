/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The pools behind PyTorch's allocator: the process's own (moiety_default_pool()),
 * which its other libraries use too.
 */
#ifndef MOIETY_EMM_TORCH_POOLS_H_
#define MOIETY_EMM_TORCH_POOLS_H_

#include <c10/util/Exception.h>
#include <moiety/moiety.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

namespace moiety_torch
{

constexpr int kDevicesMax = 64;

inline moiety_devptr address_of(const void *block)
{
    return reinterpret_cast<moiety_devptr>(block);
}

inline void *block_at(moiety_devptr address)
{
    return reinterpret_cast<void *>(address);
}

inline moiety_stream stream_of(void *stream)
{
    return static_cast<moiety_stream>(stream);
}

/** What a pool is made with. */
struct PoolSettings {
    uint32_t flags = MOIETY_POOL_NOTE_STREAMS;
    moiety_memory memory = MOIETY_MEMORY_AUTO;
    uint64_t limit_bytes = 0;
};

class Pools
{
  public:
    /** Called with each pool before PyTorch uses it. */
    using Made = std::function<void(int device, moiety_pool *pool)>;

    /** Throws c10::Error if the process has such pools already. */
    void set(const PoolSettings &settings, Made made);

    /** The device's pool. Throws c10::Error where there can be none. */
    moiety_pool *get(int device)
    {
        /* Edge pool_made, with make(). */
        moiety_pool *pool = pools_[device].load(std::memory_order_acquire);
        return pool ? pool : make(device);
    }

    /** NULL: none was made yet. */
    moiety_pool *find(int device) const
    {
        /* Edge pool_made, with make(). */
        return pools_[device].load(std::memory_order_acquire);
    }

    /** Which device's pool has the block, and what of it may be used; -1: none.
     *  `likely` is looked at first. */
    int device_of(const void *block, int likely, size_t *out_bytes) const;

  private:
    moiety_pool *make(int device);

    std::atomic<moiety_pool *> pools_[kDevicesMax] = {};
    std::mutex lock_; /* of the rest */
    Made made_;
};

/** A status of the library and its message, for PyTorch's callers. */
class StatusError : public c10::Error
{
  public:
    StatusError(moiety_status status, std::string text)
        : c10::Error({__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
                     std::move(text)),
          status_(status)
    {
    }
    moiety_status status() const noexcept
    {
        return status_;
    }

  private:
    moiety_status status_;
};

/** Throws a StatusError with the library's last message, if `status` is one. */
void check(moiety_status status, const char *what);

/** What a pool has; nothing was written where that fails. */
inline moiety_status read_stats(moiety_pool *pool, moiety_pool_stats *out)
{
    *out = {};
    out->struct_size = sizeof(*out);
    return moiety_pool_get_stats(pool, out);
}

/** Where a call that fails leaves all as it was, and its caller goes on. */
inline void ignore(moiety_status) {}

} // namespace moiety_torch

#endif
