/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Moiety for C++17: owners that end themselves, exceptions for statuses, and a
 * std::pmr resource over pinned memory. Header only: it calls the C library.
 */
#ifndef MOIETY_MOIETY_HPP_
#define MOIETY_MOIETY_HPP_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory_resource>
#include <new>
#include <utility>

#include "moiety/moiety.h"

namespace moiety
{

/**
 * What is thrown for a status that is not MOIETY_OK, with the thread's message for
 * it: a status_error or an out_of_memory, which are std::exceptions as well. Copies
 * and construction throw nothing.
 */
class error
{
  public:
    virtual ~error() = default;
    moiety_status status() const noexcept
    {
        return status_;
    }
    /** The status's name, a colon and the message. */
    virtual const char *what() const noexcept
    {
        return text_;
    }

  protected:
    explicit error(moiety_status status) noexcept : status_(status)
    {
        std::snprintf(text_, sizeof text_, "%s: %s", moiety_status_name(status),
                      moiety_last_error_message());
    }
    error(const error &) = default;
    error &operator=(const error &) = default;

  private:
    moiety_status status_;
    char text_[1088]; /* a name, and a message of 1023 bytes */
};

/** Thrown for all statuses but those of out_of_memory. */
class status_error : public error, public std::exception
{
  public:
    explicit status_error(moiety_status status) noexcept : error(status) {}
    const char *what() const noexcept override
    {
        return error::what();
    }
};

/** Thrown for want of memory: what callers of allocators expect. */
class out_of_memory : public error, public std::bad_alloc
{
  public:
    explicit out_of_memory(moiety_status status) noexcept : error(status) {}
    const char *what() const noexcept override
    {
        return error::what();
    }
};

/** Throws out_of_memory or status_error unless the status is MOIETY_OK. */
inline void check(moiety_status status)
{
    switch (status) {
    case MOIETY_OK:
        return;
    case MOIETY_E_TOO_LARGE:
    case MOIETY_E_NO_DEVICE_MEMORY:
    case MOIETY_E_NO_PINNED_MEMORY:
    case MOIETY_E_NO_HOST_MEMORY:
    case MOIETY_E_BUDGET:
        throw out_of_memory(status);
    default:
        throw status_error(status);
    }
}

/**
 * For functions that must not throw, such as destructors: a status that is not
 * MOIETY_OK becomes a message to the log function (moiety_set_log()), or on stderr
 * if there is none. MOIETY_E_FORKED does not: the child of a fork owns nothing of
 * the library's.
 */
inline void report(moiety_status status, const char *function) noexcept
{
    char text[1200];
    if (status == MOIETY_OK || status == MOIETY_E_FORKED)
        return;
    std::snprintf(text, sizeof text, "%s: %s: %s", function,
                  moiety_status_name(status), moiety_last_error_message());
    moiety_log(MOIETY_LOG_ERROR, text);
}

/**
 * Owns a pool. Movable; one that was moved from has none. Threads: as the C
 * functions; the owner itself is not shared while it is assigned to or ends.
 * Destructors of this header throw nothing: report() has what they are refused.
 */
class pool
{
  public:
    /** Throws status_error or out_of_memory. */
    explicit pool(const moiety_pool_options &options = MOIETY_POOL_OPTIONS_INIT)
    {
        check(moiety_pool_create(&options, &own_));
    }
    pool(pool &&other) noexcept : own_(std::exchange(other.own_, nullptr)) {}
    pool &operator=(pool &&other) noexcept
    {
        std::swap(own_, other.own_);
        return *this;
    }
    /** moiety_pool_destroy_later(): while a capture guard is held, the pool lives
     *  until that ends. What was never freed ends with it. */
    ~pool()
    {
        report(moiety_pool_destroy_later(own_), "moiety::~pool");
    }

