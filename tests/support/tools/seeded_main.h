/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * main() of tests that play at random. The seed differs from run to run and is
 * printed; --seed=N or MOIETY_TEST_SEED=N repeats one.
 */
#ifndef MOIETY_TESTS_SUPPORT_TOOLS_SEEDED_MAIN_H_
#define MOIETY_TESTS_SUPPORT_TOOLS_SEEDED_MAIN_H_

#include <cstdint>

namespace test_support
{

// The first seed to play; the same throughout a run.
uint64_t FirstSeed();

} // namespace test_support

#endif
