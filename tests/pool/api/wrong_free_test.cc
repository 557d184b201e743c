// SPDX-License-Identifier: Apache-2.0
//
// Frees of what is free. What lies in a cache is not seen at once; it is counted
// when it leaves, and whatever a program does wrong, no sum runs over.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

const size_t kSizes[] = {512, 20 * kKiB, 100 * kKiB, 700 * kKiB, 3 * kMiB};

class WrongFree : public StandinTest
{
  protected:
    static moiety_status FreeByAnotherThread(Pool &pool, moiety_devptr block,
                                             moiety_stream stream)
    {
        moiety_status status = MOIETY_E_WOULD_BLOCK;
        std::thread([&] { status = moiety_free(pool, block, stream); }).join();
        return status;
    }

    moiety_stream stream_ = nullptr;
};

// Each statistic, whatever its name.
void ExpectSane(const moiety_pool_stats &stats, const char *when)
{
    const size_t first = offsetof(moiety_pool_stats, allocation_current);
    for (size_t at = first; at + 8 <= sizeof(stats); at += 8) {
        uint64_t value;
        memcpy(&value, reinterpret_cast<const char *>(&stats) + at, 8);
        ASSERT_LT(value, UINT64_C(1) << 50) << "at " << at << " " << when;
    }
    ASSERT_LE(stats.allocation_freed, stats.allocation_allocated) << when;
}

TEST_F(WrongFree, IsSeenHoweverLateByWhichThreadAndOnWhichStream)
{
    Pool pool;
    Stream stream, other;
    pool_test::SetCurrent(pool_test::PrimaryContext());
    for (size_t size_bytes : kSizes) {
        moiety_devptr block = pool.Alloc(size_bytes, stream);
        moiety_devptr kept = pool.Alloc(size_bytes, stream);
        pool.Free(block, stream);
        pool.Trim(UINT64_MAX); // out of the caches, into the heaps
        for (int round = 0; round < 2; round++) {
            for (moiety_stream on :
                 {moiety_stream(stream), moiety_stream(other),
                  MOIETY_STREAM_ANY, MOIETY_STREAM_DONE}) {
                EXPECT_EQ(MOIETY_E_INVALID, moiety_free(pool, block, on));
                EXPECT_EQ(MOIETY_E_INVALID,
                          FreeByAnotherThread(pool, block, on));
                EXPECT_EQ(MOIETY_E_INVALID,
                          moiety_free_sized(pool, block, size_bytes, on));
            }
            // The second time it is merged with all that is around it.
            pool_test::Synchronize();
            pool.Trim(UINT64_MAX);
        }
        pool.Free(kept, stream);
    }
    EXPECT_EQ(0u, pool.Stats().allocation_current);
    EXPECT_EQ(10u, pool.Stats().allocation_freed);
    EXPECT_EQ(0u, pool.Stats().double_frees_found);
}

TEST_F(WrongFree, OfWhatACacheHoldsIsCountedWhenItLeaves)
{
    for (size_t size_bytes : {size_t{512}, 20 * kKiB, 100 * kKiB}) {
        moiety_pool_options options = pool_test::Defaults();
        options.first_segment_bytes = size_t{128} << 20;
        Pool pool(options);
        Stream stream;
        moiety_devptr block = pool.Alloc(size_bytes, stream);
        moiety_devptr between = pool.Alloc(size_bytes, stream);
        pool.Free(block, stream);
        pool.Free(between, stream);
        // The magazine does not look below its top.
        EXPECT_OK(moiety_free(pool, block, stream)) << size_bytes;
        EXPECT_EQ(0u, pool.Stats().double_frees_found);
        pool.TrimAll();
        EXPECT_EQ(1u, pool.Stats().double_frees_found) << size_bytes;
        // It is free once only.
        EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
        ExpectSane(pool.Stats(), "after the trim");
    }
}

TEST_F(WrongFree, ByTwoThreadsIsCountedWhenItLeaves)
{
    Pool pool;
    Stream stream;
    pool_test::SetCurrent(pool_test::PrimaryContext());
    moiety_devptr block = pool.Alloc(4096, stream);
    pool.Free(block, stream);
    EXPECT_OK(FreeByAnotherThread(pool, block, stream));
    pool.TrimAll();
    EXPECT_EQ(1u, pool.Stats().double_frees_found);
    EXPECT_EQ(0u, pool.Stats().allocation_current);
    ExpectSane(pool.Stats(), "after the trim");
}

