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

namespace
{

using pool_test::Calls;
using pool_test::kKiB;
using pool_test::kMiB;
using pool_test::Live;

const binade_stream kStream = BINADE_STREAM_LEGACY;

binade_status Alloc(binade_pool *pool, size_t size_bytes = 4 * kKiB)
{
    binade_devptr address = 77;
    binade_status status = binade_alloc(pool, size_bytes, kStream, &address);
    EXPECT_EQ(status == BINADE_OK, address != 77);
    return status;
}

// A pool in a context of its own, or in the primary one, with blocks in all
// places: in use, in caches, on their way out, in the buddy.
class ContextLoss : public ::testing::TestWithParam<bool>
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }

    void SetUp() override
    {
        pool_test::SetCurrent(pool_test::PrimaryContext());
        if (!GetParam()) {
            context_ = pool_test::NewContext();
            pool_test::SetCurrent(context_);
        }
        binade_pool_options options = pool_test::Defaults();
        options.context = context_;
        options.flags = BINADE_POOL_EXPORTABLE;
        ASSERT_EQ(BINADE_OK, binade_pool_create(&options, &pool_));
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
        EXPECT_EQ(BINADE_OK, binade_pool_trim(pool_, 0, nullptr));
    }

    void ExpectLost()
    {
        uint64_t before = Calls();
        EXPECT_EQ(BINADE_E_CONTEXT_DESTROYED, Alloc(pool_));
        EXPECT_EQ(BINADE_E_CONTEXT_DESTROYED, Alloc(pool_, 5 * kMiB));
        binade_devptr out = 0;
        EXPECT_EQ(BINADE_E_CONTEXT_DESTROYED,
                  binade_try_alloc(pool_, 512, kStream, &out));
        EXPECT_EQ(BINADE_E_CONTEXT_DESTROYED,
                  binade_alloc_aligned(pool_, 512, 4096, kStream, &out));
        EXPECT_EQ(BINADE_E_CONTEXT_DESTROYED,
                  binade_alloc_batch(pool_, 512, kStream, 1, &out));
        binade_ipc_handle handle;
        EXPECT_EQ(BINADE_E_CONTEXT_DESTROYED,
                  binade_ipc_export(pool_, blocks_[0], &handle));
        EXPECT_EQ(BINADE_E_CONTEXT_DESTROYED,
                  binade_pool_add_context(pool_, pool_test::PrimaryContext()));
        EXPECT_NE(std::string(), binade_last_error_message());
        EXPECT_EQ(before, Calls()) << "the driver was called";
    }

    // All of them, in every way. 4 blocks, of which the third is a large one.
    void ExpectFreesToBeIgnored()
    {
        uint64_t before = Calls();
        binade_stream strange = reinterpret_cast<binade_stream>(0x1230);
        EXPECT_EQ(BINADE_OK, binade_record_use(pool_, blocks_[0], strange));
        EXPECT_EQ(BINADE_OK, binade_free(pool_, blocks_[0], strange));
        EXPECT_EQ(BINADE_OK, binade_free_sized(pool_, blocks_[1], 4 * kKiB,
                                               BINADE_STREAM_ANY));
        EXPECT_EQ(BINADE_OK,
                  binade_free_after(pool_, blocks_[2],
                                    reinterpret_cast<binade_event>(0x4560)));
        EXPECT_EQ(BINADE_OK,
                  binade_free_batch(pool_, &blocks_[3], 1, kStream, nullptr));
        EXPECT_EQ(BINADE_OK, binade_stream_retire(pool_, strange));
        EXPECT_EQ(BINADE_OK, binade_ipc_release_exports(pool_, 0));
        EXPECT_EQ(BINADE_E_INVALID, binade_free(pool_, blocks_[0], kStream))
            << "freed twice";
        EXPECT_EQ(BINADE_E_FOREIGN, binade_free(pool_, 512, kStream));
        EXPECT_EQ(before, Calls()) << "the driver was called";
    }

    void ExpectToEnd(uint64_t leaked_blocks)
    {
        uint64_t before = Calls();
        binade_leaks leaks = {};
        leaks.struct_size = sizeof(leaks);
        EXPECT_EQ(BINADE_OK, binade_pool_destroy(pool_, &leaks))
            << binade_last_error_message();
        EXPECT_EQ(leaked_blocks, leaks.block_count);
        EXPECT_EQ(before, Calls()) << "the driver was called";
        EXPECT_EQ(BINADE_E_INVALID, binade_free(pool_, blocks_[0], kStream));
    }

    binade_context context_ = nullptr;
    binade_pool *pool_ = nullptr;
    std::vector<binade_devptr> blocks_;

  private:
    void Fill()
    {
        std::vector<binade_devptr> all(600, 0);
        for (binade_devptr &address : all)
            ASSERT_EQ(BINADE_OK,
                      binade_alloc(pool_, 40 * kKiB, kStream, &address));
        for (size_t i = 0; i < all.size(); i++)
            ASSERT_EQ(BINADE_OK,
                      binade_free(pool_, all[i],
                                  i % 3 ? kStream : BINADE_STREAM_ANY));
        for (size_t size_bytes : {4 * kKiB, 4 * kKiB, 3 * kMiB, 4 * kKiB}) {
            binade_devptr address = 0;
            ASSERT_EQ(BINADE_OK,
                      binade_alloc(pool_, size_bytes, kStream, &address));
            blocks_.push_back(address);
        }
    }
};

TEST_P(ContextLoss, IsTakenFromWhoSaysSo)
{
    ASSERT_EQ(BINADE_OK, binade_pool_context_lost(pool_));
    ASSERT_EQ(BINADE_OK, binade_pool_context_lost(pool_));
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
    auto strange = reinterpret_cast<binade_stream>(0x1230);
    Lose();
    EXPECT_EQ(BINADE_OK, binade_free(pool_, blocks_[1], strange));
    ExpectLost();
    ExpectToEnd(3);
}

