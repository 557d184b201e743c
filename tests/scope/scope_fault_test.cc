// SPDX-License-Identifier: Apache-2.0
//
// Every n-th call of the driver and of the host's memory fails once in the life
// of scopes. Whatever the calls then answer: no scope and no block is lost, and
// at the end everything is back.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "moiety/checked.h"
#include "moiety/scope.h"
#include "pool/driver/cuda_abi.h"
#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/failing_memory.h"

namespace
{

constexpr unsigned kTooMany = 5000; // calls that the life below does not make
constexpr size_t kBytes = 4096;
constexpr int kFewBlocks = 20;
constexpr int kBlocks = 70; // more than a table begins with

// What the tests do themselves with the driver; it never fails.
struct Capture {
    explicit Capture(CUstream stream) : stream_(stream)
    {
        Get("cuStreamBeginCapture_v2", [&](void *entry) {
            return reinterpret_cast<CUresult (*)(CUstream,
                                                 CUstreamCaptureMode)>(entry)(
                stream_, CU_STREAM_CAPTURE_MODE_GLOBAL);
        });
    }

    ~Capture()
    {
        CUgraph graph = nullptr;
        Get("cuStreamEndCapture", [&](void *entry) {
            return reinterpret_cast<CUresult (*)(CUstream, CUgraph *)>(entry)(
                stream_, &graph);
        });
        Get("cuGraphDestroy", [&](void *entry) {
            return reinterpret_cast<CUresult (*)(CUgraph)>(entry)(graph);
        });
    }

    template <typename Call> static void Get(const char *name, Call call)
    {
        EXPECT_EQ(CUDA_SUCCESS, call(pool_test::Symbol(name))) << name;
    }

    CUstream stream_;
};

// Lets one call fail, of those that the product makes between Begin() and End().
class Fault
{
  public:
    virtual ~Fault() = default;
    virtual void Begin() = 0;
    virtual void End() = 0;
};

class DriverFault : public Fault
{
  public:
    DriverFault(unsigned n, const char *code) : n_(n), code_(code) {}

    void Begin() override
    {
        before_ = pool_test::Calls();
        if (calls_ < n_)
            pool_test::SetFaults("*:nth=" + std::to_string(n_ - calls_) +
                                 ":code=" + code_);
    }

    void End() override
    {
        pool_test::SetFaults("");
        calls_ += pool_test::Calls() - before_;
    }

    bool is_over() const
    {
        return calls_ < n_;
    }

  private:
    const uint64_t n_;
    const char *code_;
    uint64_t calls_ = 0, before_ = 0;
};

// The tests themselves take none that is counted.
class MemoryFault : public Fault
{
  public:
    explicit MemoryFault(unsigned n) : n_(n) {}

    void Begin() override
    {
        if (n_ != 0)
            failing_memory_arm(n_);
        n_ = 0;
    }

    void End() override {}

  private:
    unsigned n_; // 0: it is armed
};

class Scopes
{
  public:
    Scopes(Fault *fault, int block_count)
        : fault_(fault), block_count_(block_count)
    {
    }

    void Live()
    {
        Call([&] {
            is_open_ = moiety_scope_begin(pool_, stream_, &scope_) == MOIETY_OK;
        });
        {
            Capture capture(stream_);
            Call([&] { DuringTheCapture(); });
        }
        Call([&] { AfterTheCapture(); });
    }

    // Nothing fails any more.
    void End()
    {
        if (is_open_) {
            EXPECT_OK(moiety_scope_end(scope_));
        }
        if (scope_ != 0) {
            EXPECT_OK(moiety_scope_release(scope_));
        }
        while (!blocks_.empty() && Free(MOIETY_STREAM_ANY)) {
        }
        EXPECT_TRUE(blocks_.empty()) << moiety_last_error_message();
        EXPECT_EQ(MOIETY_E_INVALID, moiety_capture_guard_end());
        ExpectNobodyIsBlamed();
        pool_.TrimAll();
        EXPECT_EQ(pool_.Stats().allocated_bytes_current, 0u);
        EXPECT_EQ(pool_.Stats().reserved_bytes_current, 0u);
    }

  private:
    template <typename Body> void Call(const Body &body)
    {
        fault_->Begin();
        body();
        fault_->End();
    }

