/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Exceptions for statuses, and what owners have in common: moiety/moiety.hpp.
 */
#ifndef MOIETY_CXX_ERROR_HPP_
#define MOIETY_CXX_ERROR_HPP_

#include <cstdio>
#include <exception>
#include <new>
#include <utility>

#include "moiety/callbacks.h"
#include "moiety/status.h"

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

namespace detail
{

/* A member of an owner: it leaves a null value behind when it is moved, and two
 * change places when one is assigned to. So owners need no moves of their own. */
template <typename T> struct held {
    T value{};

    held() = default;
    explicit held(T from) noexcept : value(from) {}
    held(held &&other) noexcept : value(std::exchange(other.value, T{})) {}
    held &operator=(held &&other) noexcept
    {
        std::swap(value, other.value);
        return *this;
    }
};

} // namespace detail

} // namespace moiety

#endif
