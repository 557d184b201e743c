// SPDX-License-Identifier: Apache-2.0
//
// Segments as transports see them: found by address, and held where they are.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

// Fields may only be appended.
static_assert(offsetof(moiety_segment_info, struct_size) == 0, "moved");
static_assert(offsetof(moiety_segment_info, flags) == 4, "moved");
static_assert(offsetof(moiety_segment_info, id) == 8, "moved");
static_assert(offsetof(moiety_segment_info, address) == 16, "moved");
static_assert(offsetof(moiety_segment_info, size_bytes) == 24, "moved");
static_assert(offsetof(moiety_segment_info, hold_count) == 32, "moved");
static_assert(offsetof(moiety_segment_info, device) == 40, "moved");
static_assert(offsetof(moiety_segment_info, reserved) == 44, "moved");
static_assert(sizeof(moiety_segment_info) == 48, "changed");

class Segments : public StandinTestWith<uint32_t>
{
  protected:
    moiety_pool_options Options() const
    {
        moiety_pool_options options = driver_options();
        set_kind(&options, GetParam());
        options.thread_cache_bytes = MOIETY_BYTES_NONE;
        return options;
    }

    bool IsMapped() const
    {
        return (GetParam() & KIND_MAPPED) != 0;
    }
};

std::string Message()
{
    return moiety_last_error_message();
}

moiety_segment_info Find(moiety_pool *pool, moiety_devptr address)
{
    moiety_segment_info info = {};
    info.struct_size = sizeof(info);
    EXPECT_OK(moiety_segment_find(pool, address, &info)) << Message();
    return info;
}

std::vector<moiety_segment_info> All(moiety_pool *pool)
{
    std::vector<moiety_segment_info> all;
    moiety_segment_info info = {};
    info.struct_size = sizeof(info);
    while (moiety_segment_find(
               pool,
               all.empty() ? 0 : all.back().address + all.back().size_bytes,
               &info) == MOIETY_OK)
        all.push_back(info);
    return all;
}

TEST_P(Segments, AreListedByAddress)
{
    Pool pool(Options());
    EXPECT_TRUE(All(pool).empty());
    std::vector<moiety_devptr> blocks;
    for (uint64_t mib : {2, 100, 8, 30})
        blocks.push_back(pool.Alloc(mib * kMiB));
    uint64_t bytes = 0;
    moiety_devptr end = 0;
    for (const moiety_segment_info &info : All(pool)) {
        EXPECT_LE(end, info.address);
        EXPECT_EQ(0u, info.hold_count);
        EXPECT_EQ(0, info.device);
        EXPECT_EQ(IsMapped() ? MOIETY_SEGMENT_MAPPED : 0u, info.flags);
        end = info.address + info.size_bytes;
        bytes += info.size_bytes;
    }
    EXPECT_EQ(pool.Stats().reserved_bytes_current, bytes);
    for (moiety_devptr block : blocks) {
        moiety_segment_info first = Find(pool, block);
        EXPECT_LE(first.address, block);
        EXPECT_LT(block, first.address + first.size_bytes);
        EXPECT_EQ(first.id, Find(pool, block + 1).id);
        pool.Free(block);
    }
}

TEST_P(Segments, ThatAreHeldStay)
{
    Pool pool(Options());
    moiety_devptr block = pool.Alloc(100 * kMiB);
    moiety_devptr other = pool.Alloc(100 * kMiB);
    ASSERT_OK(moiety_segment_hold(pool, block, 100 * kMiB));
    ASSERT_OK(moiety_segment_hold(pool, block + 5, 1));
    EXPECT_EQ(2u, Find(pool, block).hold_count);
    EXPECT_EQ(IsMapped() ? 1u : 2u, Find(pool, block + 99 * kMiB).hold_count);
    uint64_t id = Find(pool, block).id;
    pool.Free(block, MOIETY_STREAM_DONE);
    pool.Free(other, MOIETY_STREAM_DONE);
    pool.TrimAll();
    EXPECT_LE(100 * kMiB, pool.Stats().reserved_bytes_current);
    EXPECT_GT(200 * kMiB, pool.Stats().reserved_bytes_current);
    EXPECT_EQ(id, Find(pool, block).id);
    ASSERT_OK(moiety_segment_unhold(pool, block, 100 * kMiB));
    pool.TrimAll();
    EXPECT_EQ(id, Find(pool, block).id) << "it was held twice";
    ASSERT_OK(moiety_segment_unhold(pool, block + 5, 1));
    pool.TrimAll();
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
}

TEST_P(Segments, OfOtherAddressesAreRefused)
{
    Pool pool(Options());
    moiety_segment_info info = {};
    info.struct_size = sizeof(info);
    EXPECT_EQ(MOIETY_E_FOREIGN, moiety_segment_find(pool, 0, &info));
    moiety_devptr block = pool.Alloc(4 * kMiB);
    EXPECT_EQ(MOIETY_E_FOREIGN, moiety_segment_find(pool, UINT64_MAX, &info));
    moiety_segment_info first = Find(pool, block);
    for (auto change : {moiety_segment_hold, moiety_segment_unhold}) {
        EXPECT_EQ(MOIETY_E_FOREIGN, change(pool, first.address - 1, 2));
        EXPECT_EQ(change == moiety_segment_hold ? MOIETY_E_FOREIGN
                                                : MOIETY_E_INVALID,
                  change(pool, first.address, first.size_bytes + 1));
        EXPECT_EQ(MOIETY_E_FOREIGN, change(pool, first.address, UINT64_MAX));
        EXPECT_EQ(MOIETY_E_INVALID, change(pool, block, 0));
        EXPECT_EQ(MOIETY_E_INVALID, change(nullptr, block, 1));
    }
    EXPECT_EQ(0u, Find(pool, block).hold_count);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_segment_unhold(pool, block, 1));
    EXPECT_NE(std::string::npos, Message().find("is not held")) << Message();
    info.struct_size--;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_segment_find(pool, block, &info));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_segment_find(pool, block, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_segment_find(nullptr, block, &info));
    pool.Free(block);
}