// Right and wrong ones of all sizes, so that memory is served twice and comes back
// in other lengths than it went.
TEST_F(WrongFree, LeavesEveryStatisticSane)
{
    for (unsigned seed = 1; seed <= 8; seed++) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        Pool pool;
        Stream streams[2];
        std::vector<moiety_devptr> freed;
        bool is_odd = false;
        for (int turn = 0; turn < 2000; turn++) {
            const moiety_stream stream = streams[random() % 2];
            moiety_devptr block = 0;
            if (random() % 2 || freed.empty()) {
                size_t size_bytes =
                    random() % (random() % 4 ? 400 * kKiB : 4 * kMiB) + 1;
                block = pool.Alloc(size_bytes, stream);
                freed.push_back(block);
            } else {
                block = freed[random() % freed.size()];
            }
            // A right one is refused where a wrong one came before it.
            moiety_status status = moiety_free(pool, block, stream);
            is_odd |= status != MOIETY_OK && status != MOIETY_E_DOUBLE_FREE &&
                      status != MOIETY_E_INVALID && status != MOIETY_E_FOREIGN;
            if (random() % 200 == 0)
                pool.Trim(UINT64_MAX);
            ExpectSane(pool.Stats(), "in between");
            if (HasFatalFailure())
                return;
        }
        EXPECT_FALSE(is_odd);
        EXPECT_GT(pool.Stats().double_frees_found, 0u);
        pool.End();
    }
}

// One is refused, or counted when it leaves a cache; and no block is lost, nor one
// that lies beside it.
TEST_F(WrongFree, OfThreadsAtOnceLosesNothing)
{
    pool_test::SetCurrent(pool_test::PrimaryContext());
    for (size_t size_bytes : kSizes) {
        SCOPED_TRACE(size_bytes);
        Pool pool;
        Stream stream;
        std::vector<moiety_devptr> blocks;
        for (int i = 0; i < 40; i++)
            blocks.push_back(pool.Alloc(size_bytes, stream));
        std::atomic<uint64_t> taken{0}, refused{0}, ready{0};
        std::vector<std::thread> threads;
        for (int i = 0; i < 3; i++)
            threads.emplace_back([&] {
                for (size_t at = 0; at < blocks.size(); at++) {
                    for (ready++; ready < 3 * (at + 1);)
                        std::this_thread::yield();
                    moiety_status status =
                        moiety_free(pool, blocks[at], stream);
                    taken += status == MOIETY_OK;
                    refused += status == MOIETY_E_DOUBLE_FREE ||
                               status == MOIETY_E_INVALID;
                }
            });
        for (std::thread &thread : threads)
            thread.join();
        pool.TrimAll();
        EXPECT_EQ(3 * blocks.size(), taken + refused);
        EXPECT_EQ(taken, blocks.size() + pool.Stats().double_frees_found);
        EXPECT_EQ(0u, pool.Stats().allocation_current);
        EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
        ExpectSane(pool.Stats(), "after the trim");
    }
}

// The block is free, or the program's still; either way all memory comes back.
TEST_F(WrongFree, OnAStreamThatWasDestroyedLosesNothing)
{
    for (size_t size_bytes : kSizes) {
        SCOPED_TRACE(size_bytes);
        Pool pool;
        moiety_devptr block = 0, kept = 0;
        {
            Stream gone;
            block = pool.Alloc(size_bytes, gone);
            kept = pool.Alloc(size_bytes, gone);
            pool.Free(pool.Alloc(size_bytes, gone), gone);
            stream_ = gone;
        }
        if (moiety_free(pool, block, stream_) != MOIETY_OK)
            pool.Free(block, MOIETY_STREAM_ANY);
        pool.Free(kept, MOIETY_STREAM_ANY);
        pool.TrimAll();
        EXPECT_EQ(0u, pool.Stats().allocation_current);
        EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
        EXPECT_EQ(0u, pool.Stats().double_frees_found);
    }
}

// In place of a pool's flag.
constexpr uint32_t kNoCaches = UINT32_C(1) << 31;

