// SPDX-License-Identifier: Apache-2.0
//
// Every n-th call of the driver and of the host's memory fails once in the life
// of a private arena. Whatever the calls then answer: no block, no page and no
// scope is lost, and at the end everything is back.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "moiety/private.h"
#include "pool/driver/cuda_abi.h"
#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/failing_memory.h"
#include "tests/support/tools/pools.h"

namespace
{

using pool_test::kMiB;

constexpr unsigned kTooMany = 5000; // calls that the life below does not make

// Lets one call fail, of those that the product makes within a body.
using Fault = std::function<void(const std::function<void()> &)>;

class Life
{
  public:
    explicit Life(Fault fault) : fault_(fault) {}

    void Live()
    {
        fault_([&] {
            if (create_arena(pool_, 32 * kMiB, &arena_) != MOIETY_OK)
                arena_ = 0;
        });
        if (arena_ == 0)
            return;
        fault_([&] { Outside(); });
        for (int i = 0; i < 2; i++)
            CaptureOnce();
        fault_([&] { Outside(); });
        fault_([&] {
            if (moiety_private_destroy(arena_) == MOIETY_OK)
                arena_ = 0;
        });
    }

    // Nothing fails any more.
    void End()
    {
        FreeAll(MOIETY_STREAM_ANY);
        EXPECT_TRUE(blocks_.empty()) << moiety_last_error_message();
        if (arena_ != 0) {
            moiety_private_stats info = {};
            info.struct_size = sizeof info;
            EXPECT_OK(moiety_private_get_stats(arena_, &info));
            EXPECT_EQ(0u, info.live_count);
            EXPECT_EQ(0u, info.live_bytes);
            EXPECT_OK(moiety_private_destroy(arena_));
        }
        EXPECT_EQ(MOIETY_E_INVALID, moiety_capture_guard_end());
        pool_.TrimAll();
        EXPECT_EQ(0u, pool_.Stats().allocation_current);
        EXPECT_EQ(0u, pool_.Stats().allocated_bytes_current);
        EXPECT_EQ(0u, pool_.Stats().reserved_bytes_current);
    }

  private:
    void Take(size_t size_bytes, moiety_stream stream)
    {
        moiety_devptr block = 0;
        if (alloc_of_arena(arena_, size_bytes, stream, &block) != MOIETY_OK)
            return;
        EXPECT_EQ(0, std::count(blocks_.begin(), blocks_.end(), block));
        blocks_.push_back(block);
    }

    // What is refused stays.
    void FreeAll(moiety_stream stream)
    {
        std::vector<moiety_devptr> refused;
        for (moiety_devptr block : blocks_)
            if (moiety_free(pool_, block, stream) != MOIETY_OK)
                refused.push_back(block);
        blocks_ = refused;
    }

    void Outside()
    {
        uint64_t bytes = 0;
        for (size_t size_bytes : {size_t{700}, 3 * kMiB, kMiB / 2, 5 * kMiB})
            for (moiety_stream stream :
                 {moiety_stream(first_), moiety_stream(second_)})
                Take(size_bytes, stream);
        if (!blocks_.empty())
            (void)!moiety_record_use(pool_, blocks_.back(), second_);
        std::vector<moiety_devptr> before = blocks_;
        FreeAll(first_);
        for (moiety_devptr block : before)
            if (std::count(blocks_.begin(), blocks_.end(), block) == 0 &&
                moiety_private_claim(arena_, block, 512, first_) == MOIETY_OK)
                blocks_.push_back(block);
        Take(7 * kMiB, second_);
        FreeAll(MOIETY_STREAM_ANY);
        (void)!moiety_private_trim(arena_, &bytes);
    }

    void CaptureOnce()
    {
        moiety_scope scope = 0;
        bool is_open = false;
        fault_([&] {
            is_open =
                moiety_private_scope_begin(arena_, first_, &scope) == MOIETY_OK;
        });
        if (!is_open)
            return;
        Begin();
        fault_([&] {
            for (size_t size_bytes : {3 * kMiB, size_t{700}, 4 * kMiB})
                Take(size_bytes, first_);
            if (!blocks_.empty() &&
                moiety_free(pool_, blocks_.front(), first_) == MOIETY_OK)
                blocks_.erase(blocks_.begin());
            Take(kMiB, first_);
        });
        Finish();
        EXPECT_OK(moiety_scope_end(scope));
        fault_([&] { FreeAll(second_); });
    }

    void Begin()
    {
        auto *begin = pool_test::Get<CUresult(CUstream, CUstreamCaptureMode)>(
            "cuStreamBeginCapture_v2");
        ASSERT_EQ(CUDA_SUCCESS, begin(first_, CU_STREAM_CAPTURE_MODE_GLOBAL));
    }

    void Finish()
    {
        CUgraph graph = nullptr;
        auto *end =
            pool_test::Get<CUresult(CUstream, CUgraph *)>("cuStreamEndCapture");
        auto *destroy = pool_test::Get<CUresult(CUgraph)>("cuGraphDestroy");
        ASSERT_EQ(CUDA_SUCCESS, end(first_, &graph));
        ASSERT_EQ(CUDA_SUCCESS, destroy(graph));
    }

    Fault fault_;
    pool_test::Stream first_, second_;
    pool_test::Pool pool_;
    moiety_private arena_ = 0;
    std::vector<moiety_devptr> blocks_;
};

class PrivateFault : public pool_test::StandinTest
{
  protected:
    void ExpectDriverFaultsAreSurvived(const std::string &code)
    {
        bool is_over = false;
        unsigned n = 0;
        while (!is_over && !HasFailure() && n < kTooMany) {
            SCOPED_TRACE("call " + std::to_string(++n));
            uint64_t calls = 0;
            Life life([&](const std::function<void()> &body) {
                uint64_t before = pool_test::Calls();
                if (calls < n)
                    pool_test::SetFaults("*:nth=" + std::to_string(n - calls) +
                                         ":code=" + code);
                body();
                pool_test::SetFaults("");
                calls += pool_test::Calls() - before;
            });
            life.Live();
            life.End();
            is_over = calls < n;
        }
        EXPECT_LT(n, kTooMany);
        EXPECT_GT(n, 100u);
        std::printf("%u calls, each failed once\n", n - 1);
    }
};

TEST_F(PrivateFault, EveryCallOfTheDriver)
{
    ExpectDriverFaultsAreSurvived("CUDA_ERROR_UNKNOWN");
}

TEST_F(PrivateFault, EveryCallOfTheDriverByExhaustion)
{
    ExpectDriverFaultsAreSurvived("CUDA_ERROR_OUT_OF_MEMORY");
}

TEST_F(PrivateFault, EveryAllocationOfHostMemory)
{
    bool is_over = false;
    unsigned n = 0;
    while (!is_over && !HasFailure() && n < kTooMany) {
        SCOPED_TRACE("allocation " + std::to_string(++n));
        bool is_armed = false;
        Life life([&](const std::function<void()> &body) {
            if (!is_armed)
                failing_memory_arm(n);
            is_armed = true;
            body();
        });
        life.Live();
        is_over = failing_memory_disarm();
        life.End();
    }
    EXPECT_LT(n, kTooMany);
    EXPECT_GT(n, 20u);
    std::printf("%u allocations, each failed once\n", n - 1);
}

} // namespace
