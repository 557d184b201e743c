/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A step's name as part of a test's, where letters and digits alone may be.
 */
#ifndef MOIETY_TESTS_PROGRESS_STEP_NAME_H_
#define MOIETY_TESTS_PROGRESS_STEP_NAME_H_

#include <gtest/gtest.h>

#include <cctype>
#include <string>

namespace progress_test
{

// "locked.view": LockedView.
inline std::string
NameOfStep(const ::testing::TestParamInfo<const char *> &step)
{
    std::string name;
    bool is_first = true;
    for (const char *at = step.param; *at; at++) {
        bool is_letter = std::isalnum(static_cast<unsigned char>(*at)) != 0;
        if (is_letter)
            name += static_cast<char>(is_first ? std::toupper(*at) : *at);
        is_first = !is_letter;
    }
    return name;
}

} // namespace progress_test

#endif
