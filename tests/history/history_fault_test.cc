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

using namespace history_test;

// Creates a pool and has one entry written; the status of what failed.
moiety_status Live(unsigned n)
{
    moiety_pool *pool = nullptr;
    moiety_devptr block = 0;
    moiety_pool_options options = Recorded(64);
    failing_memory_arm(n);
    moiety_status status = moiety_pool_create(&options, &pool);
    if (status != MOIETY_OK)
        return status;
    status = moiety_alloc(pool, 1000, MOIETY_STREAM_LEGACY, &block);
    failing_memory_disarm();
    if (status == MOIETY_OK)
        status = moiety_free(pool, block, MOIETY_STREAM_LEGACY);
    // What failed once goes well the next time.
    EXPECT_OK(moiety_alloc(pool, 1000, MOIETY_STREAM_LEGACY, &block));
    EXPECT_OK(moiety_free(pool, block, MOIETY_STREAM_LEGACY));
    EXPECT_EQ(block, History(pool).LastOf(MOIETY_HISTORY_FREE).address);
    EXPECT_OK(moiety_pool_destroy(pool, nullptr));
    return status;
}

TEST(HistoryFault, WantOfHostMemoryIsSaid)
{
    pool_test::UseStandin();
    unsigned failures = 0;
    for (unsigned n = 1; n <= 40; n++) {
        moiety_status status = Live(n);
        failing_memory_disarm();
        EXPECT_TRUE(status == MOIETY_OK || status == MOIETY_E_NO_HOST_MEMORY)
            << n << ": " << moiety_status_name(status);
        failures += status == MOIETY_E_NO_HOST_MEMORY;
    }
    // The pool's history and the thread's ring among them.
    EXPECT_LT(2u, failures);
}

} // namespace
