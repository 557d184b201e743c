// SPDX-License-Identifier: Apache-2.0
#include "tests/support/tools/seeded_main.h"

#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

namespace
{

uint64_t first_seed;

} // namespace

uint64_t test_support::FirstSeed()
{
    return first_seed;
}

int main(int argc, char **argv)
{
    ::testing::InitGoogleTest(&argc, argv);
    const char *seed = std::getenv("MOIETY_TEST_SEED");
    if (argc > 1 && std::strncmp(argv[1], "--seed=", 7) == 0)
        seed = argv[1] + 7;
    first_seed =
        seed ? std::strtoull(seed, nullptr, 0) : std::random_device{}();
    std::printf("seed %" PRIu64 "\n", first_seed);
    return RUN_ALL_TESTS();
}
