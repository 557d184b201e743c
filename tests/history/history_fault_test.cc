// SPDX-License-Identifier: Apache-2.0
//
// Want of host memory, for each thing that a history needs.
#include <gtest/gtest.h>

#include <vector>

#include "tests/history/history_under_test.h"
#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/failing_memory.h"

namespace
{

using history_test::History;
using history_test::Recorded;

// Creates a pool and has one entry written; the status of what failed.
binade_status Live(unsigned n)
{
    binade_pool *pool = nullptr;
    binade_devptr block = 0;
    binade_pool_options options = Recorded(64);
    failing_memory_arm(n);
    binade_status status = binade_pool_create(&options, &pool);
    if (status != BINADE_OK)
        return status;
    status = binade_alloc(pool, 1000, BINADE_STREAM_LEGACY, &block);
    failing_memory_disarm();
    if (status == BINADE_OK)
        status = binade_free(pool, block, BINADE_STREAM_LEGACY);
    // What failed once goes well the next time.
    EXPECT_EQ(BINADE_OK,
              binade_alloc(pool, 1000, BINADE_STREAM_LEGACY, &block));
    EXPECT_EQ(BINADE_OK, binade_free(pool, block, BINADE_STREAM_LEGACY));
    EXPECT_EQ(block, History(pool).LastOf(BINADE_HISTORY_FREE).address);
    EXPECT_EQ(BINADE_OK, binade_pool_destroy(pool, nullptr));
    return status;
}

TEST(HistoryFault, WantOfHostMemoryIsSaid)
{
    pool_test::UseStandin();
    unsigned failures = 0;
    for (unsigned n = 1; n <= 40; n++) {
        binade_status status = Live(n);
        failing_memory_disarm();
        EXPECT_TRUE(status == BINADE_OK || status == BINADE_E_NO_HOST_MEMORY)
            << n << ": " << binade_status_name(status);
        failures += status == BINADE_E_NO_HOST_MEMORY;
    }
    // The pool's history and the thread's ring among them.
    EXPECT_LT(2u, failures);
}

} // namespace
