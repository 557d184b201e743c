// SPDX-License-Identifier: Apache-2.0
//
// A context that is reset or destroyed under a pool: the pool finds out or is
// told, calls no driver any more, gives out no old address, and lets go.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "pool/driver/cuda_abi.h"
#include "tests/pool/pool_under_test.h"
#include "tests/segment/fake_source.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

moiety_status Alloc(moiety_pool *pool, size_t size_bytes = 4 * kKiB)
{
    moiety_devptr address = 77;
    moiety_status status = moiety_alloc(pool, size_bytes, kStream, &address);
    EXPECT_EQ(status == MOIETY_OK, address != 77);
    return status;
}

// A pool in a context of its own, or in the primary one, with blocks in all
// places: in use, in caches, on their way out, in the space.
class ContextLoss : public StandinTestWith<bool>
{
  protected:
    void SetUp() override
    {
        pool_test::SetCurrent(pool_test::PrimaryContext());
        if (!GetParam()) {
            context_ = pool_test::NewContext();
            pool_test::SetCurrent(context_);
        }
        moiety_pool_options options = pool_test::Defaults();
        options.context = context_;
        options.flags = MOIETY_POOL_EXPORTABLE;
        ASSERT_OK(moiety_pool_create(&options, &pool_));
        Fill();
        pool_test::SetCurrent(nullptr);
    }

    void TearDown() override
    {
        if (GetParam())
            Revive();
    }

    // The driver ends the context; both have the same handle afterwards.
    void Lose()
    {
        if (GetParam())
            ASSERT_EQ(CUDA_SUCCESS, pool_test::Get<CUresult(CUdevice)>(
                                        "cuDevicePrimaryCtxReset_v2")(0));
        else
            pool_test::DestroyContext(context_);
    }

    void Revive()
    {
        CUcontext context = nullptr;
        auto retain = pool_test::Get<CUresult(CUcontext *, CUdevice)>(
            "cuDevicePrimaryCtxRetain");
        ASSERT_EQ(CUDA_SUCCESS, retain(&context, 0));
        ASSERT_EQ(pool_test::PrimaryContext(), context);
    }

    // What it needs the driver for makes it notice.
    void Notice()
    {
        EXPECT_OK(moiety_pool_trim(pool_, 0, nullptr));
    }

    void ExpectLost()
    {
        uint64_t before = Calls();
        EXPECT_EQ(MOIETY_E_CONTEXT_DESTROYED, Alloc(pool_));
        EXPECT_EQ(MOIETY_E_CONTEXT_DESTROYED, Alloc(pool_, 5 * kMiB));
        moiety_devptr out = 0;
        EXPECT_EQ(MOIETY_E_CONTEXT_DESTROYED,
                  alloc_no_wait(pool_, 512, kStream, &out));
        EXPECT_EQ(MOIETY_E_CONTEXT_DESTROYED,
                  alloc_aligned(pool_, 512, 4096, kStream, &out));
        EXPECT_EQ(MOIETY_E_CONTEXT_DESTROYED,
                  moiety_alloc_batch(pool_, 512, kStream, 1, &out));
        moiety_ipc_handle handle;
        EXPECT_EQ(MOIETY_E_CONTEXT_DESTROYED,
                  moiety_ipc_export(pool_, blocks_[0], &handle));
        EXPECT_EQ(MOIETY_E_CONTEXT_DESTROYED,
                  moiety_pool_add_context(pool_, pool_test::PrimaryContext()));
        EXPECT_NE(std::string(), moiety_last_error_message());
        EXPECT_EQ(before, Calls()) << "the driver was called";
    }

    // All of them, in every way. 4 blocks, of which the third is a large one.
    void ExpectFreesToBeIgnored()
    {
        uint64_t before = Calls();
        moiety_stream strange = reinterpret_cast<moiety_stream>(0x1230);
        EXPECT_OK(moiety_record_use(pool_, blocks_[0], strange));
        EXPECT_OK(moiety_free(pool_, blocks_[0], strange));
        EXPECT_OK(
            moiety_free_sized(pool_, blocks_[1], 4 * kKiB, MOIETY_STREAM_ANY));
        EXPECT_OK(moiety_free_on_event(pool_, blocks_[2],
                                       reinterpret_cast<moiety_event>(0x4560)));
        EXPECT_OK(moiety_free_batch(pool_, &blocks_[3], 1, kStream, nullptr));
        EXPECT_OK(moiety_pool_retire_stream(pool_, strange));
        EXPECT_OK(moiety_ipc_release_exports(pool_, 0));
        EXPECT_EQ(MOIETY_E_INVALID, moiety_free(pool_, blocks_[0], kStream))
            << "freed twice";
        EXPECT_EQ(MOIETY_E_FOREIGN, moiety_free(pool_, 512, kStream));
        EXPECT_EQ(before, Calls()) << "the driver was called";
    }

