// SPDX-License-Identifier: Apache-2.0
//
// Writes where nothing may be written, on the device: they are found when the
// block leaves the quarantine. And programs without mistakes are not blamed.
#include <cstdlib>
#include <string>

#include "pool/driver/cuda_abi.h"
#include "tests/checked/checked_under_test.h"

namespace
{

using namespace checked_test;

using CheckedMemory = Checked;

const moiety_stream kWaysToFree[] = {MOIETY_STREAM_LEGACY,
                                     MOIETY_STREAM_PER_THREAD,
                                     MOIETY_STREAM_ANY, MOIETY_STREAM_DONE};

TEST_F(CheckedMemory, ThatIsUsedRightIsNotReported)
{
    Pool pool(Quiet());
    uint64_t blocks = 0;
    for (moiety_stream stream : kWaysToFree) {
        for (size_t size_bytes :
             {size_t{4}, size_t{512}, 100 * kKiB, kMiB, 5 * kMiB}) {
            moiety_devptr block = pool.Alloc(size_bytes, stream);
            pool_test::Fill(block, size_bytes, 0x11111111);
            EXPECT_TRUE(pool_test::Holds(block, size_bytes, 0x11111111));
            pool.Free(block, stream);
            blocks++;
        }
    }
    pool_test::Synchronize();
    moiety_checked_counts counts = Check(pool);
    EXPECT_EQ(0u, Findings(counts));
    EXPECT_EQ(blocks, counts.verified_blocks);
    EXPECT_EQ(0u, counts.unverified_blocks);
    EXPECT_EQ(0u, counts.held_blocks);
}

TEST_F(CheckedMemory, WrittenAfterTheFreeIsReported)
{
    for (moiety_stream stream : kWaysToFree) {
        Pool pool(Loud());
        moiety_devptr block = pool.Alloc(4000, stream);
        pool.Free(block, stream);
        pool_test::Synchronize();
        // What cannot be filled at the free is filled at a later call.
        pool.Free(pool.Alloc(4, stream), stream);
        pool_test::Synchronize();
        pool_test::Fill(block + 100, 8, 0x11111111);
        ::testing::internal::CaptureStderr();
        moiety_checked_counts counts = Check(pool);
        std::string printed = ::testing::internal::GetCapturedStderr();
        EXPECT_EQ(1u, counts.writes_after_free);
        EXPECT_EQ(1u, Findings(counts));
        EXPECT_NE(std::string::npos,
                  printed.find("8 bytes of a freed block were written, the "
                               "first at offset 100, the last at 107 (0x11 "
                               "where 0xdd was); block 1 of 4000 bytes"))
            << printed;
        EXPECT_NE(std::string::npos, printed.find("  allocated by thread"));
        EXPECT_NE(std::string::npos, printed.find("  freed by thread"));
    }
}

TEST_F(CheckedMemory, WrittenBeforeItsBeginningIsReported)
{
    Pool pool(Loud());
    moiety_devptr block = pool.Alloc(4000);
    pool_test::Fill(block - 4, 4, 0x11111111);
    pool.Free(block);
    pool_test::Synchronize();
    ::testing::internal::CaptureStderr();
    moiety_checked_counts counts = Check(pool);
    std::string printed = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(1u, counts.writes_out_of_bounds);
    EXPECT_EQ(1u, Findings(counts));
    EXPECT_NE(std::string::npos,
              printed.find("4 bytes before the block were written, the last of "
                           "them 1 before its beginning"))
        << printed;
}

TEST_F(CheckedMemory, WrittenPastItsEndIsReportedToTheByte)
{
    for (size_t size_bytes :
         {size_t{4}, size_t{100}, size_t{512}, 100 * kKiB + 4, 3 * kMiB}) {
        Pool pool(Loud());
        moiety_devptr block = pool.Alloc(size_bytes);
        pool_test::Fill(block, size_bytes, 0);
        pool_test::Fill(block + size_bytes, 4, 0x11111111);
        pool.Free(block);
        pool_test::Synchronize();
        ::testing::internal::CaptureStderr();
        moiety_checked_counts counts = Check(pool);
        std::string printed = ::testing::internal::GetCapturedStderr();
        EXPECT_EQ(1u, counts.writes_out_of_bounds) << size_bytes;
        EXPECT_EQ(1u, Findings(counts));
        EXPECT_NE(std::string::npos,
                  printed.find("4 bytes after the block were written, the "
                               "first of them 0 past its end"))
            << printed;
    }
}

TEST_F(CheckedMemory, IsLookedAtWhenTheQuarantineIsFull)
{
    moiety_pool_options options = Quiet();
    options.quarantine_bytes = 64 * kKiB;
    options.flags &= ~MOIETY_POOL_CHECKED_QUIET;
    ::testing::internal::CaptureStderr();
    {
        Pool pool(options);
        moiety_devptr block = pool.Alloc(4000);
        pool.Free(block, MOIETY_STREAM_DONE);
        pool_test::Synchronize();
        pool_test::Fill(block, 4, 0x11111111);
        for (int i = 0; i < 32; i++)
            pool.Free(pool.Alloc(4000), MOIETY_STREAM_DONE);
        EXPECT_EQ(1u, Check(pool).writes_after_free);
    }
    std::string printed = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(std::string::npos, printed.find("block 1 of 4000 bytes"));
}

TEST_F(CheckedMemory, IsHeldBackUpToTheQuarantine)
{
    moiety_pool_options options = Quiet();
    options.quarantine_bytes = kMiB;
    Pool pool(options);
    for (int i = 0; i < 100; i++)
        pool.Free(pool.Alloc(64 * kKiB), MOIETY_STREAM_DONE);
    moiety_pool_stats stats = pool.Stats();
    EXPECT_LE(stats.retiring_bytes, kMiB);
    EXPECT_GE(stats.retiring_bytes, kMiB / 2);
}

TEST_F(CheckedMemory, IsNotServedAgainWhileItIsHeldBack)
{
    Pool pool(Quiet());
    moiety_devptr first = pool.Alloc(100);
    pool.Free(first);
    for (int i = 0; i < 100; i++) {
        pool_test::Synchronize(); // that work is pending is no reason
        moiety_devptr block = pool.Alloc(100);
        EXPECT_NE(first, block);
        pool.Free(block);
    }
}

// In a pool of 4 MiB one block of 1.5 MiB leaves no room for another: it is
// aligned to 2 MiB, and so is what is before it.
TEST_F(CheckedMemory, ThatIsHeldBackServesBeforeMemoryIsExhausted)
{
    moiety_pool_options options = Quiet();
    options.limit_bytes = 4 * kMiB;
    Pool pool(options);
    for (moiety_stream stream : kWaysToFree) {
        for (int i = 0; i < 10; i++)
            pool.Free(pool.Alloc(3 * kMiB / 2, stream), stream);
    }
    EXPECT_EQ(0u, pool.Stats().ooms);
    EXPECT_EQ(0u, Findings(Check(pool)));
}

TEST_F(CheckedMemory, ThatIsInUseIsNotLetGoOf)
{
    moiety_pool_options options = Quiet();
    options.limit_bytes = 4 * kMiB;
    options.wait_ms = MOIETY_WAIT_NONE;
    Pool pool(options);
    Stream stream;
    moiety_devptr block = pool.Alloc(3 * kMiB / 2, stream);
    stream.Hold();
    pool.Free(block, stream);
    moiety_devptr none = 0;
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, 3 * kMiB / 2, stream, &none));
    EXPECT_EQ(1u, Check(pool).held_blocks);
    stream.Release();
    pool_test::Synchronize();
    pool.Free(pool.Alloc(3 * kMiB / 2, stream), stream);
    pool_test::Synchronize();
    EXPECT_EQ(0u, Findings(Check(pool)));
    EXPECT_OK(moiety_pool_retire_stream(pool, stream));
}

