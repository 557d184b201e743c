// SPDX-License-Identifier: Apache-2.0
//
// Calls that are wrong: each has a status and a message, is counted, and leaves
// all as it was.
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/checked/checked_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace checked_test;

using CheckedFree = Checked;

TEST_F(CheckedFree, TwiceIsRefusedInARow)
{
    Pool pool(Quiet());
    moiety_devptr block = pool.Alloc(100);
    pool.Free(block);
    EXPECT_EQ(MOIETY_E_DOUBLE_FREE, moiety_free(pool, block, kStream));
    EXPECT_TRUE(MessageHas("was freed before"));
    EXPECT_TRUE(MessageHas("block 1 of 100 bytes"));
    EXPECT_TRUE(MessageHas("allocated with stream 0x1 by thread"));
    EXPECT_TRUE(MessageHas("freed with stream 0x1 by thread"));
    EXPECT_EQ(1u, Check(pool).double_frees);
    EXPECT_EQ(1u, pool.Stats().allocation_freed);
}

TEST_F(CheckedFree, TwiceIsRefusedWhileTheBlockIsHeldBack)
{
    Pool pool(Quiet());
    moiety_devptr block = pool.Alloc(100);
    pool.Free(block);
    for (int i = 0; i < 300; i++)
        pool.Free(pool.Alloc(100));
    EXPECT_EQ(MOIETY_E_DOUBLE_FREE,
              moiety_free(pool, block, MOIETY_STREAM_ANY));
    EXPECT_TRUE(MessageHas("was freed before"));
    EXPECT_EQ(1u, Check(pool).double_frees);
}

TEST_F(CheckedFree, TwiceIsRefusedWhenTheMemoryIsThePoolsAgain)
{
    Pool pool(Quiet());
    moiety_devptr block = pool.Alloc(100);
    pool.Free(block, MOIETY_STREAM_DONE);
    EXPECT_EQ(0u, Check(pool).held_blocks);
    EXPECT_EQ(MOIETY_E_DOUBLE_FREE, moiety_free(pool, block, kStream));
    EXPECT_TRUE(MessageHas("was freed before"));
    pool.TrimAll();
    EXPECT_EQ(MOIETY_E_DOUBLE_FREE, moiety_free(pool, block, kStream));
    EXPECT_TRUE(MessageHas("was freed before"));
    EXPECT_EQ(2u, Check(pool).double_frees);
}

// An ordinary pool would have it in the middle of another thread's magazine.
TEST_F(CheckedFree, TwiceIsRefusedByAnyThreadOnAnyStreamInAnyWay)
{
    moiety_pool_options options = Quiet();
    options.flags |= MOIETY_POOL_NOTE_STREAMS;
    Pool pool(options);
    Stream stream;
    moiety_devptr blocks[16], block = 0;
    for (moiety_devptr &one : blocks)
        one = pool.Alloc(100, stream);
    std::thread([&] {
        for (moiety_devptr one : blocks)
            pool.Free(one, stream);
    }).join();
    block = blocks[7];
    moiety_event event = pool_test::NewEvent();
    const std::function<moiety_status()> ways[] = {
        [&] { return moiety_free(pool, block, stream); },
        [&] { return moiety_free(pool, block, MOIETY_STREAM_LEGACY); },
        [&] { return moiety_free(pool, block, MOIETY_STREAM_PER_THREAD); },
        [&] { return moiety_free(pool, block, MOIETY_STREAM_ANY); },
        [&] { return moiety_free(pool, block, MOIETY_STREAM_DONE); },
        [&] { return moiety_free_sized(pool, block, 100, stream); },
        [&] { return moiety_free_on_alloc_stream(pool, block); },
        [&] { return moiety_free_batch(pool, &block, 1, stream, nullptr); },
        [&] { return moiety_free_on_event(pool, block, event); },
    };
    uint64_t found = 0;
    for (const auto &way : ways) {
        EXPECT_EQ(MOIETY_E_DOUBLE_FREE, way()) << "way " << found;
        EXPECT_TRUE(MessageHas("was freed before"));
        std::thread([&] { EXPECT_EQ(MOIETY_E_DOUBLE_FREE, way()); }).join();
        found += 2;
        EXPECT_EQ(found, Check(pool).double_frees);
    }
    pool_test::DestroyEvent(event);
    EXPECT_EQ(16u, pool.Stats().allocation_freed);
}

