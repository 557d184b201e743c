/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Captures of CUDA graphs, their guards and their memory: moiety/moiety.hpp.
 */
#ifndef MOIETY_CXX_CAPTURE_HPP_
#define MOIETY_CXX_CAPTURE_HPP_

#include "moiety/cxx/error.hpp"
#include "moiety/cxx/pool.hpp"
#include "moiety/cxx/tenant.hpp"
#include "moiety/private.h"
#include "moiety/scope.h"
#include "moiety/stream.h"

namespace moiety
{

/** Owns a capture guard: from before a capture begins until it has ended. */
class capture_guard
{
  public:
    capture_guard()
    {
        check(moiety_capture_guard_begin());
        is_held_.value = true;
    }
    capture_guard(capture_guard &&) noexcept = default;
    capture_guard &operator=(capture_guard &&) noexcept = default;
    ~capture_guard()
    {
        if (is_held())
            report(moiety_capture_guard_end(), "moiety::~capture_guard");
    }

    bool is_held() const noexcept
    {
        return is_held_.value;
    }
    /** Before its time. It stays held if that is refused. */
    void end()
    {
        check(moiety_capture_guard_end());
        is_held_.value = false;
    }

  private:
    detail::held<bool> is_held_;
};

/**
 * Owns a capture scope: made before cuStreamBeginCapture(), ended by end() after
 * cuStreamEndCapture(), and kept for as long as the graph may be launched. The pool
 * or the arena must outlive it.
 */
class scope
{
  public:
    scope(pool_ref pool, moiety_stream stream) : is_open_(true)
    {
        check(moiety_scope_begin(pool.get(), stream, &own_.value));
    }
    /** Memory of an arena, or of moiety::tenant::arena(). */
    scope(moiety_private arena, moiety_stream stream) : is_open_(true)
    {
        check(moiety_private_scope_begin(arena, stream, &own_.value));
    }
    scope(const private_arena &arena, moiety_stream stream)
        : scope(arena.get(), stream)
    {
    }
    scope(scope &&) noexcept = default;
    scope &operator=(scope &&) noexcept = default;
    /** Ends it if it is open, and releases its memory. If that is refused, it has its
     *  memory until moiety_scope_release_all(). */
    ~scope()
    {
        if (!get())
            return;
        if (is_open())
            report(moiety_scope_end(get()), "moiety::~scope");
        report(moiety_scope_release(get()), "moiety::~scope");
    }

    moiety_scope get() const noexcept
    {
        return own_.value;
    }
    bool is_open() const noexcept
    {
        return is_open_.value;
    }
    void end()
    {
        check(moiety_scope_end(get()));
        is_open_.value = false;
    }

  private:
    detail::held<moiety_scope> own_;
    detail::held<bool> is_open_;
};

} // namespace moiety

#endif
