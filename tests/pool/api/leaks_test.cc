// SPDX-License-Identifier: Apache-2.0
//
// What the end of a pool says of blocks that were never freed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/pool/pool_under_test.h"

namespace
{

using namespace pool_test;

using PoolLeaks = StandinTest;

TEST_F(PoolLeaks, AreNoneWhenAllIsFreed)
{
    Pool pool;
    pool.Free(pool.Alloc(4096), MOIETY_STREAM_ANY);
    pool.Free(pool.Alloc(4096), MOIETY_STREAM_DONE);
    pool.Free(pool.Alloc(4096));
    moiety_leaks leaks = pool.End();
    EXPECT_EQ(0u, leaks.block_count);
    EXPECT_EQ(0u, leaks.bytes);
    EXPECT_EQ(0u, leaks.address_count);
}

TEST_F(PoolLeaks, AreCountedAndNamed)
{
    Pool pool;
    std::vector<moiety_devptr> leaked;
    uint64_t bytes = 0;
    for (size_t size_bytes :
         {size_t{512}, 3 * kKiB, 70 * kKiB, kMiB, 5 * kMiB}) {
        pool.Free(pool.Alloc(size_bytes));
        leaked.push_back(pool.Alloc(size_bytes));
        bytes += pool.UsableSize(leaked.back());
        pool.Free(pool.Alloc(size_bytes));
    }
    moiety_leaks leaks = pool.End();
    EXPECT_EQ(sizeof(leaks), leaks.struct_size);
    EXPECT_EQ(5u, leaks.block_count);
    EXPECT_EQ(bytes, leaks.bytes);
    ASSERT_EQ(5u, leaks.address_count);
    std::sort(leaked.begin(), leaked.end());
    EXPECT_EQ(leaked,
              std::vector<moiety_devptr>(leaks.addresses, leaks.addresses + 5));
}

TEST_F(PoolLeaks, AreAllCountedWhereNotAllAreNamed)
{
    Pool pool;
    for (int i = 0; i < 1000; i++)
        pool.Alloc(1000);
    moiety_leaks leaks = pool.End();
    EXPECT_EQ(1000u, leaks.block_count);
    EXPECT_EQ(1000u * 1024, leaks.bytes);
    EXPECT_EQ(16u, leaks.address_count);
}

TEST_F(PoolLeaks, NeedAStructOfTheRightSize)
{
    moiety_pool *pool = nullptr;
    ASSERT_OK(moiety_pool_create(nullptr, &pool));
    moiety_leaks leaks;
    std::memset(&leaks, 0x5a, sizeof(leaks));
    leaks.struct_size = sizeof(leaks) - 1;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_destroy(pool, &leaks));
    leaks.struct_size = 0;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_destroy(pool, &leaks));
    EXPECT_EQ(0x5a5a5a5au, leaks.address_count);
    EXPECT_OK(moiety_pool_destroy(pool, nullptr)) << "it was still there";
}

std::string ErrorOutputOfALeak(uint32_t flags)
{
    moiety_pool_options options = Defaults();
    options.flags = flags;
    ::testing::internal::CaptureStderr();
    {
        Pool pool(options);
        pool.Alloc(3 * kMiB);
        pool.End();
    }
    return ::testing::internal::GetCapturedStderr();
}

TEST_F(PoolLeaks, ArePrintedWhereThatIsAsked)
{
    std::string output = ErrorOutputOfALeak(MOIETY_POOL_REPORT_LEAKS);
    EXPECT_NE(std::string::npos, output.find("3145728")) << output;
    EXPECT_EQ('\n', output.back());
}

TEST_F(PoolLeaks, AreNotPrintedOtherwise)
{
    EXPECT_EQ("", ErrorOutputOfALeak(0));
}

TEST_F(PoolLeaks, AreNotPrintedWhereThereAreNone)
{
    moiety_pool_options options = Defaults();
    options.flags = MOIETY_POOL_REPORT_LEAKS;
    ::testing::internal::CaptureStderr();
    {
        Pool pool(options);
        pool.Free(pool.Alloc(4096));
    }
    EXPECT_EQ("", ::testing::internal::GetCapturedStderr());
}

} // namespace
