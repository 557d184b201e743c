/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Checked pools for tests.
 */
#ifndef MOIETY_TESTS_CHECKED_CHECKED_UNDER_TEST_H_
#define MOIETY_TESTS_CHECKED_CHECKED_UNDER_TEST_H_

#include <gtest/gtest.h>

#include <string>

#include "moiety/moiety.h"
#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace checked_test
{

using namespace pool_test;

inline moiety_pool_options Quiet()
{
    moiety_pool_options options = pool_test::Defaults();
    set_kind(&options, KIND_CHECKED | MOIETY_POOL_CHECKED_QUIET);
    return options;
}

inline moiety_pool_options Loud()
{
    moiety_pool_options options = pool_test::Defaults();
    set_kind(&options, KIND_CHECKED);
    return options;
}

inline moiety_checked_counts Check(moiety_pool *pool)
{
    moiety_checked_counts counts = {};
    counts.struct_size = sizeof(counts);
    EXPECT_OK(moiety_pool_check(pool, &counts));
    return counts;
}

// Of mistakes of all kinds.
inline uint64_t Findings(const moiety_checked_counts &counts)
{
    return counts.double_frees + counts.interior_frees + counts.foreign_frees +
           counts.wrong_sizes + counts.dead_streams + counts.foreign_streams +
           counts.writes_after_free + counts.writes_out_of_bounds;
}

inline ::testing::AssertionResult MessageHas(const std::string &part)
{
    std::string message = moiety_last_error_message();
    if (message.find(part) != std::string::npos)
        return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure()
           << "no '" << part << "' in: " << message;
}

// The flags of pools that know their blocks one by one, for tests of each.
inline auto EachKind()
{
    return ::testing::Values(
        uint32_t{KIND_CHECKED | MOIETY_POOL_CHECKED_QUIET},
        uint32_t{KIND_PASS_THROUGH},
        uint32_t{KIND_CHECKED | MOIETY_POOL_CHECKED_QUIET | KIND_PASS_THROUGH});
}

inline std::string NameOfKind(const ::testing::TestParamInfo<uint32_t> &given)
{
    std::string name;
    if (given.param & KIND_CHECKED)
        name += "Checked";
    if (given.param & KIND_PASS_THROUGH)
        name += "Passing";
    return name;
}

using Checked = StandinTest;

} // namespace checked_test

#endif
