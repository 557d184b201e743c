/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Tenants and private arenas of a pool: moiety/moiety.hpp.
 */
#ifndef MOIETY_CXX_TENANT_HPP_
#define MOIETY_CXX_TENANT_HPP_

#include <cstddef>
#include <cstdint>

#include "moiety/cxx/error.hpp"
#include "moiety/cxx/pool.hpp"
#include "moiety/private.h"
#include "moiety/tenant.h"

namespace moiety
{

namespace detail
{

/* A handle, and the pool that it is of. */
template <typename Handle> class part_of_pool
{
  public:
    Handle get() const noexcept
    {
        return own_.value;
    }
    pool_ref pool() const noexcept
    {
        return pool_.value;
    }

  protected:
    explicit part_of_pool(pool_ref pool) noexcept : pool_(pool.get()) {}

    held<moiety_pool *> pool_;
    held<Handle> own_;
};

} // namespace detail

/**
 * Owns a private arena. The pool must outlive it. Blocks may outlive it, but not if
 * it is paused.
 */
class private_arena : public detail::part_of_pool<moiety_private>
{
  public:
    explicit private_arena(
        pool_ref pool,
        const moiety_private_options &options = MOIETY_PRIVATE_OPTIONS_INIT)
        : part_of_pool(pool)
    {
        check(moiety_private_create(pool.get(), &options, &own_.value));
    }
    private_arena(private_arena &&) noexcept = default;
    private_arena &operator=(private_arena &&) noexcept = default;
    /** An arena whose end is refused is the pool's at its end. */
    ~private_arena()
    {
        if (get())
            report(moiety_private_destroy(get()), "moiety::~private_arena");
    }

    buffer alloc(std::size_t size_bytes, moiety_stream stream) const
    {
        return alloc_with(size_bytes, stream, MOIETY_ALLOC_OPTIONS_INIT);
    }
    /** `options` may name no tenant, and no other arena. */
    buffer alloc_with(std::size_t size_bytes, moiety_stream stream,
                      moiety_alloc_options options) const
    {
        options.private_arena = get();
        return buffer(pool(), size_bytes, stream, options);
    }
    /** moiety_private_claim(). */
    buffer claim(moiety_devptr address, std::size_t size_bytes,
                 moiety_stream stream) const
    {
        check(moiety_private_claim(get(), address, size_bytes, stream));
        return buffer::adopt(pool(), address, size_bytes, stream);
    }
    /** `flags` are MOIETY_PAUSE_ bits: moiety_private_pause(). */
    void pause(std::uint32_t flags) const
    {
        check(moiety_private_pause(get(), flags));
    }
    void resume() const
    {
        check(moiety_private_resume(get()));
    }
    /** Returns the bytes that the pool got. */
    std::uint64_t trim() const
    {
        std::uint64_t bytes = 0;
        check(moiety_private_trim(get(), &bytes));
        return bytes;
    }
    moiety_private_stats stats() const
    {
        moiety_private_stats stats{};
        stats.struct_size = sizeof stats;
        check(moiety_private_get_stats(get(), &stats));
        return stats;
    }
};

/** Owns a tenant. Its blocks must end before it, and the pool after it. */
class tenant : public detail::part_of_pool<moiety_tenant>
{
  public:
    explicit tenant(pool_ref pool, const moiety_tenant_options &options =
                                       MOIETY_TENANT_OPTIONS_INIT)
        : part_of_pool(pool)
    {
        check(moiety_tenant_create(pool.get(), &options, &own_.value));
    }
    tenant(tenant &&) noexcept = default;
    tenant &operator=(tenant &&) noexcept = default;
    /** A tenant that has blocks is the pool's at its end. */
    ~tenant()
    {
        report(moiety_tenant_destroy(get()), "moiety::~tenant");
    }

    buffer alloc(std::size_t size_bytes, moiety_stream stream) const
    {
        return alloc_with(size_bytes, stream, MOIETY_ALLOC_OPTIONS_INIT);
    }
    /** `options` may name no arena, and no other tenant. */
    buffer alloc_with(std::size_t size_bytes, moiety_stream stream,
                      moiety_alloc_options options) const
    {
        options.tenant = get();
        return buffer(pool(), size_bytes, stream, options);
    }
    void set_budget(std::uint64_t budget_bytes) const
    {
        check(moiety_tenant_set_budget(get(), budget_bytes));
    }
    /** The arena of one that can be paused; the tenant owns it. */
    moiety_private arena() const
    {
        moiety_private arena = nullptr;
        check(moiety_tenant_private(get(), &arena));
        return arena;
    }
    /** `flags` are MOIETY_PAUSE_ bits: moiety_tenant_pause(). */
    void pause(std::uint32_t flags) const
    {
        check(moiety_tenant_pause(get(), flags));
    }
    void resume() const
    {
        check(moiety_tenant_resume(get()));
    }
    moiety_tenant_stats stats() const
    {
        moiety_tenant_stats stats{};
        stats.struct_size = sizeof stats;
        check(moiety_tenant_get_stats(get(), &stats));
        return stats;
    }
};

} // namespace moiety

#endif