// Addresses at random, of which none is a block's that lives or that a cache has: in
// blocks, in memory that was never served or is free, beside the pool's. Where there
// are caches, none in free memory is one at which a block could begin.
class WrongAddress : public ::testing::TestWithParam<uint32_t>
{
  protected:
    static constexpr size_t kBlocksMost = 60;

    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
        pool_test::SetCurrent(pool_test::PrimaryContext());
    }

    static moiety_pool_options Options()
    {
        moiety_pool_options options = Defaults();
        set_kind(&options, GetParam() & ~kNoCaches);
        options.limit_bytes = 64 * kMiB;
        if (GetParam() & kNoCaches)
            options.thread_cache_bytes = MOIETY_BYTES_NONE;
        return options;
    }

    static bool HasCaches()
    {
        return GetParam() == 0 || GetParam() == KIND_MAPPED;
    }

    // Whether one may be freed that is not live.
    bool MayBeCached(moiety_devptr address)
    {
        auto behind = live_.upper_bound(address);
        return HasCaches() && address % 512 == 0 &&
               (behind == live_.begin() ||
                std::prev(behind)->first + std::prev(behind)->second <=
                    address);
    }

    moiety_devptr Choose()
    {
        auto block = live_.begin();
        std::advance(block, random_() % live_.size());
        switch (random_() % 5) {
        case 0:
            return block->first + random_() % block->second;
        case 1:
            return block->first + (random_() % 64 - 32) * 512;
        case 2:
            return block->first + (random_() % 65536 - 32768) * 512;
        case 3:
            return block->first + random_() % (256 * kMiB) - 128 * kMiB;
        default:
            return random_() >> random_() % 64;
        }
    }

    // Returns whether it was taken, by any of the calls.
    bool IsTaken(moiety_devptr address)
    {
        moiety_stream stream = streams_[random_() % 2];
        size_t count = 0;
        moiety_status status = MOIETY_OK;
        switch (random_() % 5) {
        case 0:
            status = moiety_free_sized(*pool_, address, 512, stream);
            break;
        case 1:
            status = moiety_free_batch(*pool_, &address, 1, stream, &count);
            break;
        case 2:
            status = moiety_free_no_call(*pool_, address, stream);
            break;
        default:
            status = moiety_free(*pool_, address,
                                 random_() % 2 ? stream : MOIETY_STREAM_DONE);
        }
        return status != MOIETY_E_DOUBLE_FREE && status != MOIETY_E_INVALID &&
               status != MOIETY_E_FOREIGN && status != MOIETY_E_WOULD_BLOCK;
    }

    void Live()
    {
        if (live_.size() < 2 || (random_() % 2 && live_.size() < kBlocksMost)) {
            size_t bytes = 1 + random_() % (random_() % 3 ? 4 * kKiB : kMiB);
            moiety_devptr block = pool_->Alloc(bytes, streams_[random_() % 2]);
            live_[block] = pool_->UsableSize(block);
            return;
        }
        auto block = live_.begin();
        std::advance(block, random_() % live_.size());
        pool_->Free(block->first, streams_[random_() % 2]);
        live_.erase(block);
        if (random_() % 8 == 0)
            pool_->TrimAll();
    }

    std::mt19937_64 random_{34};
    std::map<moiety_devptr, size_t> live_;
    Stream streams_[2];
    Pool *pool_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Kinds, WrongAddress,
                         ::testing::Values(0, KIND_MAPPED, kNoCaches,
                                           kNoCaches | KIND_MAPPED,
                                           KIND_CHECKED |
                                               MOIETY_POOL_CHECKED_QUIET,
                                           KIND_PASS_THROUGH));

// WRONG_FREES=1000000: so many.
TEST_P(WrongAddress, IsNeverTaken)
{
    const char *given = std::getenv("WRONG_FREES");
    const unsigned long most = given ? std::strtoul(given, nullptr, 10) : 5000;
    Pool pool(Options());
    pool_ = &pool;
    unsigned long tried = 0, taken = 0;
    for (unsigned turn = 0; tried < most && !HasFatalFailure(); turn++) {
        if (turn % 16 == 0)
            Live();
        moiety_devptr address = Choose();
        if (!address || live_.count(address) || MayBeCached(address))
            continue;
        tried++;
        taken += IsTaken(address);
    }
    EXPECT_EQ(0u, taken) << "of " << tried;
    for (const auto &block : live_)
        pool.Free(block.first, MOIETY_STREAM_DONE);
    pool.TrimAll();
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
    EXPECT_EQ(0u, pool.Stats().double_frees_found);
}

} // namespace