// Also when nothing is known of it any more but that it is nobody's block.
TEST_F(CheckedFree, TwiceIsRefusedHoweverLate)
{
    moiety_pool_options options = Quiet();
    options.quarantine_bytes = MOIETY_BYTES_NONE;
    Pool pool(options);
    moiety_devptr block = pool.Alloc(3 * kMiB);
    pool.Free(block, MOIETY_STREAM_DONE);
    for (int i = 0; i < 10000; i++) {
        moiety_devptr other = pool.Alloc(100);
        ASSERT_NE(block, other);
        pool.Free(other, MOIETY_STREAM_DONE);
        if (i % 1000)
            continue;
        EXPECT_EQ(MOIETY_E_DOUBLE_FREE, moiety_free(pool, block, kStream)) << i;
        std::thread([&] {
            EXPECT_EQ(MOIETY_E_DOUBLE_FREE,
                      moiety_free(pool, block, MOIETY_STREAM_ANY))
                << i;
        }).join();
    }
    moiety_checked_counts counts = Check(pool);
    EXPECT_GE(counts.double_frees, 8u);
    EXPECT_EQ(20u, counts.double_frees + counts.foreign_frees);
    EXPECT_EQ(10001u, pool.Stats().allocation_freed);
}

TEST_F(CheckedFree, OfABlockThatServesAgainIsAccepted)
{
    moiety_pool_options options = Quiet();
    options.quarantine_bytes = MOIETY_BYTES_NONE;
    Pool pool(options);
    moiety_devptr block = pool.Alloc(100);
    pool.Free(block, MOIETY_STREAM_DONE);
    EXPECT_EQ(0u, Check(pool).held_blocks);
    ASSERT_EQ(block, pool.Alloc(100));
    pool.Free(block);
    EXPECT_EQ(0u, Findings(Check(pool)));
}

TEST_F(CheckedFree, InsideABlockNamesTheBlock)
{
    Pool pool(Quiet());
    moiety_devptr block = pool.Alloc(100 * kKiB);
    for (uint64_t offset :
         {uint64_t{1}, uint64_t{512}, 4 * kKiB, 100 * kKiB - 1}) {
        EXPECT_EQ(MOIETY_E_INVALID, moiety_free(pool, block + offset, kStream));
        EXPECT_TRUE(MessageHas("inside a block, at offset " +
                               std::to_string(offset) + ";"));
        EXPECT_TRUE(MessageHas("of 102400 bytes"));
    }
    EXPECT_EQ(4u, Check(pool).interior_frees);
    EXPECT_EQ(1u, Check(pool).live_blocks);
    pool.Free(block);
}

TEST_F(CheckedFree, BesideABlockNamesTheBlock)
{
    Pool pool(Quiet());
    moiety_devptr block = pool.Alloc(100);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_free(pool, block - 512, kStream));
    EXPECT_TRUE(MessageHas("512 bytes before a block"));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_free(pool, block + 101, kStream));
    EXPECT_TRUE(MessageHas("1 bytes past the end of a block"));
    EXPECT_EQ(2u, Check(pool).interior_frees);
    pool.Free(block);
}

TEST_F(CheckedFree, OfAnotherPoolsBlockNamesThePool)
{
    Pool pool(Quiet()), other(Quiet());
    moiety_devptr block = other.Alloc(100);
    EXPECT_EQ(MOIETY_E_FOREIGN, moiety_free(pool, block, kStream));
    char name[32];
    std::snprintf(name, sizeof(name), "another pool, %p",
                  static_cast<void *>(static_cast<moiety_pool *>(other)));
    EXPECT_TRUE(MessageHas(name));
    EXPECT_EQ(1u, Check(pool).foreign_frees);
    EXPECT_EQ(0u, Findings(Check(other)));
    other.Free(block);
}

TEST_F(CheckedFree, OfNobodysAddressIsForeign)
{
    Pool pool(Quiet());
    moiety_devptr block = pool.Alloc(100);
    for (moiety_devptr address :
         {moiety_devptr{512}, moiety_devptr{1} << 48, ~moiety_devptr{0}})
        EXPECT_EQ(MOIETY_E_FOREIGN, moiety_free(pool, address, kStream));
    EXPECT_TRUE(MessageHas("not of this pool"));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_free(pool, block + 20 * kMiB, kStream));
    EXPECT_TRUE(MessageHas("was never given out"));
    EXPECT_EQ(4u, Check(pool).foreign_frees);
    pool.Free(block);
}

TEST_F(CheckedFree, WithAnotherSizeIsRefused)
{
    Pool pool(Quiet());
    moiety_devptr block = pool.Alloc(100);
    for (size_t wrong_bytes : {size_t{99}, size_t{101}, 100 * kMiB}) {
        EXPECT_EQ(MOIETY_E_INVALID,
                  moiety_free_sized(pool, block, wrong_bytes, kStream));
        EXPECT_TRUE(
            MessageHas("was freed with size " + std::to_string(wrong_bytes)));
        EXPECT_TRUE(MessageHas("of 100 bytes"));
    }
    EXPECT_EQ(3u, Check(pool).wrong_sizes);
    EXPECT_OK(moiety_free_sized(pool, block, 100, kStream));
}

