// SPDX-License-Identifier: Apache-2.0
//
// Every n-th call of the driver and of the host's memory fails once in a life
// of a pool that is checked, that passes all through, or both. Nobody is blamed
// for that, no block is lost or given out twice, and at the end everything is
// back where it came from.
#include <cstdio>
#include <string>
#include <vector>

#include "tests/checked/checked_under_test.h"
#include "tests/support/tools/failing_memory.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace checked_test;

using pool_test::Live;

constexpr unsigned kTooMany = 20000; // calls that no life below makes

struct Block {
    moiety_devptr address;
    size_t size_bytes;
};

class Life
{
  public:
    explicit Life(uint32_t flags) : event_(pool_test::NewEvent())
    {
        set_kind(&options_, flags);
        options_.limit_bytes = 16 * kMiB;
        options_.first_segment_bytes = 4 * kMiB;
        options_.quarantine_bytes = 64 * kKiB;
    }

    ~Life()
    {
        pool_test::DestroyEvent(event_);
    }

    void Run()
    {
        if (!pool_)
            (void)!moiety_pool_create(&options_, &pool_);
        if (!pool_)
            return;
        for (moiety_stream stream : {static_cast<moiety_stream>(stream_),
                                     kStream, MOIETY_STREAM_PER_THREAD,
                                     MOIETY_STREAM_ANY, MOIETY_STREAM_DONE}) {
            for (size_t size_bytes : {size_t{40}, 20 * kKiB})
                Alloc(size_bytes, stream);
            FreeAll(stream);
        }
        Alloc(kMiB + 512, stream_);
        OfATenant();
        FreeAll(stream_);
        Marked();
        (void)!moiety_pool_retire_stream(pool_, stream_);
        (void)!moiety_pool_trim(pool_, 0, nullptr);
    }

    void ExpectHealth()
    {
        if (!pool_) {
            ASSERT_OK(moiety_pool_create(&options_, &pool_));
        }
        for (const Block &block : blocks_)
            EXPECT_OK(moiety_free(pool_, block.address, MOIETY_STREAM_ANY));
        blocks_.clear();
        // Nothing is charged any more.
        EXPECT_OK(moiety_tenant_destroy(tenant_));
        tenant_ = 0;
        pool_test::Synchronize();
        if (is_checked_mode(&options_)) {
            // The first look may record the event that is waited for.
            (void)Check(pool_);
            pool_test::Synchronize();
            moiety_checked_counts counts = Check(pool_);
            EXPECT_EQ(0u, Findings(counts));
            EXPECT_EQ(0u, counts.live_blocks);
            EXPECT_EQ(0u, counts.held_blocks);
        }
        EXPECT_OK(moiety_pool_trim(pool_, 0, nullptr));
        moiety_pool_stats stats = {};
        stats.struct_size = sizeof(stats);
        EXPECT_OK(moiety_pool_get_stats(pool_, &stats));
        EXPECT_EQ(0u, stats.reserved_bytes_current);
        EXPECT_EQ(0u, stats.allocation_current);
    }

    void End()
    {
        moiety_leaks leaks = {};
        leaks.struct_size = sizeof(leaks);
        (void)!moiety_pool_destroy(pool_, &leaks);
        EXPECT_EQ(0u, leaks.block_count);
        pool_ = nullptr;
    }

  private:
    // Nobody's, unless `tenant` is somebody.
    void Alloc(size_t size_bytes, moiety_stream stream,
               moiety_tenant tenant = 0)
    {
        moiety_devptr address = 77;
        moiety_status status =
            tenant ? alloc_for_tenant(tenant, size_bytes, stream, &address)
                   : moiety_alloc(pool_, size_bytes, stream, &address);
        if (status != MOIETY_OK) {
            EXPECT_EQ(77u, address);
            return;
        }
        EXPECT_TRUE(ranges_.Add(address, size_bytes));
        blocks_.push_back({address, size_bytes});
    }

