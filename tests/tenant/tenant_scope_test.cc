// SPDX-License-Identifier: Apache-2.0
//
// Tenants whose blocks a capture scope keeps.
#include <gtest/gtest.h>

#include "tests/tenant/tenant_under_test.h"

namespace
{

using namespace pool_test;
using namespace tenant_test;

class TenantInAScope : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }

    void Begin()
    {
        ASSERT_OK(moiety_scope_begin(pool_, stream_, &scope_));
        ASSERT_EQ(0, Get<int(moiety_stream, int)>("cuStreamBeginCapture_v2")(
                         stream_, 0));
    }

    void End()
    {
        void *graph = nullptr;
        ASSERT_EQ(0, (Get<int(moiety_stream, void **)>("cuStreamEndCapture")(
                         stream_, &graph)));
        ASSERT_OK(moiety_scope_end(scope_));
        ASSERT_EQ(0, Get<int(void *)>("cuGraphDestroy")(graph));
    }

    Pool pool_;
    pool_test::Stream stream_;
    moiety_scope scope_ = 0;
};

TEST_F(TenantInAScope, HasItsBlocksUntilTheRelease)
{
    moiety_tenant tenant = NewTenant(pool_, 8 * kKiB);
    Begin();
    pool_.Free(Alloc(tenant, 8 * kKiB, stream_), stream_);
    EXPECT_EQ(8 * kKiB, Live(tenant));
    End();
    EXPECT_EQ(MOIETY_E_IN_USE, moiety_tenant_destroy(tenant));
    ASSERT_EQ(MOIETY_OK, moiety_scope_release(scope_));
    EXPECT_EQ(0u, Live(tenant));
    EXPECT_OK(moiety_tenant_destroy(tenant));
}

// The next life in the scope is another tenant's, or nobody's.
TEST_F(TenantInAScope, LosesWhatTheScopeGivesToOthers)
{
    moiety_tenant tenant = NewTenant(pool_, 0), other = NewTenant(pool_, 0);
    Begin();
    moiety_devptr block = Alloc(tenant, 8 * kKiB, stream_);
    pool_.Free(block, stream_);
    EXPECT_EQ(block, Alloc(other, 8 * kKiB, stream_));
    EXPECT_EQ(0u, Live(tenant));
    EXPECT_EQ(8 * kKiB, Live(other));
    pool_.Free(block, stream_);
    EXPECT_EQ(block, pool_.Alloc(8 * kKiB, stream_));
    EXPECT_EQ(0u, Live(other));
    End();
    ASSERT_OK(moiety_scope_release(scope_));
    pool_.Free(block);
    EXPECT_EQ(0u, Live(tenant) + Live(other));
}

// Only a block of the very length is reused for a tenant, which pays by size.
TEST_F(TenantInAScope, IsChargedBySizeAlone)
{
    moiety_tenant tenant = NewTenant(pool_, 0);
    Begin();
    pool_.Free(pool_.Alloc(64 * kKiB, stream_), stream_);
    moiety_devptr block = Alloc(tenant, 60 * kKiB, stream_);
    EXPECT_EQ(pool_.UsableSize(block), Live(tenant));
    pool_.Free(block, stream_);
    End();
    ASSERT_OK(moiety_scope_release(scope_));
    EXPECT_EQ(0u, Live(tenant));
}

TEST_F(TenantInAScope, KeepsWhatItFreesAfterTheRelease)
{
    moiety_tenant tenant = NewTenant(pool_, 0);
    Begin();
    moiety_devptr block = Alloc(tenant, 8 * kKiB, stream_);
    End();
    ASSERT_OK(moiety_scope_release(scope_));
    EXPECT_EQ(8 * kKiB, Live(tenant));
    pool_.Free(block);
    EXPECT_EQ(0u, Live(tenant));
}

} // namespace
