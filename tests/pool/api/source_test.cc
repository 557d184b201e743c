// SPDX-License-Identifier: Apache-2.0
//
// Pools whose memory comes from a program's own source, also from a bad one.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/pool/pool_under_test.h"
#include "tests/segment/fake_source.h"

namespace
{

using namespace pool_test;
using segment_test::FakeSource;

class OwnSource : public StandinTest
{
  protected:
    void SetUp() override
    {
        options = Defaults();
        options.source = &table;
        options.wait_ms = MOIETY_WAIT_NONE;
        table = source.Table();
    }

    void TearDown() override
    {
        EXPECT_TRUE(source.Live().empty()) << "not released";
        EXPECT_EQ("", source.Complaint());
    }

    FakeSource source;
    moiety_source table;
    moiety_pool_options options;
    moiety_devptr address = 77;
};

TEST_F(OwnSource, ServesThePool)
{
    Pool pool(options);
    moiety_devptr block = pool.Alloc(40 * kKiB);
    EXPECT_GE(block, source.first_address);
    EXPECT_LT(block, source.first_address + 64 * kMiB);
    EXPECT_EQ(1u, source.Live().size());
    pool.Free(block);
}

TEST_F(OwnSource, IsCopied)
{
    Pool pool(options);
    table = moiety_source();
    pool.Free(pool.Alloc(512));
}

TEST_F(OwnSource, IsRefusedWithoutItsFunctions)
{
    table.reserve = nullptr;
    moiety_pool *pool = nullptr;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_create(&options, &pool));
    EXPECT_EQ(nullptr, pool);
}

TEST_F(OwnSource, ThatReturnsOverlappingMemoryIsFoundOut)
{
    options.first_segment_bytes = 2 * kMiB;
    Pool pool(options);
    moiety_devptr block = pool.Alloc(12 * kMiB);
    for (uint64_t offset : {uint64_t{0}, 12 * kMiB - 512}) {
        source.has_forced = true;
        source.forced_address = block + offset;
        EXPECT_EQ(MOIETY_E_INVALID,
                  moiety_alloc(pool, 12 * kMiB, kStream, &address));
        EXPECT_NE(std::string::npos,
                  std::string(moiety_last_error_message()).find("overlaps"))
            << moiety_last_error_message();
    }
    EXPECT_EQ(77u, address);
    EXPECT_EQ(12 * kMiB, pool.UsableSize(block));
    moiety_devptr second = pool.Alloc(12 * kMiB);
    pool.Free(block);
    pool.Free(second);
}

TEST_F(OwnSource, ThatReturnsNothingIsFoundOut)
{
    Pool pool(options);
    source.has_forced = true;
    source.forced_address = 0;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_alloc(pool, 512, kStream, &address));
    pool.Free(pool.Alloc(512));
}

TEST_F(OwnSource, ThatReturnsUnalignedMemoryServesWithItsAlignedPart)
{
    source.misaligned_bytes = 12345;
    Pool pool(options);
    for (size_t size_bytes : {size_t{1}, 40 * kKiB, 5 * kMiB, 64 * kMiB}) {
        moiety_devptr block = pool.Alloc(size_bytes);
        EXPECT_EQ(0u, block % 512);
        pool.Free(block, MOIETY_STREAM_DONE);
    }
}

TEST_F(OwnSource, ThatIsExhaustedIsAskedForLess)
{
    source.capacity_bytes = 6 * kMiB;
    Pool pool(options);
    moiety_devptr block = pool.Alloc(512);
    EXPECT_LE(pool.Stats().reserved_bytes_current, 6 * kMiB);
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, 8 * kMiB, kStream, &address));
    pool.Free(block);
}

TEST_F(OwnSource, OfPinnedMemoryIsExhaustedOfThat)
{
    table.flags = MOIETY_SOURCE_PINNED;
    options.limit_bytes = 2 * kMiB;
    Pool pool(options);
    moiety_devptr block = pool.Alloc(2 * kMiB);
    EXPECT_EQ(MOIETY_E_NO_PINNED_MEMORY,
              moiety_alloc(pool, 2 * kMiB, kStream, &address));
    pool.Free(block);
}

