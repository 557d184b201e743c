/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pools, and blocks that free themselves: moiety/moiety.hpp.
 */
#ifndef MOIETY_CXX_POOL_HPP_
#define MOIETY_CXX_POOL_HPP_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "moiety/cxx/error.hpp"
#include "moiety/pool.h"
#include "moiety/stats.h"

namespace moiety
{

class buffer;

/**
 * Names a pool that somebody else owns: the process, a host arena, a moiety::pool or
 * C code. Functions of this library take one, so they also take a `moiety_pool *` and
 * a moiety::pool.
 */
class pool_ref
{
  public:
    pool_ref() = default;
    /* Implicit, as a moiety_pool * means the same. */
    pool_ref(moiety_pool *handle) noexcept : handle_(handle) {}

    moiety_pool *get() const noexcept
    {
        return handle_;
    }
    /** A block for work on `stream`: moiety_alloc(). */
    buffer alloc(std::size_t size_bytes, moiety_stream stream) const;
    /** moiety_alloc_with(). */
    buffer alloc_with(std::size_t size_bytes, moiety_stream stream,
                      const moiety_alloc_options &options) const;
    moiety_pool_stats stats() const
    {
        moiety_pool_stats stats{};
        stats.struct_size = sizeof stats;
        check(moiety_pool_get_stats(handle_, &stats));
        return stats;
    }
    /** moiety_pool_synchronize(). */
    void synchronize(std::uint32_t timeout_ms) const
    {
        check(moiety_pool_synchronize(handle_, timeout_ms));
    }
    /** Returns the bytes that went back. */
    std::uint64_t trim(std::uint64_t keep_bytes = 0) const
    {
        std::uint64_t bytes = 0;
        check(moiety_pool_trim(handle_, keep_bytes, &bytes));
        return bytes;
    }
    /** Frees every live block, also those of buffers, which must have let go of
     *  theirs: moiety_free_all(). Returns how many. */
    std::uint64_t free_all(moiety_stream stream) const
    {
        std::uint64_t freed = 0;
        check(moiety_free_all(handle_, stream, &freed));
        return freed;
    }

  protected:
    moiety_pool *handle_ = nullptr;
};

/** Owns a pool. */
class pool : public pool_ref
{
  public:
    explicit pool(const moiety_pool_options &options = MOIETY_POOL_OPTIONS_INIT)
    {
        check(moiety_pool_create(&options, &handle_));
    }
    pool(pool &&other) noexcept
        : pool_ref(std::exchange(other.handle_, nullptr))
    {
    }
    pool &operator=(pool &&other) noexcept
    {
        std::swap(handle_, other.handle_);
        return *this;
    }
    /** moiety_pool_destroy_later(): while a capture guard is held, the pool lives
     *  until that ends. What was never freed ends with it. */
    ~pool()
    {
        report(moiety_pool_destroy_later(handle_), "moiety::~pool");
    }

    /** The pool that the process shares, which owns it: moiety_default_pool(). */
    static pool_ref default_for(std::int32_t device)
    {
        moiety_pool *handle = nullptr;
        check(moiety_default_pool(device, &handle));
        return handle;
    }
};

/**
 * Owns a block of device memory. Ends on `stream()`: work that is queued there
 * may still use it. An empty one has the address 0. The pool must outlive it.
 */
class buffer
{
  public:
    buffer() = default;
    buffer(pool_ref pool, std::size_t size_bytes, moiety_stream stream)
        : buffer(adopt(pool, 0, size_bytes, stream))
    {
        check(moiety_alloc(pool.get(), size_bytes, stream, &address_.value));
    }
    buffer(pool_ref pool, std::size_t size_bytes, moiety_stream stream,
           const moiety_alloc_options &options)
        : buffer(adopt(pool, 0, size_bytes, stream))
    {
        check(moiety_alloc_with(pool.get(), size_bytes, stream, &options,
                                &address_.value));
    }
    buffer(buffer &&) noexcept = default;
    buffer &operator=(buffer &&) noexcept = default;
    /** A block whose free is refused is the pool's at its end. */
    ~buffer()
    {
        if (address())
            report(moiety_free(pool_.value, address(), stream()),
                   "moiety::~buffer");
    }

    /** Owns a live block that the caller has: the opposite of release(). */
    static buffer adopt(pool_ref pool, moiety_devptr address,
                        std::size_t size_bytes, moiety_stream stream) noexcept
    {
        buffer block;
        block.pool_.value = pool.get();
        block.address_.value = address;
        block.size_bytes_.value = size_bytes;
        block.stream_.value = stream;
        return block;
    }
    moiety_devptr address() const noexcept
    {
        return address_.value;
    }
    void *data() const noexcept
    {
        return reinterpret_cast<void *>(address_.value);
    }
    std::size_t size() const noexcept
    {
        return size_bytes_.value;
    }
    moiety_stream stream() const noexcept
    {
        return stream_.value;
    }
    /** On which stream it ends; the caller has put that stream's work behind the
     *  last use on the one before. */
    void set_stream(moiety_stream stream) noexcept
    {
        stream_.value = stream;
    }
    /** Another stream's work uses it too: moiety_record_use(). */
    void record_use(moiety_stream stream) const
    {
        check(moiety_record_use(pool_.value, address(), stream));
    }
    /** Makes the block longer or shorter where it lies, for `stream()`:
     *  moiety_resize(). False: it keeps its length, and nothing has changed. */
    bool try_resize(std::size_t size_bytes)
    {
        moiety_status status =
            moiety_resize(pool_.value, address(), size_bytes, stream());
        if (status == MOIETY_E_NO_ROOM || status == MOIETY_E_IN_USE ||
            status == MOIETY_E_PAUSED)
            return false;
        check(status);
        size_bytes_.value = size_bytes;
        return true;
    }
    /** The block is the caller's, to be freed by moiety_free(). */
    moiety_devptr release() noexcept
    {
        size_bytes_.value = 0;
        return std::exchange(address_.value, 0);
    }

  private:
    detail::held<moiety_pool *> pool_;
    detail::held<moiety_devptr> address_;
    detail::held<std::size_t> size_bytes_;
    detail::held<moiety_stream> stream_;
};

inline buffer pool_ref::alloc(std::size_t size_bytes,
                              moiety_stream stream) const
{
    return buffer(*this, size_bytes, stream);
}

inline buffer pool_ref::alloc_with(std::size_t size_bytes, moiety_stream stream,
                                   const moiety_alloc_options &options) const
{
    return buffer(*this, size_bytes, stream, options);
}

} // namespace moiety

#endif