TEST_P(Segments, AreHeldToThePoolsEnd)
{
    Pool pool(Options());
    moiety_devptr block = pool.Alloc(4 * kMiB);
    EXPECT_OK(moiety_segment_hold(pool, block, 1));
    pool.Free(block);
    EXPECT_EQ(0u, pool.End().block_count);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Segments, ::testing::Values(0u, KIND_MAPPED),
                         [](const auto &kind) {
                             return kind.param ? "Mapped" : "Driver";
                         });

using MappedSegmentsOfAPool = StandinTest;

moiety_pool_options Mapped()
{
    moiety_pool_options options = driver_options();
    set_kind(&options, KIND_MAPPED);
    options.thread_cache_bytes = MOIETY_BYTES_NONE;
    return options;
}

// What moves has another id at the new address; what is held does not move.
TEST_F(MappedSegmentsOfAPool, HaveAnotherIdWhereTheyMove)
{
    moiety_pool_options options = driver_options();
    set_kind(&options, KIND_MAPPED);
    options.thread_cache_bytes = MOIETY_BYTES_NONE;
    Pool pool(options);
    moiety_devptr first = pool.Alloc(8 * kMiB);
    moiety_devptr keeper = pool.Alloc(2 * kMiB);
    uint64_t id = Find(pool, first).id;
    ASSERT_OK(moiety_segment_hold(pool, first, 8 * kMiB));
    pool.Free(first, MOIETY_STREAM_DONE);
    moiety_devptr block = pool.Alloc(12 * kMiB);
    EXPECT_EQ(0u, pool.Stats().mapped_moves);
    EXPECT_EQ(id, Find(pool, first).id);
    EXPECT_OK(moiety_segment_unhold(pool, first, 8 * kMiB));
    pool.Free(block, MOIETY_STREAM_DONE);
    block = pool.Alloc(24 * kMiB);
    EXPECT_LT(0u, pool.Stats().mapped_moves);
    for (const moiety_segment_info &info : All(pool))
        EXPECT_NE(id, info.id);
    pool.Free(block);
    pool.Free(keeper);
}

TEST_F(MappedSegmentsOfAPool, AreNoneWhereAllPassesThrough)
{
    moiety_pool_options options = driver_options();
    set_kind(&options, KIND_PASS_THROUGH);
    Pool pool(options);
    moiety_devptr block = pool.Alloc(4 * kMiB);
    moiety_segment_info info = {};
    info.struct_size = sizeof(info);
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, moiety_segment_find(pool, block, &info));
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, moiety_segment_hold(pool, block, 1));
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, moiety_segment_unhold(pool, block, 1));
    pool.Free(block);
}

TEST_F(MappedSegmentsOfAPool, AreHeldAcrossPieces)
{
    Pool pool(Mapped());
    moiety_devptr block = pool.Alloc(6 * kMiB);
    ASSERT_EQ(2u, All(pool).size());
    ASSERT_OK(moiety_segment_hold(pool, block, 6 * kMiB));
    for (const moiety_segment_info &info : All(pool))
        EXPECT_EQ(1u, info.hold_count);
    ASSERT_OK(moiety_segment_unhold(pool, block, 6 * kMiB));
    for (const moiety_segment_info &info : All(pool))
        EXPECT_EQ(0u, info.hold_count);
    pool.Free(block);
}

TEST_F(MappedSegmentsOfAPool, AreNotHeldAcrossAHole)
{
    Pool pool(Mapped());
    moiety_devptr first = pool.Alloc(2 * kMiB);
    moiety_devptr hole = pool.Alloc(2 * kMiB);
    moiety_devptr last = pool.Alloc(2 * kMiB);
    ASSERT_EQ(first + 4 * kMiB, last);
    pool.Free(hole, MOIETY_STREAM_DONE);
    EXPECT_EQ(2 * kMiB, pool.TrimAll());
    EXPECT_EQ(MOIETY_E_FOREIGN, moiety_segment_hold(pool, first, 6 * kMiB));
    for (const moiety_segment_info &info : All(pool))
        EXPECT_EQ(0u, info.hold_count);
    pool.Free(first);
    pool.Free(last);
}

// What is held has its id for as long, whatever others grow, move and trim.
TEST_F(MappedSegmentsOfAPool, ThatAreHeldStayBesideAThreadThatGrowsAndTrims)
{
    Pool pool(Mapped());
    std::atomic<bool> is_over{false};
    std::thread grower([&] {
        for (unsigned turn = 0; !is_over; turn++) {
            moiety_devptr block = pool.Alloc((2 + turn % 7 * 2) * kMiB);
            pool.Free(block, MOIETY_STREAM_DONE);
            (void)pool.Trim();
        }
    });
    for (unsigned turn = 0; turn < 200; turn++) {
        moiety_devptr block = pool.Alloc(4 * kMiB);
        EXPECT_OK(moiety_segment_hold(pool, block, 4 * kMiB));
        uint64_t first = Find(pool, block).id;
        uint64_t last = Find(pool, block + 4 * kMiB - 1).id;
        pool.Free(block, MOIETY_STREAM_DONE);
        (void)pool.Trim();
        EXPECT_EQ(first, Find(pool, block).id) << "turn " << turn;
        EXPECT_EQ(last, Find(pool, block + 4 * kMiB - 1).id);
        EXPECT_OK(moiety_segment_unhold(pool, block, 4 * kMiB));
    }
    is_over = true;
    grower.join();
}

} // namespace
