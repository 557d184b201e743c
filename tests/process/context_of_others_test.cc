// SPDX-License-Identifier: Apache-2.0
//
// A context that is destroyed under pools that do more: they let go of it too.
#include <gtest/gtest.h>

#include "tests/pool/pool_under_test.h"

namespace
{

using pool_test::Defaults;
using pool_test::Get;
using pool_test::kKiB;
using pool_test::kMiB;

const binade_stream kStream = BINADE_STREAM_LEGACY;

class ContextOfOthers : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }

    void Make(const binade_pool_options &like)
    {
        binade_pool_options options = like;
        options.context = context_ = pool_test::NewContext();
        ASSERT_EQ(BINADE_OK, binade_pool_create(&options, &pool_));
        for (binade_devptr &block : blocks_)
            ASSERT_EQ(BINADE_OK,
                      binade_alloc(pool_, 4 * kKiB, kStream, &block));
    }

    // The driver's own end of what the pool was told is gone.
    void TearDown() override
    {
        if (context_)
            DestroyContext();
    }

    void DestroyContext()
    {
        ASSERT_EQ(0, Get<int(binade_context)>("cuCtxDestroy_v2")(context_));
        context_ = nullptr;
    }

    void Lose()
    {
        DestroyContext();
        ASSERT_EQ(BINADE_OK, binade_pool_context_lost(pool_));
    }

    void ExpectToLetGo()
    {
        binade_devptr out = 0;
        EXPECT_EQ(BINADE_E_CONTEXT_DESTROYED,
                  binade_alloc(pool_, 4 * kKiB, kStream, &out));
        for (binade_devptr block : blocks_)
            EXPECT_EQ(BINADE_OK, binade_free(pool_, block, kStream))
                << binade_last_error_message();
        EXPECT_EQ(BINADE_OK, binade_pool_destroy(pool_, nullptr))
            << binade_last_error_message();
    }

    binade_context context_ = nullptr;
    binade_pool *pool_ = nullptr;
    binade_devptr blocks_[4] = {};
};

TEST_F(ContextOfOthers, IsLostToACheckedPool)
{
    binade_pool_options options = Defaults();
    options.flags = BINADE_POOL_CHECKED | BINADE_POOL_CHECKED_QUIET;
    Make(options);
    Lose();
    ExpectToLetGo();
}

TEST_F(ContextOfOthers, IsLostToAPoolThatPassesThrough)
{
    binade_pool_options options = Defaults();
    options.flags = BINADE_POOL_PASS_THROUGH;
    Make(options);
    Lose();
    ExpectToLetGo();
}

TEST_F(ContextOfOthers, IsLostToAPoolWithAHistoryAndASnapshot)
{
    binade_pool_options options = Defaults();
    options.history_entries = 8;
    Make(options);
    Lose();
    binade_history_entry entry;
    binade_history_summary summary = {};
    summary.struct_size = sizeof(summary);
    binade_heap_snapshot *snapshot = nullptr;
    EXPECT_EQ(BINADE_OK, binade_history_read(pool_, &entry, 1, &summary));
    EXPECT_EQ(1u, summary.count);
    EXPECT_EQ(BINADE_OK, binade_heap_snapshot_create(pool_, &snapshot));
    binade_heap_snapshot_destroy(snapshot);
    ExpectToLetGo();
}

TEST_F(ContextOfOthers, IsLostToTenantsAndScopes)
{
    binade_tenant tenant = 0;
    binade_tenant_info info = {};
    binade_scope scope = 0;
    binade_devptr block = 0, none = 0;
    info.struct_size = sizeof(info);
    Make(Defaults());
    ASSERT_EQ(BINADE_OK, binade_tenant_create(pool_, "", 0, &tenant));
    ASSERT_EQ(BINADE_OK, binade_tenant_alloc(tenant, 512, kStream, &block));
    pool_test::SetCurrent(context_);
    pool_test::Stream stream;
    ASSERT_EQ(BINADE_OK, binade_scope_begin(pool_, stream, &scope));
    ASSERT_EQ(BINADE_OK, binade_scope_end(scope));
    pool_test::SetCurrent(nullptr);
    ASSERT_EQ(BINADE_OK, binade_pool_context_lost(pool_));
    EXPECT_EQ(BINADE_E_CONTEXT_DESTROYED,
              binade_tenant_alloc(tenant, 512, kStream, &none));
    EXPECT_EQ(BINADE_OK, binade_free(pool_, block, kStream));
    EXPECT_EQ(BINADE_OK, binade_tenant_stats(tenant, &info));
    EXPECT_EQ(0u, info.live_bytes);
    EXPECT_EQ(BINADE_OK, binade_scope_release(scope));
    ExpectToLetGo();
}

} // namespace