    // Where the pool is checked.
    void ExpectNobodyIsBlamed()
    {
        moiety_checked_counts counts = {};
        counts.struct_size = sizeof counts;
        pool_test::Synchronize();
        (void)!moiety_pool_check(pool_, &counts);
        EXPECT_EQ(counts.double_frees + counts.interior_frees +
                      counts.foreign_frees + counts.wrong_sizes +
                      counts.dead_streams + counts.foreign_streams +
                      counts.writes_after_free + counts.writes_out_of_bounds,
                  0u);
        EXPECT_EQ(counts.live_blocks, 0u);
    }

    void DuringTheCapture()
    {
        for (int i = 0; i < block_count_; i++)
            Take();
        while (blocks_.size() > 10 && Free(stream_)) {
        }
        for (int i = 0; i < 20; i++)
            Take();
    }

    void AfterTheCapture()
    {
        while (blocks_.size() > 5 && Free(MOIETY_STREAM_LEGACY)) {
        }
        if (is_open_ && moiety_scope_end(scope_) == MOIETY_OK)
            is_open_ = false;
        if (scope_ != 0 && !is_open_ &&
            moiety_scope_release(scope_) == MOIETY_OK)
            scope_ = 0;
        while (!blocks_.empty() && Free(stream_)) {
        }
    }

    void Take()
    {
        moiety_devptr block = 0;
        if (moiety_alloc(pool_, kBytes, stream_, &block) != MOIETY_OK)
            return;
        EXPECT_EQ(std::count(blocks_.begin(), blocks_.end(), block), 0);
        blocks_.push_back(block);
    }

    // The last one; false if it was refused.
    bool Free(moiety_stream stream)
    {
        if (moiety_free(pool_, blocks_.back(), stream) != MOIETY_OK)
            return false;
        blocks_.pop_back();
        return true;
    }

    Fault *fault_;
    int block_count_;
    pool_test::Stream stream_;
    pool_test::Pool pool_;
    moiety_scope scope_ = 0;
    bool is_open_ = false;
    std::vector<moiety_devptr> blocks_;
};

class ScopeFault : public pool_test::StandinTest
{
  protected:
    void SetUp() override
    {
        allocations_ = pool_test::Live("allocations");
    }

    void ExpectNothingLeft()
    {
        EXPECT_EQ(allocations_, pool_test::Live("allocations"));
        EXPECT_EQ(pool_test::PrimaryContext(), pool_test::Current());
    }

    void ExpectDriverFaultsAreSurvived(const char *code)
    {
        bool is_over = false;
        unsigned n = 0;
        while (!is_over && !HasFailure() && n < kTooMany) {
            SCOPED_TRACE("call " + std::to_string(++n));
            {
                DriverFault fault(n, code);
                Scopes scopes(&fault, kFewBlocks);
                scopes.Live();
                scopes.End();
                is_over = fault.is_over();
            }
            ExpectNothingLeft();
        }
        EXPECT_LT(n, kTooMany);
        EXPECT_GT(n, 100u);
        std::printf("%u calls, each failed once\n", n - 1);
    }

    int64_t allocations_ = 0;
};

TEST_F(ScopeFault, EveryCallOfTheDriver)
{
    ExpectDriverFaultsAreSurvived("CUDA_ERROR_UNKNOWN");
}

TEST_F(ScopeFault, EveryCallOfTheDriverByExhaustion)
{
    ExpectDriverFaultsAreSurvived("CUDA_ERROR_OUT_OF_MEMORY");
}

TEST_F(ScopeFault, EveryAllocationOfHostMemory)
{
    bool is_over = false;
    unsigned n = 0;
    while (!is_over && !HasFailure() && n < kTooMany) {
        SCOPED_TRACE("allocation " + std::to_string(++n));
        {
            MemoryFault fault(n);
            Scopes scopes(&fault, kBlocks);
            scopes.Live();
            is_over = failing_memory_disarm();
            scopes.End();
        }
        ExpectNothingLeft();
    }
    EXPECT_LT(n, kTooMany);
    EXPECT_GT(n, static_cast<unsigned>(kBlocks));
    std::printf("%u allocations, each failed once\n", n - 1);
}

} // namespace
