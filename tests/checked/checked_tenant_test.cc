// SPDX-License-Identifier: Apache-2.0
//
// Mistakes with tenants' blocks are found like all others, and the tenant is
// named; what a tenant has does not depend on them, nor on what is held back.
// That checked pools charge as others do is what tests/tenant runs on them.
#include <string>

#include "tests/checked/checked_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace checked_test;

class CheckedTenant : public Checked
{
  protected:
    moiety_tenant Make(moiety_pool *pool, const char *name,
                       uint64_t budget_bytes = 0)
    {
        moiety_tenant tenant = 0;
        EXPECT_EQ(MOIETY_OK, create_tenant(pool, name, budget_bytes, &tenant));
        return tenant;
    }

    moiety_devptr Alloc(moiety_tenant tenant, size_t size_bytes)
    {
        moiety_devptr block = 0;
        EXPECT_OK(alloc_for_tenant(tenant, size_bytes, kStream, &block));
        return block;
    }

    uint64_t LiveBytes(moiety_tenant tenant)
    {
        moiety_tenant_stats info = {};
        info.struct_size = sizeof(info);
        EXPECT_OK(moiety_tenant_get_stats(tenant, &info));
        return info.live_bytes;
    }
};

TEST_F(CheckedTenant, IsReleasedOnceThoughItsBlockIsFreedTwice)
{
    Pool pool(Quiet());
    moiety_tenant tenant = Make(pool, "twice");
    moiety_devptr kept = Alloc(tenant, 700);
    moiety_devptr block = Alloc(tenant, 700);
    pool.Free(block);
    EXPECT_EQ(MOIETY_E_DOUBLE_FREE, moiety_free(pool, block, kStream));
    EXPECT_TRUE(MessageHas("was freed before; block 2 of 700 bytes at"));
    EXPECT_TRUE(MessageHas(" of tenant 'twice', allocated with stream 0x1"));
    EXPECT_EQ(1024u, LiveBytes(tenant));
    EXPECT_EQ(1u, Check(pool).double_frees);
    pool.Free(kept);
}

TEST_F(CheckedTenant, KeepsABlockWhoseFreeIsWrong)
{
    Pool pool(Quiet());
    moiety_tenant tenant = Make(pool, "wrong");
    moiety_devptr block = Alloc(tenant, 700);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_free_sized(pool, block, 699, kStream));
    EXPECT_TRUE(MessageHas("of tenant 'wrong'"));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_free(pool, block + 512, kStream));
    EXPECT_TRUE(MessageHas("of tenant 'wrong'"));
    EXPECT_EQ(1024u, LiveBytes(tenant));
    EXPECT_EQ(MOIETY_E_IN_USE, moiety_tenant_destroy(tenant));
    moiety_checked_counts counts = Check(pool);
    EXPECT_EQ(1u, counts.wrong_sizes);
    EXPECT_EQ(1u, counts.interior_frees);
    EXPECT_OK(moiety_free_sized(pool, block, 700, kStream));
    EXPECT_EQ(0u, LiveBytes(tenant));
}

// What is held back is nobody's: what fits a budget does not depend on it.
TEST_F(CheckedTenant, IsNotChargedWhatIsHeldBack)
{
    Pool pool(Quiet());
    moiety_tenant tenant = Make(pool, "", 4096);
    for (int i = 0; i < 3; i++) {
        pool.Free(Alloc(tenant, 4096));
        EXPECT_EQ(0u, LiveBytes(tenant));
    }
    EXPECT_OK(moiety_tenant_destroy(tenant));
    EXPECT_EQ(0u, Findings(Check(pool)));
}

// Also when it is gone, and another has its place.
TEST_F(CheckedTenant, IsNamedWhereItsBlockWasWritten)
{
    Pool pool(Loud());
    moiety_tenant tenant = Make(pool, "first");
    moiety_devptr block = Alloc(tenant, 4000);
    pool_test::Fill(block + 4000, 4, 0x11111111);
    pool.Free(block);
    pool_test::Synchronize();
    pool_test::Fill(block + 100, 8, 0x11111111);
    ASSERT_EQ(MOIETY_OK, moiety_tenant_destroy(tenant));
    moiety_tenant other = Make(pool, "other");
    ::testing::internal::CaptureStderr();
    moiety_checked_counts counts = Check(pool);
    std::string printed = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(1u, counts.writes_after_free);
    EXPECT_EQ(1u, counts.writes_out_of_bounds);
    EXPECT_EQ(2u, Findings(counts));
    size_t first = printed.find("of tenant 'first'");
    ASSERT_NE(std::string::npos, first) << printed;
    EXPECT_NE(std::string::npos, printed.find("of tenant 'first'", first + 1));
    EXPECT_EQ(std::string::npos, printed.find("other"));
    EXPECT_OK(moiety_tenant_destroy(other));
}

TEST_F(CheckedTenant, IsNamedWithItsLeaks)
{
    ::testing::internal::CaptureStderr();
    Pool pool(Loud());
    moiety_devptr block = Alloc(Make(pool, "leaky"), 4000);
    moiety_leaks leaks = pool.End();
    std::string printed = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(1u, leaks.block_count);
    EXPECT_EQ(4000u, leaks.bytes);
    EXPECT_EQ(block, leaks.addresses[0]);
    EXPECT_NE(std::string::npos,
              printed.find("never freed; block 1 of 4000 bytes at"))
        << printed;
    EXPECT_NE(std::string::npos, printed.find("of tenant 'leaky', allocated"));
}

// A block that nobody is charged for bears no name, also in a tenant's memory.
TEST_F(CheckedTenant, IsNotNamedForOthersBlocks)
{
    moiety_pool_options options = Quiet();
    options.quarantine_bytes = MOIETY_BYTES_NONE;
    Pool pool(options);
    moiety_devptr block = Alloc(Make(pool, "past"), 700);
    pool.Free(block, MOIETY_STREAM_DONE);
    EXPECT_EQ(0u, Check(pool).held_blocks);
    ASSERT_EQ(block, pool.Alloc(700));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_free_sized(pool, block, 1, kStream));
    EXPECT_FALSE(MessageHas(" of tenant"));
    pool.Free(block);
}

} // namespace