    void ExpectToEnd(uint64_t leaked_blocks)
    {
        uint64_t before = Calls();
        moiety_leaks leaks = {};
        leaks.struct_size = sizeof(leaks);
        EXPECT_OK(moiety_pool_destroy(pool_, &leaks));
        EXPECT_EQ(leaked_blocks, leaks.block_count);
        EXPECT_EQ(before, Calls()) << "the driver was called";
        EXPECT_EQ(MOIETY_E_DESTROYED, moiety_free(pool_, blocks_[0], kStream));
    }

    moiety_context context_ = nullptr;
    moiety_pool *pool_ = nullptr;
    std::vector<moiety_devptr> blocks_;

  private:
    void Fill()
    {
        std::vector<moiety_devptr> all(600, 0);
        for (moiety_devptr &address : all)
            ASSERT_OK(moiety_alloc(pool_, 40 * kKiB, kStream, &address));
        for (size_t i = 0; i < all.size(); i++)
            ASSERT_OK(moiety_free(pool_, all[i],
                                  i % 3 ? kStream : MOIETY_STREAM_ANY));
        for (size_t size_bytes : {4 * kKiB, 4 * kKiB, 3 * kMiB, 4 * kKiB}) {
            moiety_devptr address = 0;
            ASSERT_OK(moiety_alloc(pool_, size_bytes, kStream, &address));
            blocks_.push_back(address);
        }
    }
};

TEST_P(ContextLoss, IsTakenFromWhoSaysSo)
{
    ASSERT_OK(moiety_pool_context_lost(pool_));
    ASSERT_OK(moiety_pool_context_lost(pool_));
    Lose();
    ExpectLost();
    ExpectFreesToBeIgnored();
    ExpectLost();
    ExpectToEnd(0);
}

TEST_P(ContextLoss, IsFoundOutByACallThatNeedsTheDriver)
{
    Lose();
    Notice();
    ExpectLost();
    ExpectFreesToBeIgnored();
    ExpectToEnd(0);
}

TEST_P(ContextLoss, IsFoundOutByAFreeOnAStreamThatIsNew)
{
    auto strange = reinterpret_cast<moiety_stream>(0x1230);
    Lose();
    EXPECT_OK(moiety_free(pool_, blocks_[1], strange));
    ExpectLost();
    ExpectToEnd(3);
}

TEST_P(ContextLoss, IsFoundOutByANoteOfAStreamThatIsNew)
{
    auto strange = reinterpret_cast<moiety_stream>(0x1230);
    Lose();
    EXPECT_OK(moiety_record_use(pool_, blocks_[1], strange));
    ExpectFreesToBeIgnored();
    ExpectLost();
    ExpectToEnd(0);
}

TEST_P(ContextLoss, IsFoundOutByTheEndOfThePool)
{
    int64_t contexts = Live("contexts");
    Lose();
    EXPECT_EQ(contexts - 1, Live("contexts"));
    moiety_leaks leaks = {};
    leaks.struct_size = sizeof(leaks);
    EXPECT_OK(moiety_pool_destroy(pool_, &leaks));
    EXPECT_EQ(4u, leaks.block_count);
}

TEST_P(ContextLoss, LeavesWhatWasNeverFreedInTheReport)
{
    Lose();
    Notice();
    EXPECT_OK(moiety_free(pool_, blocks_[1], kStream));
    ExpectToEnd(3);
}

TEST_P(ContextLoss, EndsNothingWhileAGuardIsHeldByOthers)
{
    ASSERT_EQ(MOIETY_OK, moiety_capture_guard_begin());
    EXPECT_EQ(MOIETY_E_CAPTURING, moiety_pool_destroy(pool_, nullptr));
    ASSERT_EQ(MOIETY_OK, moiety_pool_context_lost(pool_));
    Lose();
    ExpectToEnd(4);
    ASSERT_OK(moiety_capture_guard_end());
}

TEST_P(ContextLoss, IsSeenByOtherThreads)
{
    std::thread([&] {
        moiety_devptr address = 0;
        ASSERT_OK(moiety_alloc(pool_, 4 * kKiB, kStream, &address));
        ASSERT_OK(moiety_free(pool_, address, kStream));
        std::thread([&] { Lose(), Notice(); }).join();
        EXPECT_EQ(MOIETY_E_CONTEXT_DESTROYED, Alloc(pool_))
            << "the thread's cache has a block of the size";
    }).join();
    ExpectFreesToBeIgnored();
    ExpectToEnd(0);
}

