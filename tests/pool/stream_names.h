/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The streams that need not be created, as a parameter of tests.
 */
#ifndef MOIETY_TESTS_POOL_STREAM_NAMES_H_
#define MOIETY_TESTS_POOL_STREAM_NAMES_H_

#include <string>

#include <gtest/gtest.h>

#include "moiety/stream.h"

namespace pool_test
{

inline auto GivenStreams()
{
    return ::testing::Values(MOIETY_STREAM_DONE, MOIETY_STREAM_ANY,
                             MOIETY_STREAM_LEGACY, MOIETY_STREAM_PER_THREAD);
}

inline std::string
NameOfStream(const ::testing::TestParamInfo<moiety_stream> &given)
{
    if (given.param == MOIETY_STREAM_DONE)
        return "Done";
    if (given.param == MOIETY_STREAM_ANY)
        return "Any";
    return given.param == MOIETY_STREAM_LEGACY ? "Legacy" : "PerThread";
}

} // namespace pool_test

#endif
