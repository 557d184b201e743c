// SPDX-License-Identifier: Apache-2.0
//
// Want of host memory, for each array that a snapshot needs and each time that
// one was too small, however long it takes.
#include <gtest/gtest.h>

#include <vector>

#include "tests/heap/heap_under_test.h"
#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/failing_memory.h"

extern "C" uint64_t __real_moietyi_now_ns(void);
extern "C" uint64_t __wrap_moietyi_now_ns(void);

namespace
{

using pool_test::Pool;

// Of each look at the clock, as on a slow machine.
uint64_t step_ns = 0;
uint64_t ahead_ns = 0;

// The patience of a snapshot is for other threads, not for its own copying.
TEST(HeapFault, SlowCopiesAreNotATimeout)
{
    pool_test::UseStandin();
    Pool pool;
    std::vector<moiety_devptr> blocks;
    for (unsigned i = 0; i < 4000; i++)
        blocks.push_back(pool.Alloc(512));
    step_ns = UINT64_C(2000000000);
    moiety_heap_snapshot *snapshot = nullptr;
    EXPECT_EQ(MOIETY_OK, moiety_heap_snapshot_create(pool, &snapshot));
    step_ns = 0;
    moiety_heap_snapshot_destroy(snapshot);
    for (moiety_devptr block : blocks)
        pool.Free(block);
}

TEST(HeapFault, WantOfHostMemoryIsSaidAndChangesNothing)
{
    pool_test::UseStandin();
    Pool pool;
    std::vector<moiety_devptr> used, freed;
    for (unsigned i = 0; i < 2000; i++) {
        used.push_back(pool.Alloc(512));
        freed.push_back(pool.Alloc(512));
    }
    for (moiety_devptr block : freed)
        pool.Free(block);
    unsigned n = 0;
    bool has_failed;
    do {
        moiety_heap_snapshot *snapshot = nullptr;
        failing_memory_arm(++n);
        moiety_status status = moiety_heap_snapshot_create(pool, &snapshot);
        has_failed = !failing_memory_disarm();
        EXPECT_EQ(has_failed ? MOIETY_E_NO_HOST_MEMORY : MOIETY_OK, status);
        EXPECT_EQ(has_failed, snapshot == nullptr);
        moiety_heap_snapshot_destroy(snapshot);
    } while (has_failed);
    // The snapshot itself, five arrays, and one that was too small.
    EXPECT_EQ(8u, n);
    heap_test::Heap heap(pool);
    EXPECT_EQ(2000u, heap.Count(MOIETY_HEAP_USED));
    heap.ExpectStatsOf(pool);
    for (moiety_devptr block : used)
        pool.Free(block);
}

} // namespace

uint64_t __wrap_moietyi_now_ns(void)
{
    ahead_ns += step_ns;
    return __real_moietyi_now_ns() + ahead_ns;
}