    void FreeAll(moiety_stream stream)
    {
        std::vector<Block> kept;
        for (const Block &block : blocks_) {
            ranges_.Remove(block.address);
            if (moiety_free(pool_, block.address, stream) == MOIETY_OK)
                continue;
            EXPECT_TRUE(ranges_.Add(block.address, block.size_bytes));
            kept.push_back(block);
        }
        blocks_ = kept;
    }

    void OfATenant()
    {
        if (create_tenant(pool_, "one", kMiB, &tenant_) == MOIETY_OK)
            Alloc(4000, stream_, tenant_);
    }

    // With a second user, and after an event.
    void Marked()
    {
        Alloc(4096, stream_);
        for (const Block &block : blocks_)
            (void)!moiety_record_use(pool_, block.address, user_);
        FreeAll(stream_);
        Alloc(4096, stream_);
        if (blocks_.empty())
            return;
        Block block = blocks_.back();
        blocks_.pop_back();
        ranges_.Remove(block.address);
        if (moiety_free_on_event(pool_, block.address, event_) != MOIETY_OK) {
            EXPECT_TRUE(ranges_.Add(block.address, block.size_bytes));
            blocks_.push_back(block);
        }
    }

    moiety_pool_options options_ = pool_test::Defaults();
    moiety_pool *pool_ = nullptr;
    moiety_tenant tenant_ = 0;
    Stream stream_, user_;
    moiety_event event_;
    pool_test::Ranges ranges_;
    std::vector<Block> blocks_;
};

class CheckedFault : public ::testing::TestWithParam<uint32_t>
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }

    void SetUp() override
    {
        allocations_ = Live("allocations");
        events_ = Live("events");
    }

    // An event whose destruction was refused is left.
    void ExpectNothingLeft()
    {
        EXPECT_EQ(allocations_, Live("allocations"));
        EXPECT_LE(Live("events"), events_ + 1);
        events_ = Live("events");
        EXPECT_EQ(pool_test::PrimaryContext(), pool_test::Current());
    }

    void FailEachDriverCall(bool at_the_end)
    {
        unsigned n = 0;
        uint64_t calls = 0;
        do {
            SCOPED_TRACE("call " + std::to_string(++n));
            {
                Life life(GetParam());
                if (at_the_end)
                    life.Run();
                uint64_t before = pool_test::Calls();
                pool_test::SetFaults("*:nth=" + std::to_string(n) +
                                     ":code=CUDA_ERROR_UNKNOWN");
                at_the_end ? life.End() : life.Run();
                pool_test::SetFaults("");
                calls = pool_test::Calls() - before;
                if (!at_the_end) {
                    life.ExpectHealth();
                    life.End();
                }
            }
            ExpectNothingLeft();
        } while (n <= calls && n < kTooMany && !HasFailure());
        EXPECT_LT(n, kTooMany);
        std::printf("%u calls, each failed once\n", n - 1);
    }

  private:
    int64_t allocations_, events_;
};

TEST_P(CheckedFault, OfEveryCallOfTheDriver)
{
    FailEachDriverCall(false);
}

TEST_P(CheckedFault, OfEveryCallOfTheDriverAtTheEnd)
{
    FailEachDriverCall(true);
}

TEST_P(CheckedFault, OfEveryAllocationOfHostMemory)
{
    bool is_over = false;
    unsigned n = 0;
    while (!is_over && n < kTooMany && !HasFailure()) {
        SCOPED_TRACE("allocation " + std::to_string(++n));
        {
            Life life(GetParam());
            failing_memory_arm(n);
            life.Run();
            is_over = failing_memory_disarm();
            life.ExpectHealth();
            life.End();
        }
        ExpectNothingLeft();
    }
    EXPECT_LT(n, kTooMany);
    std::printf("%u allocations, each failed once\n", n - 1);
}

INSTANTIATE_TEST_SUITE_P(Pools, CheckedFault, EachKind(), NameOfKind);

} // namespace
