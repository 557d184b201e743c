/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Segments that transports hold and watch: moiety/moiety.hpp.
 */
#ifndef MOIETY_CXX_SEGMENT_HPP_
#define MOIETY_CXX_SEGMENT_HPP_

#include <cstddef>

#include "moiety/cxx/error.hpp"
#include "moiety/cxx/pool.hpp"
#include "moiety/segment.h"

namespace moiety
{

/** Keeps the segments of a range where they are. The pool must outlive it. */
class segment_hold
{
  public:
    segment_hold(pool_ref pool, moiety_devptr address, std::size_t size_bytes)
        : address_(address), size_bytes_(size_bytes)
    {
        check(moiety_segment_hold(pool.get(), address, size_bytes));
        pool_.value = pool.get();
    }
    segment_hold(segment_hold &&) noexcept = default;
    segment_hold &operator=(segment_hold &&) noexcept = default;
    ~segment_hold()
    {
        if (pool_.value)
            report(moiety_segment_unhold(pool_.value, address(), size()),
                   "moiety::~segment_hold");
    }

    moiety_devptr address() const noexcept
    {
        return address_.value;
    }
    std::size_t size() const noexcept
    {
        return size_bytes_.value;
    }

  private:
    detail::held<moiety_pool *> pool_; /* null: it holds nothing */
    detail::held<moiety_devptr> address_;
    detail::held<std::size_t> size_bytes_;
};

/**
 * Watches a pool's segments. The pool, and `watcher.user`, must outlive it. It must
 * not end inside a callback of the pool.
 */
class segment_watch
{
  public:
    segment_watch(pool_ref pool, const moiety_segment_watcher &watcher)
        : pool_(pool.get())
    {
        check(moiety_segment_watch(pool.get(), &watcher, &own_.value));
    }
    segment_watch(segment_watch &&) noexcept = default;
    segment_watch &operator=(segment_watch &&) noexcept = default;
    ~segment_watch()
    {
        if (get())
            report(moiety_segment_unwatch(pool_.value, get()),
                   "moiety::~segment_watch");
    }

    moiety_watch get() const noexcept
    {
        return own_.value;
    }

  private:
    detail::held<moiety_pool *> pool_;
    detail::held<moiety_watch> own_;
};

} // namespace moiety

#endif