    moiety_pool *get() const noexcept
    {
        return own_;
    }
    moiety_pool_stats stats() const
    {
        moiety_pool_stats stats{};
        stats.struct_size = sizeof stats;
        check(moiety_pool_get_stats(own_, &stats));
        return stats;
    }
    /** moiety_pool_synchronize(). */
    void synchronize(std::uint32_t timeout_ms) const
    {
        check(moiety_pool_synchronize(own_, timeout_ms));
    }
    /** Returns the bytes that went back. */
    std::uint64_t trim(std::uint64_t keep_bytes = 0) const
    {
        std::uint64_t bytes = 0;
        check(moiety_pool_trim(own_, keep_bytes, &bytes));
        return bytes;
    }
    /** Frees every live block, also those of buffers, which must have let go of
     *  theirs: moiety_free_all(). Returns how many. */
    std::uint64_t free_all(moiety_stream stream) const
    {
        std::uint64_t freed = 0;
        check(moiety_free_all(own_, stream, &freed));
        return freed;
    }

  private:
    moiety_pool *own_ = nullptr;
};

/**
 * Owns a block of device memory. Ends on `stream()`: work that is queued there
 * may still use it. Movable; an empty one has the address 0.
 */
class buffer
{
  public:
    buffer() = default;
    /** Throws status_error or out_of_memory. The pool must outlive it. */
    buffer(moiety_pool *pool, std::size_t size_bytes, moiety_stream stream)
        : pool_(pool), size_bytes_(size_bytes), stream_(stream)
    {
        check(moiety_alloc(pool, size_bytes, stream, &address_));
    }
    buffer(const pool &pool, std::size_t size_bytes, moiety_stream stream)
        : buffer(pool.get(), size_bytes, stream)
    {
    }
    buffer(buffer &&other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)),
          address_(std::exchange(other.address_, 0)),
          size_bytes_(std::exchange(other.size_bytes_, 0)),
          stream_(other.stream_)
    {
    }
    buffer &operator=(buffer &&other) noexcept
    {
        std::swap(pool_, other.pool_);
        std::swap(address_, other.address_);
        std::swap(size_bytes_, other.size_bytes_);
        std::swap(stream_, other.stream_);
        return *this;
    }
    /** A block whose free is refused is the pool's at its end. */
    ~buffer()
    {
        if (address_)
            report(moiety_free(pool_, address_, stream_), "moiety::~buffer");
    }

    moiety_devptr address() const noexcept
    {
        return address_;
    }
    void *data() const noexcept
    {
        return reinterpret_cast<void *>(address_);
    }
    std::size_t size() const noexcept
    {
        return size_bytes_;
    }
    moiety_stream stream() const noexcept
    {
        return stream_;
    }
    /** On which stream it ends; the caller has put that stream's work behind the
     *  last use on the one before. */
    void set_stream(moiety_stream stream) noexcept
    {
        stream_ = stream;
    }
    /** Another stream's work uses it too: moiety_record_use(). */
    void record_use(moiety_stream stream) const
    {
        check(moiety_record_use(pool_, address_, stream));
    }
    /** Makes the block longer or shorter where it lies, for `stream()`:
     *  moiety_resize(). False: it keeps its length, and nothing has changed. */
    bool try_resize(std::size_t size_bytes)
    {
        moiety_status status =
            moiety_resize(pool_, address_, size_bytes, stream_);
        if (status == MOIETY_E_NO_ROOM || status == MOIETY_E_IN_USE ||
            status == MOIETY_E_PAUSED)
            return false;
        check(status);
        size_bytes_ = size_bytes;
        return true;
    }
    /** The block is the caller's, to be freed by moiety_free(). */
    moiety_devptr release() noexcept
    {
        size_bytes_ = 0;
        return std::exchange(address_, 0);
    }

  private:
    moiety_pool *pool_ = nullptr;
    moiety_devptr address_ = 0;
    std::size_t size_bytes_ = 0;
    moiety_stream stream_ = nullptr;
};

