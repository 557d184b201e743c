// SPDX-License-Identifier: Apache-2.0
//
// The heaps are built with their weakenings (pool/heap/weaken.h). Each of them is
// made in a process of its own, in which the model or a race must fail. Each place
// that could be weak also lets another thread run now and then, so that threads
// meet within calls even on few cores.
#include <gtest/gtest.h>

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "tests/heaps/model.h"
#include "tests/heaps/race.h"

extern "C" bool moietyi_heap_is_weak(const char *name);

namespace
{

constexpr const char *kNames[] = {
    "AGE",          // an extent of the other age is joined
    "ALIGNMENT",    // an extent has room whatever the alignment
    "BEST",         // not the shortest extent of a bin
    "BIT",          // a bin that is not empty has no bit
    "CLAIM",        // a claim does not look
    "CLOSE",        // what was closed before stays apart
    "COVERS",       // in front of the record that is kept no page is covered
    "CUT",          // what is left behind an interval is lost
    "DESTROY",      // the words of a heap stay when it is destroyed
    "HAND_LOCK",    // from heap to heap with one lock
    "HOLDER",       // any extent is the stream's own
    "JOIN_END",     // an extent before is joined wherever it ends
    "JOIN_START",   // an extent behind is joined wherever it begins
    "KEPT",         // a record is said to go further than it does
    "LAST_EDGE",    // the last grain does not name its extent
    "LIST",         // a list is not closed where an extent leaves it
    "LONGEST",      // the highest bin is thought to have most whole pages
    "OWN_ONLY",     // a view of its own only has what is done
    "PUT",          // a record that is spare keeps its word
    "RECORDS",      // a hand is never filled
    "RUN",          // what is done in front does not count for a run
    "SIDE_COVERS",  // what is left of a cut covers no page
    "SUM",          // grains that leave a heap are counted still
    "TWICE",        // a second free is not seen where an extent begins
    "TWICE_OTHERS", // the end of an extent is asked without its lock
    "WORD",         // an extent has the word that its record had
};
constexpr size_t kCount = sizeof(kNames) / sizeof(kNames[0]);

// Places that a thread of a process passes at most; all of the unchanged heaps'
// take a twentieth. A list that has become a ring has no end.
constexpr uint64_t kCallsMost = 100000000;

const char *weak = "";
bool is_race;
// Shared with the processes: which places were passed; the last: one without a
// name here.
volatile bool *passed;

// What a process does at its n-th try; false, and why, at the first thing that is
// wrong. Every second try has many lives of the model and no races, as some
// mistakes show in one life of some hundred.
bool PlayAll(uint64_t n)
{
    const bool has_races = n % 2 == 0;
    const uint64_t seed = 1 + 1000 * n, lives = has_races ? 80 : 500;
    char message[HEAP_MODEL_MESSAGE_BYTES] = "";
    bool is_right = true;
    is_race = false;
    for (uint64_t i = 0; i < lives && is_right; i++) {
        heap_model_input input = {};
        input.seed = seed + i;
        input.steps = 80;
        is_right = heap_model_run(&input, message);
    }
    is_race = true;
    for (size_t i = 0; has_races && i < heap_race_count() && is_right; i++)
        is_right = heap_race_run(i, 40, seed, message);
    std::printf("%s: %s\n", weak, is_right ? "nothing is wrong" : message);
    std::fflush(stdout);
    return is_right;
}

// Its status, as of waitpid().
int PlayWith(const char *name, uint64_t n)
{
    pid_t child = fork();
    if (child == 0) {
        weak = name;
        alarm(600);
        _exit(PlayAll(n) ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
}

class Weakening : public ::testing::TestWithParam<const char *>
{
};

TEST(Unweakened, PassesEveryPlaceAndFailsNowhere)
{
    void *shared = mmap(nullptr, kCount + 1, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    passed = static_cast<volatile bool *>(shared);
    EXPECT_EQ(PlayWith("", 0), 0);
    for (size_t i = 0; i < kCount; i++)
        EXPECT_TRUE(passed[i]) << "no place has the name " << kNames[i];
    EXPECT_FALSE(passed[kCount]) << "a place has a name that is not tried";
    passed = nullptr;
}

// By its own verdict, or since nothing sense can be made of is in the tables.
// Threads that race may miss one another: it may try again.
TEST_P(Weakening, IsNoticed)
{
    int status = 0;
    for (uint64_t i = 0; i < 20 && status == 0; i++)
        status = PlayWith(GetParam(), i);
    EXPECT_NE(status, 0) << GetParam() << " is not noticed";
    EXPECT_FALSE(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        << GetParam() << " has no end";
}

INSTANTIATE_TEST_SUITE_P(Each, Weakening, ::testing::ValuesIn(kNames),
                         [](const ::testing::TestParamInfo<const char *> &at) {
                             return std::string(at.param);
                         });

} // namespace

bool moietyi_heap_is_weak(const char *name)
{
    static thread_local uint32_t random = 1;
    static thread_local uint64_t calls = 0;
    if (++calls == kCallsMost)
        _exit(2);
    if (is_race && (random = random * 1664525U + 1013904223U) >> 25 == 0)
        sched_yield();
    if (passed) {
        size_t i = 0;
        while (i < kCount && std::strcmp(kNames[i], name) != 0)
            i++;
        passed[i] = true;
    }
    return std::strcmp(name, weak) == 0;
}
