/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Mapped pools whose memory has fabric handles, for the two files of tests of
 * these. One machine and the stand-in are the fabric.
 */
#ifndef BINADE_TESTS_IPC_FABRIC_UNDER_TEST_H_
#define BINADE_TESTS_IPC_FABRIC_UNDER_TEST_H_

#include <dirent.h>

#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

#include "tests/pool/pool_under_test.h"

namespace fabric_test
{

inline binade_pool_options Mapped()
{
    binade_pool_options options = pool_test::Defaults();
    options.flags = BINADE_POOL_EXPORTABLE | BINADE_POOL_MAPPED;
    return options;
}

inline binade_pool_options InSmallPieces()
{
    binade_pool_options options = Mapped();
    options.first_segment_bytes = 2 * pool_test::kMiB;
    options.largest_segment_bytes = 2 * pool_test::kMiB;
    return options;
}

// A block in so many pieces of 2 MiB.
inline binade_devptr AllocPieces(pool_test::Pool &pool, uint64_t count)
{
    std::vector<binade_devptr> blocks;
    for (uint64_t i = 0; i < count; i++)
        blocks.push_back(pool.Alloc(2 * pool_test::kMiB));
    for (binade_devptr block : blocks)
        pool.Free(block, BINADE_STREAM_DONE);
    return pool.Alloc(count * 2 * pool_test::kMiB);
}

inline size_t OpenDescriptors()
{
    size_t count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

// The setting is read once, before any peer inherits it.
inline void UseFabric()
{
    setenv("BINADE_STANDIN_FABRIC", "ready", 1);
    pool_test::UseStandin();
}

} // namespace fabric_test

#endif