TEST_F(CheckedMemory, WithAnotherUserIsFilledWhenThatIsOver)
{
    Pool pool(Quiet());
    Stream user;
    moiety_devptr block = pool.Alloc(4096);
    user.Hold();
    EXPECT_OK(moiety_record_use(pool, block, user));
    pool_test::Fill(block, 4096, 0x11111111);
    pool.Free(block);
    EXPECT_EQ(1u, Check(pool).held_blocks);
    EXPECT_TRUE(pool_test::Holds(block, 4096, 0x11111111));
    user.Release();
    pool_test::Synchronize();
    moiety_checked_counts counts = Check(pool);
    EXPECT_EQ(0u, counts.held_blocks);
    EXPECT_EQ(1u, counts.verified_blocks);
    EXPECT_EQ(0u, Findings(counts));
    EXPECT_OK(moiety_pool_retire_stream(pool, user));
}

TEST_F(CheckedMemory, FreedAfterAnEventWaitsForIt)
{
    Pool pool(Quiet());
    Stream user;
    moiety_event event = pool_test::NewEvent();
    moiety_devptr block = pool.Alloc(4096);
    user.Hold();
    EXPECT_EQ(CUDA_SUCCESS, pool_test::Get<CUresult(CUevent, CUstream)>(
                                "cuEventRecord")(event, user));
    EXPECT_OK(moiety_free_on_event(pool, block, event));
    EXPECT_EQ(1u, Check(pool).held_blocks);
    user.Release();
    pool_test::Synchronize();
    EXPECT_EQ(0u, Check(pool).held_blocks);
    EXPECT_EQ(MOIETY_E_DOUBLE_FREE, moiety_free_on_event(pool, block, event));
    EXPECT_EQ(1u, Findings(Check(pool)));
    pool_test::DestroyEvent(event);
}

