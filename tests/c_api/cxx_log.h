/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the library logs, for tests of the C++ headers.
 */
#ifndef MOIETY_TESTS_C_API_CXX_LOG_H_
#define MOIETY_TESTS_C_API_CXX_LOG_H_

#include <gtest/gtest.h>

#include <string>

#include "moiety/callbacks.h"

namespace cxx_test
{

// What the library logs while it lives.
class Log
{
  public:
    explicit Log(uint32_t level)
    {
        EXPECT_EQ(MOIETY_OK, moiety_set_log(level, Note, this));
    }
    ~Log()
    {
        EXPECT_EQ(MOIETY_OK, moiety_set_log(0, nullptr, nullptr));
    }
    bool Has(const char *text) const
    {
        return text_.find(text) != std::string::npos;
    }
    bool IsEmpty() const
    {
        return text_.empty();
    }

  private:
    static void Note(uint32_t, const char *message, void *user)
    {
        static_cast<Log *>(user)->text_ += message;
    }
    std::string text_;
};

} // namespace cxx_test

#endif
