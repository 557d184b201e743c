/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * main() of tests that replay what a fuzzer found worth keeping: argument 1 is
 * the folder.
 */
#ifndef MOIETY_TESTS_SUPPORT_TOOLS_CORPUS_MAIN_H_
#define MOIETY_TESTS_SUPPORT_TOOLS_CORPUS_MAIN_H_

#include <cstdint>
#include <string>
#include <vector>

namespace test_support
{

struct CorpusInput {
    std::string path;
    std::vector<uint8_t> bytes;
};

// All inputs of the folder.
std::vector<CorpusInput> Corpus();

} // namespace test_support

#endif
