/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A recording of a pool: moiety/moiety.hpp.
 */
#ifndef MOIETY_CXX_TRACE_HPP_
#define MOIETY_CXX_TRACE_HPP_

#include <utility>

#include "moiety/cxx/error.hpp"
#include "moiety/cxx/pool.hpp"
#include "moiety/trace.h"

namespace moiety
{

/** Owns a recording of a pool to a file. The pool must outlive it. */
class trace
{
  public:
    trace(pool_ref pool, const char *path)
    {
        check(moiety_trace_start(pool.get(), path));
        pool_.value = pool.get();
    }
    trace(trace &&) noexcept = default;
    trace &operator=(trace &&) noexcept = default;
    /** Writes the file's end. */
    ~trace()
    {
        if (is_recording())
            report(moiety_trace_stop(pool_.value, nullptr), "moiety::~trace");
    }

    bool is_recording() const noexcept
    {
        return pool_.value != nullptr;
    }
    /** moiety_trace_flush(): what failed until now is in what it returns. */
    moiety_trace_summary flush() const
    {
        moiety_trace_summary summary{};
        summary.struct_size = sizeof summary;
        check(moiety_trace_flush(pool_.value, &summary));
        return summary;
    }
    /** Writes the file's end. It records no more, also if it throws because something
     *  is missing in the file. */
    moiety_trace_summary stop()
    {
        moiety_trace_summary summary{};
        summary.struct_size = sizeof summary;
        check(moiety_trace_stop(std::exchange(pool_.value, nullptr), &summary));
        return summary;
    }

  private:
    detail::held<moiety_pool *> pool_; /* null: it records nothing */
};

} // namespace moiety

#endif