TEST_P(ContextLoss, IsFoundOutByANoteOfAStreamThatIsNew)
{
    auto strange = reinterpret_cast<binade_stream>(0x1230);
    Lose();
    EXPECT_EQ(BINADE_OK, binade_record_use(pool_, blocks_[1], strange));
    ExpectFreesToBeIgnored();
    ExpectLost();
    ExpectToEnd(0);
}

TEST_P(ContextLoss, IsFoundOutByTheEndOfThePool)
{
    int64_t contexts = Live("contexts");
    Lose();
    EXPECT_EQ(contexts - 1, Live("contexts"));
    binade_leaks leaks = {};
    leaks.struct_size = sizeof(leaks);
    EXPECT_EQ(BINADE_OK, binade_pool_destroy(pool_, &leaks))
        << binade_last_error_message();
    EXPECT_EQ(4u, leaks.block_count);
}

TEST_P(ContextLoss, LeavesWhatWasNeverFreedInTheReport)
{
    Lose();
    Notice();
    EXPECT_EQ(BINADE_OK, binade_free(pool_, blocks_[1], kStream));
    ExpectToEnd(3);
}

TEST_P(ContextLoss, EndsNothingWhileAGuardIsHeldByOthers)
{
    ASSERT_EQ(BINADE_OK, binade_capture_guard_begin());
    EXPECT_EQ(BINADE_E_BUSY, binade_pool_destroy(pool_, nullptr));
    ASSERT_EQ(BINADE_OK, binade_pool_context_lost(pool_));
    Lose();
    ExpectToEnd(4);
    ASSERT_EQ(BINADE_OK, binade_capture_guard_end());
}

TEST_P(ContextLoss, IsSeenByOtherThreads)
{
    std::thread([&] {
        binade_devptr address = 0;
        ASSERT_EQ(BINADE_OK, binade_alloc(pool_, 4 * kKiB, kStream, &address));
        ASSERT_EQ(BINADE_OK, binade_free(pool_, address, kStream));
        std::thread([&] { Lose(), Notice(); }).join();
        EXPECT_EQ(BINADE_E_CONTEXT_DESTROYED, Alloc(pool_))
            << "the thread's cache has a block of the size";
    }).join();
    ExpectFreesToBeIgnored();
    ExpectToEnd(0);
}

TEST_P(ContextLoss, KeepsAnswersThatAreThePoolsOwn)
{
    Lose();
    Notice();
    binade_stats stats = {};
    stats.struct_size = sizeof(stats);
    EXPECT_EQ(BINADE_OK, binade_pool_stats(pool_, &stats));
    EXPECT_EQ(4u, stats.allocation_current);
    size_t bytes = 0;
    EXPECT_EQ(BINADE_OK, binade_usable_size(pool_, blocks_[0], &bytes));
    EXPECT_EQ(BINADE_OK, binade_pool_trim(pool_, 0, nullptr));
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
    binade_pool *fresh = nullptr;
    ASSERT_EQ(BINADE_OK, binade_pool_create(nullptr, &fresh));
    EXPECT_EQ(BINADE_OK, Alloc(fresh));
    EXPECT_EQ(BINADE_OK, binade_pool_destroy(fresh, nullptr));
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
    EXPECT_EQ(BINADE_E_INVALID, binade_pool_context_lost(nullptr));
    binade_pool *pool = nullptr;
    ASSERT_EQ(BINADE_OK, binade_pool_create(nullptr, &pool));
    ASSERT_EQ(BINADE_OK, binade_pool_destroy(pool, nullptr));
    EXPECT_EQ(BINADE_E_INVALID, binade_pool_context_lost(pool));
}

TEST_F(Lost, PoolIsNotTheOthers)
{
    pool_test::Pool pool, other;
    pool.Free(pool.Alloc(512));
    ASSERT_EQ(BINADE_OK, binade_pool_context_lost(pool));
    other.Free(other.Alloc(512));
    EXPECT_EQ(BINADE_E_CONTEXT_DESTROYED, Alloc(pool));
}

// What the program gave the pool is the program's to take back.
TEST_F(Lost, MemoryOfASourceGoesBackToIt)
{
    segment_test::FakeSource source;
    binade_source table = source.Table();
    binade_pool_options options = pool_test::Defaults();
    options.source = &table;
    {
        pool_test::Pool pool(options);
        pool.Free(pool.Alloc(512));
        ASSERT_EQ(BINADE_OK, binade_pool_context_lost(pool));
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
    EXPECT_EQ(BINADE_E_DRIVER, Alloc(pool));
    pool_test::SetFaults("");
    pool.Free(pool.Alloc(512));
}

TEST_F(Lost, DriverThatShutsDownIsRemembered)
{
    pool_test::Pool pool;
    binade_devptr block = pool.Alloc(512), large = pool.Alloc(9 * kMiB);
    pool_test::SetFaults("*:every=1:code=CUDA_ERROR_DEINITIALIZED");
    EXPECT_EQ(BINADE_OK, binade_free(pool, block, BINADE_STREAM_ANY));
    EXPECT_EQ(BINADE_OK, binade_free(pool, large,
                                     reinterpret_cast<binade_stream>(0x1230)));
    uint64_t before = Calls();
    EXPECT_EQ(BINADE_E_DEINITIALIZED, Alloc(pool));
    EXPECT_EQ(before, Calls());
    EXPECT_EQ(0u, pool.End().block_count);
    EXPECT_EQ(before, Calls());
    pool_test::SetFaults("");
}

} // namespace
