/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pinned memory: arenas, pins, and a std::pmr resource: moiety/moiety.hpp.
 */
#ifndef MOIETY_CXX_HOST_HPP_
#define MOIETY_CXX_HOST_HPP_

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>

#include "moiety/cxx/error.hpp"
#include "moiety/cxx/pool.hpp"
#include "moiety/host.h"

namespace moiety
{

/** Owns a host arena: pinned memory on the NUMA node next to its device. */
class host_arena
{
  public:
    explicit host_arena(
        const moiety_host_options &options = MOIETY_HOST_OPTIONS_INIT)
    {
        check(moiety_host_create(&options, &own_.value));
    }
    host_arena(host_arena &&) noexcept = default;
    host_arena &operator=(host_arena &&) noexcept = default;
    /** moiety_host_destroy_later(): as ~pool(). */
    ~host_arena()
    {
        report(moiety_host_destroy_later(get()), "moiety::~host_arena");
    }

    moiety_host *get() const noexcept
    {
        return own_.value;
    }
    /** The pool that it is: moiety_host_pool(). */
    pool_ref pool() const noexcept
    {
        return moiety_host_pool(get());
    }
    /** Frees every live block, of containers too, which must have ended:
     *  moiety_host_free_all(). Returns how many. */
    std::uint64_t free_all(moiety_stream stream) const
    {
        std::uint64_t freed = 0;
        check(moiety_host_free_all(get(), stream, &freed));
        return freed;
    }

  private:
    detail::held<moiety_host *> own_;
};

/** Owns a growth of an arena in a thread of its own: moiety_host_reserve_async(). Its
 *  end cancels it. */
class growth
{
  public:
    growth(moiety_host *host, std::uint64_t size_bytes,
           std::uint32_t thread_count = 0)
    {
        check(moiety_host_reserve_async(host, size_bytes, thread_count,
                                        &own_.value));
    }
    growth(const host_arena &host, std::uint64_t size_bytes,
           std::uint32_t thread_count = 0)
        : growth(host.get(), size_bytes, thread_count)
    {
    }
    growth(growth &&) noexcept = default;
    growth &operator=(growth &&) noexcept = default;
    ~growth()
    {
        report(moiety_growth_destroy(get()), "moiety::~growth");
    }

    moiety_growth *get() const noexcept
    {
        return own_.value;
    }
    /** Waits for its end: moiety_growth_wait(). False after the time; throws
     *  status_error if it did not get all. */
    bool wait(std::uint32_t timeout_ms) const
    {
        const moiety_status status = moiety_growth_wait(get(), timeout_ms);
        if (status != MOIETY_E_TIMEOUT)
            check(status);
        return status != MOIETY_E_TIMEOUT;
    }
    std::uint64_t ready_bytes() const noexcept
    {
        return moiety_growth_ready_bytes(get());
    }
    int descriptor() const noexcept
    {
        return moiety_growth_descriptor(get());
    }
    void cancel() const noexcept
    {
        moiety_growth_cancel(get());
    }

  private:
    detail::held<moiety_growth *> own_;
};

/** Keeps memory of the caller's pinned: moiety_host_pin(). The memory must stay
 *  mapped until it has ended. */
class host_pin
{
  public:
    host_pin(void *address, std::size_t size_bytes) : size_bytes_(size_bytes)
    {
        check(moiety_host_pin(address, size_bytes));
        address_.value = address;
    }
    host_pin(host_pin &&) noexcept = default;
    host_pin &operator=(host_pin &&) noexcept = default;
    ~host_pin()
    {
        if (address())
            report(moiety_host_unpin(address(), size()), "moiety::~host_pin");
    }

    void *address() const noexcept
    {
        return address_.value;
    }
    std::size_t size() const noexcept
    {
        return size_bytes_.value;
    }

  private:
    detail::held<void *> address_;
    detail::held<std::size_t> size_bytes_;
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
