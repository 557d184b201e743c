/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which subjects there are, and the stand-in for all of them. Not torch, which
 * is PyTorch's own library.
 */
#ifndef MOIETY_TESTS_REPLAY_SUBJECTS_UNDER_TEST_H_
#define MOIETY_TESTS_REPLAY_SUBJECTS_UNDER_TEST_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <ostream>
#include <string>

#include "tests/pool/pool_under_test.h"

namespace replay_test
{

// What of a subject is not for all of them.
struct Subject {
    const char *name;
    bool does_make_streams;
    bool does_call_mem_alloc; // for its memory: cuMemAlloc()
};

inline const Subject kSubjects[] = {
    {"moiety", true, true},         {"moiety-nocache", true, true},
    {"moiety-mapped", true, false}, {"best-fit-expandable", false, false},
    {"best-fit", false, true},      {"mutex", false, true},
    {"pow2-buddy", false, true},    {"cuda-malloc", false, true},
    {"cuda-async", true, false},
};

inline std::ostream &operator<<(std::ostream &stream, const Subject &subject)
{
    return stream << subject.name;
}

inline void UseStandinWithPools()
{
    // Read by the stand-in when it is opened, which is once.
    setenv("MOIETY_STANDIN_MEMORY_POOLS", "1", 1);
    pool_test::UseStandin();
}

inline std::string NameOf(const testing::TestParamInfo<Subject> &one)
{
    std::string name = one.param.name;
    for (char &letter : name)
        if (letter == '-')
            letter = '_';
    return name;
}

} // namespace replay_test

#endif
