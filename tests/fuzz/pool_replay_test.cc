// SPDX-License-Identifier: Apache-2.0
//
// Replays what the fuzzer found worth keeping: argument 1 is the folder.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/pool_model.h"

namespace
{

std::string corpus;

std::vector<uint8_t> Read(const std::filesystem::path &path)
{
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

TEST(PoolReplay, AgreesOnTheWholeCorpus)
{
    int inputs = 0;
    for (const auto &entry : std::filesystem::directory_iterator(corpus)) {
        if (entry.path().filename() == "BUILD")
            continue;
        std::vector<uint8_t> bytes = Read(entry.path());
        pool_model_input input = {};
        input.steps = POOL_MODEL_FUZZ_STEPS;
        input.ops = bytes.data();
        input.op_bytes = bytes.size();
        char message[POOL_MODEL_MESSAGE_BYTES];
        EXPECT_TRUE(pool_model_run(&input, message))
            << entry.path() << ": " << message;
        inputs++;
    }
    EXPECT_GT(inputs, 10);
}

} // namespace

int main(int argc, char **argv)
{
    ::testing::InitGoogleTest(&argc, argv);
    if (argc != 2)
        return 2;
    corpus = argv[1];
    return RUN_ALL_TESTS();
}