TEST_F(CheckedFree, UsableIsWhatWasAskedFor)
{
    Pool pool(Quiet());
    for (size_t size_bytes : {size_t{1}, size_t{100}, 3 * kMiB + 5}) {
        moiety_devptr block = pool.Alloc(size_bytes);
        EXPECT_EQ(size_bytes, pool.UsableSize(block));
        size_t none = 77;
        EXPECT_EQ(MOIETY_E_INVALID, moiety_usable_size(pool, block + 1, &none));
        pool.Free(block);
        EXPECT_EQ(MOIETY_E_INVALID, moiety_usable_size(pool, block, &none));
        EXPECT_EQ(77u, none);
    }
}

TEST_F(CheckedFree, OfTheNullAddressIsNoMistake)
{
    Pool pool(Quiet());
    EXPECT_EQ(0u, pool.Alloc(0));
    EXPECT_OK(moiety_free(pool, 0, kStream));
    EXPECT_OK(moiety_free_sized(pool, 0, 7, kStream));
    EXPECT_OK(moiety_record_use(pool, 0, kStream));
    EXPECT_EQ(0u, Findings(Check(pool)));
}

TEST_F(CheckedFree, KeepsTheAlignment)
{
    Pool pool(Quiet());
    std::vector<moiety_devptr> blocks;
    for (size_t alignment_bytes = 1; alignment_bytes <= 2 * kMiB;
         alignment_bytes *= 2) {
        for (size_t size_bytes : {size_t{1}, 700 * kKiB}) {
            moiety_devptr block = 0;
            ASSERT_OK(alloc_aligned(pool, size_bytes, alignment_bytes, kStream,
                                    &block));
            EXPECT_EQ(0u, block % alignment_bytes);
            EXPECT_EQ(0u, block % 512);
            blocks.push_back(block);
        }
    }
    blocks.push_back(pool.Alloc(kMiB + 1));
    EXPECT_EQ(0u, blocks.back() % (2 * kMiB));
    for (moiety_devptr block : blocks)
        pool.Free(block);
    EXPECT_EQ(0u, Findings(Check(pool)));
}

TEST_F(CheckedFree, CountsWhatTheProgramHas)
{
    Pool pool(Quiet());
    moiety_devptr first = pool.Alloc(100);
    moiety_devptr second = pool.Alloc(1000);
    pool.Free(first);
    moiety_pool_stats stats = pool.Stats();
    EXPECT_EQ(1u, stats.allocation_current);
    EXPECT_EQ(1000u, stats.allocated_bytes_current);
    EXPECT_EQ(2u, stats.allocation_allocated);
    EXPECT_EQ(1100u, stats.requested_bytes_allocated);
    EXPECT_EQ(0u, stats.cache_hits);
    EXPECT_EQ(1u, Check(pool).live_blocks);
    EXPECT_EQ(1000u, Check(pool).live_bytes);
    pool.Free(second);
}

TEST_F(CheckedFree, IsPrintedWithStacks)
{
    Pool pool(Loud());
    moiety_devptr block = pool.Alloc(100);
    pool.Free(block);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(MOIETY_E_DOUBLE_FREE, moiety_free(pool, block, kStream));
    std::string printed = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(std::string::npos, printed.find("moiety: checked: 0x"));
    EXPECT_NE(std::string::npos, printed.find("  allocated by thread"));
    EXPECT_NE(std::string::npos, printed.find("  freed by thread"));
    EXPECT_NE(std::string::npos, printed.find("[0x"));
}

TEST_F(CheckedFree, IsNotPrintedWhereThatIsNotWanted)
{
    Pool pool(Quiet());
    moiety_devptr block = pool.Alloc(100);
    pool.Free(block);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(MOIETY_E_DOUBLE_FREE, moiety_free(pool, block, kStream));
    EXPECT_EQ("", ::testing::internal::GetCapturedStderr());
}

TEST_F(CheckedFree, OfAnOrdinaryPoolHasNoCounts)
{
    Pool pool;
    moiety_checked_counts counts = {};
    counts.struct_size = sizeof(counts);
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, moiety_pool_check(pool, &counts));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_check(nullptr, &counts));
    Pool checked(Quiet());
    EXPECT_OK(moiety_pool_check(checked, nullptr));
    counts.struct_size = sizeof(counts) - 1;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_check(checked, &counts));
}

} // namespace
