/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The streams that need not be created, as a parameter of tests.
 */
#ifndef BINADE_TESTS_POOL_STREAM_NAMES_H_
#define BINADE_TESTS_POOL_STREAM_NAMES_H_

#include <string>

#include <gtest/gtest.h>

#include "binade/stream.h"

namespace pool_test
{

inline auto GivenStreams()
{
    return ::testing::Values(BINADE_STREAM_DONE, BINADE_STREAM_ANY,
                             BINADE_STREAM_LEGACY, BINADE_STREAM_PER_THREAD);
}

inline std::string
NameOfStream(const ::testing::TestParamInfo<binade_stream> &given)
{
    if (given.param == BINADE_STREAM_DONE)
        return "Done";
    if (given.param == BINADE_STREAM_ANY)
        return "Any";
    return given.param == BINADE_STREAM_LEGACY ? "Legacy" : "PerThread";
}

} // namespace pool_test

#endif
