// SPDX-License-Identifier: Apache-2.0
//
// The verifier, the model at random, and the model on what the fuzzer found worth
// keeping. Seeds differ from run to run; each failure names its own, and --seed=N
// or MOIETY_TEST_SEED=N repeats it first.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/heaps/breaks.h"
#include "tests/heaps/model.h"
#include "tests/support/tools/seeded_main.h"

namespace
{

class HeapCheck : public ::testing::TestWithParam<size_t>
{
};

TEST_P(HeapCheck, SeesWhatIsBroken)
{
    const char *failure = heap_breaks_run(GetParam());
    EXPECT_EQ(failure, nullptr) << failure;
}

INSTANTIATE_TEST_SUITE_P(Each, HeapCheck,
                         ::testing::Range(size_t{0}, heap_breaks_count()),
                         [](const ::testing::TestParamInfo<size_t> &at) {
                             return std::string(heap_breaks_name(at.param));
                         });

TEST(HeapTables, ComeInParts)
{
    const char *failure = heap_parts_run();
    EXPECT_EQ(failure, nullptr) << failure;
}

TEST(HeapTables, LoseNoOwnerForWantOfMemory)
{
    const char *failure = heap_failures_run();
    EXPECT_EQ(failure, nullptr) << failure;
}

TEST(HeapSpace, HasBounds)
{
    const char *failure = heap_bounds_run();
    EXPECT_EQ(failure, nullptr) << failure;
}

void ExpectAgreement(uint64_t seed, uint32_t steps)
{
    heap_model_input input = {};
    input.seed = seed;
    input.steps = steps;
    char message[HEAP_MODEL_MESSAGE_BYTES];
    EXPECT_TRUE(heap_model_run(&input, message))
        << "seed " << seed << ": " << message;
}

TEST(HeapModel, AgreesOverManyShortLives)
{
    for (uint64_t i = 0; i < 60 && !HasFailure(); i++)
        ExpectAgreement(test_support::FirstSeed() + i, 80);
}

TEST(HeapModel, AgreesOverLongLives)
{
    for (uint64_t i = 0; i < 4 && !HasFailure(); i++)
        ExpectAgreement(test_support::FirstSeed() + 1000 + i, 1200);
}

TEST(HeapModel, AgreesOverTheSeedsOfEveryRun)
{
    for (uint64_t seed = 1; seed <= 20 && !HasFailure(); seed++)
        ExpectAgreement(seed, 150);
}

TEST(HeapModel, AgreesOnTheWholeCorpus)
{
    int inputs = 0;
    for (const auto &file :
         std::filesystem::directory_iterator("tests/heaps/corpus")) {
        std::ifstream stream(file.path(), std::ios::binary);
        const std::vector<char> bytes{std::istreambuf_iterator<char>(stream),
                                      std::istreambuf_iterator<char>()};
        heap_model_input input = {};
        input.steps = 2000;
        input.ops = reinterpret_cast<const uint8_t *>(bytes.data());
        input.op_bytes = bytes.size();
        char message[HEAP_MODEL_MESSAGE_BYTES];
        EXPECT_TRUE(heap_model_run(&input, message))
            << file.path() << ": " << message;
        inputs++;
    }
    EXPECT_GT(inputs, 10);
}

} // namespace