/** Owns a host arena: pinned memory on the NUMA node next to its device. */
class host_arena
{
  public:
    /** Throws status_error or out_of_memory. */
    explicit host_arena(
        const moiety_host_options &options = MOIETY_HOST_OPTIONS_INIT)
    {
        check(moiety_host_create(&options, &own_));
    }
    host_arena(host_arena &&other) noexcept
        : own_(std::exchange(other.own_, nullptr))
    {
    }
    host_arena &operator=(host_arena &&other) noexcept
    {
        std::swap(own_, other.own_);
        return *this;
    }
    /** moiety_host_destroy_later(): as ~pool(). */
    ~host_arena()
    {
        report(moiety_host_destroy_later(own_), "moiety::~host_arena");
    }
    moiety_host *get() const noexcept
    {
        return own_;
    }
    /** Frees every live block, of containers too, which must have ended:
     *  moiety_host_free_all(). Returns how many. */
    std::uint64_t free_all(moiety_stream stream) const
    {
        std::uint64_t freed = 0;
        check(moiety_host_free_all(own_, stream, &freed));
        return freed;
    }

  private:
    moiety_host *own_ = nullptr;
};

/**
 * Pinned memory for std::pmr containers. What is deallocated is taken to be
 * done: a container that a copy still reads must outlive the copy. Alignment: any
 * power of two; above 2 MiB, a block takes as many bytes more. The arena must
 * outlive it. Allocation throws out_of_memory or status_error; deallocation throws
 * nothing, and report() has what it is refused. In the child of a fork, containers
 * can end, but not grow.
 */
class host_resource : public std::pmr::memory_resource
{
  public:
    explicit host_resource(moiety_host *host) noexcept : host_(host) {}
    explicit host_resource(const host_arena &host) noexcept
        : host_resource(host.get())
    {
    }
    moiety_host *get() const noexcept
    {
        return host_;
    }

  private:
    /* Of every block; and the most that a block may be asked for. */
    static constexpr std::size_t block_alignment = 512;
    static constexpr std::size_t most_alignment = std::size_t{2} << 20;

    void *allocate_block(std::size_t size_bytes, std::size_t alignment)
    {
        moiety_alloc_options options = MOIETY_ALLOC_OPTIONS_INIT;
        void *memory = nullptr;
        options.alignment_bytes = alignment;
        check(
            alignment <= block_alignment
                ? moiety_host_alloc(host_, size_bytes, MOIETY_HOST_CPU, &memory)
                : moiety_host_alloc_with(host_, size_bytes, MOIETY_HOST_CPU,
                                         &options, &memory));
        return memory;
    }
    /* An aligned address inside a longer block; before it is where that begins. */
    void *allocate_inside(std::size_t size_bytes, std::size_t alignment)
    {
        if (alignment & (alignment - 1) || size_bytes > SIZE_MAX - alignment)
            throw std::bad_alloc();
        void *block = allocate_block(size_bytes + alignment, most_alignment);
        auto begin = reinterpret_cast<std::uintptr_t>(block);
        auto *memory =
            reinterpret_cast<void **>((begin + alignment) & ~(alignment - 1));
        memory[-1] = block;
        return memory;
    }
    void *do_allocate(std::size_t size_bytes, std::size_t alignment) override
    {
        /* A container may ask for nothing, and wants an address. */
        if (!size_bytes)
            size_bytes = 1;
        return alignment > most_alignment
                   ? allocate_inside(size_bytes, alignment)
                   : allocate_block(size_bytes, alignment);
    }
    void do_deallocate(void *memory, std::size_t,
                       std::size_t alignment) noexcept override
    {
        void *block = alignment > most_alignment
                          ? static_cast<void **>(memory)[-1]
                          : memory;
        report(moiety_host_free(host_, block, MOIETY_STREAM_DONE),
               "moiety::host_resource");
    }
    bool
    do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
        const auto *same = dynamic_cast<const host_resource *>(&other);
        return same && same->host_ == host_;
    }

    moiety_host *host_;
};

} // namespace moiety

#endif