TEST_F(OwnSource, PassesItsOwnFailureOn)
{
    source.failing_reserve = 1;
    source.failure = MOIETY_E_UNSUPPORTED;
    Pool pool(options);
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, moiety_alloc(pool, 512, kStream, &address));
    EXPECT_EQ(77u, address);
    pool.Free(pool.Alloc(512));
}

TEST_F(OwnSource, MayUseAnotherPool)
{
    struct Inner {
        Pool pool;
        moiety_status status = MOIETY_E_REENTRANT;
    } inner;
    source.in_reserve_argument = &inner;
    source.in_reserve = [](void *argument) {
        auto *self = static_cast<Inner *>(argument);
        moiety_devptr block = 0;
        self->status = moiety_alloc(self->pool, 5 * kMiB, kStream, &block);
        if (self->status == MOIETY_OK)
            self->status = moiety_free(self->pool, block, kStream);
    };
    Pool pool(options);
    pool.Free(pool.Alloc(100 * kMiB));
    EXPECT_OK(inner.status);
}

// A pool is refused to its own source, also by way of another pool's: it would
// wait for itself.
TEST_F(OwnSource, ThatComesBackByAnotherPoolIsRefused)
{
    FakeSource inner_source;
    moiety_source inner_table = inner_source.Table();
    moiety_pool_options inner_options = options;
    inner_options.source = &inner_table;
    {
        Pool outer(options), inner(inner_options);
        struct Pools {
            moiety_pool *outer, *inner;
            std::vector<moiety_status> statuses;
        } pools = {outer, inner, {}};
        source.in_reserve_argument = inner_source.in_reserve_argument = &pools;
        source.in_reserve = [](void *argument) {
            auto *self = static_cast<Pools *>(argument);
            moiety_devptr block = 0;
            self->statuses.push_back(
                moiety_alloc(self->inner, 512, kStream, &block));
            self->statuses.push_back(
                moiety_free(self->inner, block, MOIETY_STREAM_DONE));
            self->statuses.push_back(moiety_pool_trim(self->outer, 0, nullptr));
        };
        inner_source.in_reserve = [](void *argument) {
            auto *self = static_cast<Pools *>(argument);
            moiety_devptr block = 0;
            for (moiety_pool *pool : {self->outer, self->inner})
                self->statuses.push_back(
                    moiety_alloc(pool, 40 * kMiB, kStream, &block));
        };
        outer.Free(outer.Alloc(512));
        EXPECT_EQ((std::vector<moiety_status>{MOIETY_E_REENTRANT,
                                              MOIETY_E_REENTRANT, MOIETY_OK,
                                              MOIETY_OK, MOIETY_E_REENTRANT}),
                  pools.statuses);
        outer.Free(outer.Alloc(4 * kKiB));
        inner.Free(inner.Alloc(4 * kKiB));
    }
    EXPECT_TRUE(inner_source.Live().empty());
}

TEST_F(OwnSource, GetsEverythingBackAlsoWhatIsLeaked)
{
    options.first_segment_bytes = 2 * kMiB;
    Pool pool(options);
    for (int i = 0; i < 10; i++)
        pool.Alloc(12 * kMiB);
    EXPECT_EQ(10u, source.Live().size());
    pool.End();
}

TEST_F(OwnSource, ThatRefusesToTakeMemoryBackIsAskedAgainAtTheEnd)
{
    Pool pool(options);
    pool.Free(pool.Alloc(512), MOIETY_STREAM_DONE);
    source.failing_release = 1;
    EXPECT_EQ(MOIETY_E_DRIVER, moiety_pool_trim(pool, 0, nullptr));
    EXPECT_EQ(32 * kMiB, pool.Stats().unreleased_bytes);
    EXPECT_EQ(32 * kMiB, pool.Stats().reserved_bytes_current);
    pool.End();
}

} // namespace
