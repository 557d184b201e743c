// SPDX-License-Identifier: Apache-2.0
//
// A context that is destroyed under pools that do more: they let go of it too.
#include <gtest/gtest.h>

#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

class ContextOfOthers : public StandinTest
{
  protected:
    void Make(const moiety_pool_options &like)
    {
        moiety_pool_options options = like;
        options.context = context_ = pool_test::NewContext();
        ASSERT_OK(moiety_pool_create(&options, &pool_));
        for (moiety_devptr &block : blocks_)
            ASSERT_OK(moiety_alloc(pool_, 4 * kKiB, kStream, &block));
    }

    // The driver's own end of what the pool was told is gone.
    void TearDown() override
    {
        if (context_)
            DestroyContext();
    }

    void DestroyContext()
    {
        ASSERT_EQ(0, Get<int(moiety_context)>("cuCtxDestroy_v2")(context_));
        context_ = nullptr;
    }

    void Lose()
    {
        DestroyContext();
        ASSERT_OK(moiety_pool_context_lost(pool_));
    }

    void ExpectToLetGo()
    {
        moiety_devptr out = 0;
        EXPECT_EQ(MOIETY_E_CONTEXT_DESTROYED,
                  moiety_alloc(pool_, 4 * kKiB, kStream, &out));
        for (moiety_devptr block : blocks_)
            EXPECT_OK(moiety_free(pool_, block, kStream));
        EXPECT_OK(moiety_pool_destroy(pool_, nullptr));
    }

    moiety_context context_ = nullptr;
    moiety_pool *pool_ = nullptr;
    moiety_devptr blocks_[4] = {};
};

TEST_F(ContextOfOthers, IsLostToACheckedPool)
{
    moiety_pool_options options = Defaults();
    set_kind(&options, KIND_CHECKED | MOIETY_POOL_CHECKED_QUIET);
    Make(options);
    Lose();
    ExpectToLetGo();
}

TEST_F(ContextOfOthers, IsLostToAPoolThatPassesThrough)
{
    moiety_pool_options options = Defaults();
    set_kind(&options, KIND_PASS_THROUGH);
    Make(options);
    Lose();
    ExpectToLetGo();
}

TEST_F(ContextOfOthers, IsLostToAPoolWithAHistoryAndASnapshot)
{
    moiety_pool_options options = Defaults();
    options.history_entries = 8;
    Make(options);
    Lose();
    moiety_history_entry entry;
    moiety_history_summary summary = {};
    summary.struct_size = sizeof(summary);
    moiety_heap_snapshot *snapshot = nullptr;
    EXPECT_OK(moiety_history_read(pool_, &entry, 1, &summary));
    EXPECT_EQ(1u, summary.count);
    EXPECT_OK(moiety_heap_snapshot_create(pool_, &snapshot));
    moiety_heap_snapshot_destroy(snapshot);
    ExpectToLetGo();
}

TEST_F(ContextOfOthers, IsLostToTenantsAndScopes)
{
    moiety_tenant tenant = 0;
    moiety_tenant_stats info = {};
    moiety_scope scope = 0;
    moiety_devptr block = 0, none = 0;
    info.struct_size = sizeof(info);
    Make(Defaults());
    ASSERT_OK(create_tenant(pool_, "", 0, &tenant));
    ASSERT_OK(alloc_for_tenant(tenant, 512, kStream, &block));
    pool_test::SetCurrent(context_);
    pool_test::Stream stream;
    ASSERT_OK(moiety_scope_begin(pool_, stream, &scope));
    ASSERT_OK(moiety_scope_end(scope));
    pool_test::SetCurrent(nullptr);
    ASSERT_OK(moiety_pool_context_lost(pool_));
    EXPECT_EQ(MOIETY_E_CONTEXT_DESTROYED,
              alloc_for_tenant(tenant, 512, kStream, &none));
    EXPECT_OK(moiety_free(pool_, block, kStream));
    EXPECT_OK(moiety_tenant_get_stats(tenant, &info));
    EXPECT_EQ(0u, info.live_bytes);
    EXPECT_OK(moiety_scope_release(scope));
    ExpectToLetGo();
}

} // namespace
