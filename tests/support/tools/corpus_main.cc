// SPDX-License-Identifier: Apache-2.0
#include "tests/support/tools/corpus_main.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace
{

std::string folder;

} // namespace

namespace test_support
{

std::vector<CorpusInput> Corpus()
{
    std::vector<CorpusInput> inputs;
    for (const auto &entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().filename() == "BUILD")
            continue;
        std::ifstream file(entry.path(), std::ios::binary);
        inputs.push_back(
            {entry.path(), {std::istreambuf_iterator<char>(file), {}}});
    }
    return inputs;
}

} // namespace test_support

int main(int argc, char **argv)
{
    ::testing::InitGoogleTest(&argc, argv);
    if (argc != 2)
        return 2;
    folder = argv[1];
    return RUN_ALL_TESTS();
}
