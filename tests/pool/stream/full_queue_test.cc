// SPDX-License-Identifier: Apache-2.0
//
// A stream that is held and takes no more work, and a thread that is blocked
// launching on it: whose calls of the pool go on meanwhile.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

constexpr unsigned kBlocks = 30;
// A call that takes so long is blocked, on a busy machine too.
constexpr std::chrono::seconds kLong(200);

// What a call returned, or that it is blocked: then the stream is let go, so
// that the test ends.
class Call
{
  public:
    template <typename Function>
    explicit Call(Function function)
        : status_(std::async(std::launch::async, [function] {
              pool_test::SetCurrent(pool_test::PrimaryContext());
              return function();
          }))
    {
    }
    bool HasReturned()
    {
        return status_.wait_for(kLong) == std::future_status::ready;
    }
    moiety_status Status()
    {
        return status_.get();
    }

  private:
    std::future<moiety_status> status_;
};

// A pool whose memory was freed half on a stream that is full and half on one
// that is idle.
class FullQueue : public StandinTest
{
  protected:
    static moiety_pool_options Small(uint32_t wait_ms)
    {
        moiety_pool_options options = Defaults();
        options.limit_bytes = options.first_segment_bytes = 64 * kMiB;
        options.wait_ms = wait_of(wait_ms);
        return options;
    }

    void Prepare(Pool &pool)
    {
        std::vector<moiety_devptr> of_full, of_idle;
        for (unsigned i = 0; i < kBlocks; i++) {
            of_full.push_back(pool.Alloc(kMiB, full_));
            of_idle.push_back(pool.Alloc(kMiB, idle_));
        }
        word_ = of_full.back();
        full_.Hold();
        Fill();
        // Nothing else is free.
        while (alloc_no_wait(pool, 512 * 1024, next_, &address_) == MOIETY_OK)
            rest_.push_back(address_);
        for (unsigned i = 0; i < kBlocks; i++) {
            pool.Free(of_full[i], full_);
            pool.Free(of_idle[i], idle_);
        }
    }
    // Also where a test has failed.
    void TearDown() override
    {
        GoOn();
    }
    void End(Pool &pool)
    {
        GoOn();
        for (moiety_devptr block : rest_)
            pool.Free(block, next_);
    }
    void GoOn()
    {
        if (!launcher_.joinable())
            return;
        is_over_ = true;
        full_.Release();
        launcher_.join();
    }
    bool IsFull() const
    {
        return !is_launched_;
    }
    void ExpectReturns(moiety_status want, Call call)
    {
        bool has_returned = call.HasReturned();
        EXPECT_TRUE(has_returned);
        EXPECT_TRUE(IsFull());
        if (!has_returned)
            GoOn();
        EXPECT_EQ(want, call.Status()) << moiety_last_error_message();
    }

    Stream full_, idle_, next_;
    moiety_devptr address_ = 0;
    std::vector<moiety_devptr> rest_;

  private:
    // Launches until it blocks: an operation more than the queue takes.
    void Fill()
    {
        using Memset = int(moiety_devptr, unsigned char, size_t, moiety_stream);
        static Memset *const memset_async = Get<Memset>("cuMemsetD8Async");
        launcher_ = std::thread([this] {
            pool_test::SetCurrent(pool_test::PrimaryContext());
            int code = 0;
            for (; !is_over_ && code == 0; launches_++)
                code = memset_async(word_, 1, 16, full_);
            EXPECT_EQ(0, code);
            is_launched_ = true;
        });
        auto count = Get<int64_t(const char *)>("moiety_standin_live");
        while (count("blocked") == 0)
            std::this_thread::yield();
    }

    std::atomic<bool> is_over_{false}, is_launched_{false};
    std::atomic<unsigned> launches_{0};
    std::thread launcher_;
    moiety_devptr word_ = 0;
};

TEST_F(FullQueue, BlocksNobodyWhoTries)
{
    Pool pool(Small(1000));
    Prepare(pool);
    ExpectReturns(MOIETY_E_WOULD_BLOCK, Call([&] {
                      return alloc_no_wait(pool, kMiB, next_, &address_);
                  }));
    End(pool);
}

TEST_F(FullQueue, BlocksNoFree)
{
    Pool pool(Small(1000));
    moiety_devptr block = pool.Alloc(4096, full_);
    moiety_devptr large = pool.Alloc(2 * kMiB, full_);
    Prepare(pool);
    ExpectReturns(MOIETY_OK,
                  Call([&] { return moiety_free(pool, block, full_); }));
    ExpectReturns(MOIETY_OK,
                  Call([&] { return moiety_free(pool, large, full_); }));
    End(pool);
}

TEST_F(FullQueue, BlocksNobodyWhomItsOwnStreamServes)
{
    Pool pool(Small(1000));
    Prepare(pool);
    ExpectReturns(MOIETY_OK, Call([&] {
                      return moiety_alloc(pool, 700 * 1024, idle_, &address_);
                  }));
    pool.Free(address_, idle_);
    End(pool);
}

// Its events are created, which waits for the launcher; nobody else does.
TEST_F(FullQueue, OfAContextThatIsAddedBlocksNobodyElse)
{
    moiety_context other = pool_test::NewContext();
    pool_test::SetCurrent(pool_test::PrimaryContext());
    moiety_pool_options options = Small(0);
    options.context = other;
    {
        Pool pool(Small(1000)), of_other(options);
        Prepare(pool);
        uint64_t before = pool_test::Calls("cuEventCreate");
        Call adder([&] {
            return moiety_pool_add_context(of_other,
                                           pool_test::PrimaryContext());
        });
        while (pool_test::Calls("cuEventCreate") == before)
            std::this_thread::yield();
        ExpectReturns(MOIETY_OK, Call([&] {
                          moiety_pool_stats stats = {};
                          stats.struct_size = sizeof(stats);
                          return moiety_pool_get_stats(of_other, &stats);
                      }));
        End(pool);
        EXPECT_OK(adder.Status());
    }
    pool_test::DestroyContext(other);
}

} // namespace