TEST_P(ContextLoss, KeepsAnswersThatAreThePoolsOwn)
{
    Lose();
    Notice();
    moiety_pool_stats stats = {};
    stats.struct_size = sizeof(stats);
    EXPECT_OK(moiety_pool_get_stats(pool_, &stats));
    EXPECT_EQ(4u, stats.allocation_current);
    size_t bytes = 0;
    EXPECT_OK(moiety_usable_size(pool_, blocks_[0], &bytes));
    EXPECT_OK(moiety_pool_trim(pool_, 0, nullptr));
    ExpectToEnd(4);
}

INSTANTIATE_TEST_SUITE_P(, ContextLoss, ::testing::Values(false, true),
                         [](const auto &is_primary) {
                             return is_primary.param ? "Primary" : "Own";
                         });

class Reset : public ContextLoss
{
};

// Not on an old driver. The new context has the old one's handle: new memory would be given out next
// to addresses that are nothing, or something of another's.
TEST_P(Reset, OfARevivedContextIsSeenByItsIdentity)
{
    Lose();
    Revive();
    Notice();
    ExpectLost();
    ExpectFreesToBeIgnored();
    EXPECT_EQ(0, Live("allocations"));
    ExpectToEnd(0);
    moiety_pool *fresh = nullptr;
    ASSERT_OK(moiety_pool_create(nullptr, &fresh));
    EXPECT_OK(Alloc(fresh));
    EXPECT_OK(moiety_pool_destroy(fresh, nullptr));
}

INSTANTIATE_TEST_SUITE_P(, Reset, ::testing::Values(true));

class Lost : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
        pool_test::SetCurrent(pool_test::PrimaryContext());
    }
};

TEST_F(Lost, PoolIsNone)
{
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_context_lost(nullptr));
    moiety_pool *pool = nullptr;
    ASSERT_OK(moiety_pool_create(nullptr, &pool));
    ASSERT_OK(moiety_pool_destroy(pool, nullptr));
    EXPECT_EQ(MOIETY_E_DESTROYED, moiety_pool_context_lost(pool));
}

TEST_F(Lost, PoolIsNotTheOthers)
{
    pool_test::Pool pool, other;
    pool.Free(pool.Alloc(512));
    ASSERT_OK(moiety_pool_context_lost(pool));
    other.Free(other.Alloc(512));
    EXPECT_EQ(MOIETY_E_CONTEXT_DESTROYED, Alloc(pool));
}

// What the program gave the pool is the program's to take back.
TEST_F(Lost, MemoryOfASourceGoesBackToIt)
{
    segment_test::FakeSource source;
    moiety_source table = source.Table();
    moiety_pool_options options = pool_test::Defaults();
    options.source = &table;
    {
        pool_test::Pool pool(options);
        pool.Free(pool.Alloc(512));
        ASSERT_OK(moiety_pool_context_lost(pool));
        EXPECT_FALSE(source.Live().empty());
    }
    EXPECT_TRUE(source.Live().empty());
    EXPECT_EQ("", source.Complaint());
}

// An answer that says nothing of the context loses no pool.
TEST_F(Lost, PoolIsNotByAnyError)
{
    pool_test::Pool pool;
    pool_test::SetFaults("cuCtxGetId:nth=1:code=CUDA_ERROR_UNKNOWN,"
                         "cuMemAlloc:nth=1:code=CUDA_ERROR_UNKNOWN");
    EXPECT_EQ(MOIETY_E_DRIVER, Alloc(pool));
    pool_test::SetFaults("");
    pool.Free(pool.Alloc(512));
}

TEST_F(Lost, DriverThatShutsDownIsRemembered)
{
    pool_test::Pool pool;
    moiety_devptr block = pool.Alloc(512), large = pool.Alloc(9 * kMiB);
    pool_test::SetFaults("*:every=1:code=CUDA_ERROR_DEINITIALIZED");
    EXPECT_OK(moiety_free(pool, block, MOIETY_STREAM_ANY));
    EXPECT_OK(
        moiety_free(pool, large, reinterpret_cast<moiety_stream>(0x1230)));
    uint64_t before = Calls();
    EXPECT_EQ(MOIETY_E_DEINITIALIZED, Alloc(pool));
    EXPECT_EQ(before, Calls());
    EXPECT_EQ(0u, pool.End().block_count);
    EXPECT_EQ(before, Calls());
    pool_test::SetFaults("");
}

} // namespace