TEST_F(CheckedMemory, IsFilledWhenItIsNewIfThatIsWanted)
{
    moiety_pool_options options = Quiet();
    options.flags |= MOIETY_POOL_CHECKED_FILL;
    Pool pool(options);
    moiety_devptr block = pool.Alloc(4096);
    EXPECT_TRUE(pool_test::Holds(block, 4096, 0xcdcdcdcd));
    pool.Free(block);
}

TEST_F(CheckedMemory, ThatWasNotFreedIsNamedAtTheEnd)
{
    Pool pool(Loud());
    moiety_devptr block = pool.Alloc(4000);
    (void)pool.Alloc(50);
    pool_test::Fill(block + 4000, 4, 0);
    ::testing::internal::CaptureStderr();
    moiety_leaks leaks = pool.End();
    std::string printed = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(2u, leaks.block_count);
    EXPECT_EQ(4050u, leaks.bytes);
    EXPECT_EQ(2u, leaks.address_count);
    EXPECT_NE(std::string::npos,
              printed.find("never freed; block 1 of 4000 bytes"))
        << printed;
    EXPECT_NE(std::string::npos, printed.find("allocated by thread"));
    EXPECT_NE(std::string::npos, printed.find("4 bytes after the block"));
}

TEST_F(CheckedMemory, IsLookedAtAtTheEnd)
{
    Pool pool(Loud());
    moiety_devptr block = pool.Alloc(4000);
    pool.Free(block);
    pool_test::Synchronize();
    pool_test::Fill(block, 4, 0);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(0u, pool.End().block_count);
    std::string printed = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(std::string::npos, printed.find("4 bytes of a freed block"));
}

TEST_F(CheckedMemory, IsCheckedByTheEnvironmentAlone)
{
    setenv("MOIETY_CONF", "checked:1,checked_quiet:1,quarantine:1M", 1);
    Pool pool;
    unsetenv("MOIETY_CONF");
    moiety_devptr block = pool.Alloc(100);
    pool.Free(block);
    EXPECT_EQ(MOIETY_E_DOUBLE_FREE, moiety_free(pool, block, kStream));
    EXPECT_EQ(1u, Check(pool).double_frees);
}

} // namespace
