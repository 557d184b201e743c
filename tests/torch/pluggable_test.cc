// SPDX-License-Identifier: Apache-2.0
//
// The functions of the reduced plug-in, called as PyTorch calls them: with a
// std::pair and a std::function, through pointers of its types.
#include "emm/pluggable/plugin.h"

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/pool/pool_under_test.h"

namespace torch_test
{
namespace
{

using pool_test::kMiB;
using PoolId = std::pair<unsigned long long, unsigned long long>;
using Filter = std::function<bool(void *)>;
using Begin = void(int, PoolId, Filter);
using End = void(int, PoolId);

const PoolId kGraphs = {0, 7};
constexpr unsigned kGlobalCapture = 0;

class Pluggable : public pool_test::StandinTest
{
  protected:
    // Nothing is left in the pool. The process's end would leave its events.
    static void TearDownTestSuite()
    {
        moiety_leaks leaks = {};
        leaks.struct_size = sizeof(leaks);
        EXPECT_OK(moiety_pool_destroy(AnyPool(), &leaks));
        EXPECT_EQ(0U, leaks.block_count);
    }
    // That of device 0.
    static moiety_pool *AnyPool()
    {
        moiety_pool *pool = nullptr;
        void *block = moiety_pluggable_alloc(kMiB, 0, nullptr);
        EXPECT_OK(moiety_pool_of(reinterpret_cast<uintptr_t>(block), &pool));
        moiety_pluggable_free(block, kMiB, 0, nullptr);
        return pool;
    }
    static moiety_pool_stats Stats(moiety_pool *pool)
    {
        moiety_pool_stats stats = {};
        stats.struct_size = sizeof(stats);
        EXPECT_OK(moiety_pool_get_stats(pool, &stats));
        return stats;
    }
};

TEST_F(Pluggable, FreedBlocksServeTheirStream)
{
    void *first = moiety_pluggable_alloc(kMiB, 0, nullptr);
    moiety_pluggable_free(first, kMiB, 0, nullptr);
    void *second = moiety_pluggable_alloc(kMiB, 0, nullptr);
    EXPECT_EQ(first, second);
    moiety_pluggable_free(second, kMiB, 0, nullptr);
}

TEST_F(Pluggable, NothingIsNowhere)
{
    EXPECT_EQ(nullptr, moiety_pluggable_alloc(0, 0, nullptr));
    moiety_pluggable_free(nullptr, 0, 0, nullptr);
}

std::string ThrownBy(const std::function<void()> &call)
{
    try {
        call();
    } catch (const std::runtime_error &error) {
        return error.what();
    }
    return "nothing";
}

TEST_F(Pluggable, OutOfMemoryIsThrownInPyTorchsWords)
{
    std::string text =
        ThrownBy([] { moiety_pluggable_alloc(SIZE_MAX / 4, 0, nullptr); });
    EXPECT_EQ(0U, text.find("CUDA out of memory. Tried to allocate ")) << text;
    EXPECT_NE(std::string::npos, text.find("Moiety: ")) << text;
}

TEST_F(Pluggable, ADeviceThatIsNotThereIsThrown)
{
    for (int device : {-1, 63, MOIETY_PLUGGABLE_DEVICES_MAX})
        EXPECT_EQ(0U, ThrownBy([device] {
                          moiety_pluggable_alloc(kMiB, device, nullptr);
                      }).find("Moiety: no memory for a tensor: "));
}

TEST_F(Pluggable, ResetGivesMemoryBack)
{
    moiety_pool *pool = AnyPool();
    void *block = moiety_pluggable_alloc(64 * kMiB, 0, nullptr);
    moiety_pluggable_free(block, 64 * kMiB, 0, nullptr);
    uint64_t before = Stats(pool).reserved_bytes_current;
    moiety_pluggable_reset();
    EXPECT_LT(Stats(pool).reserved_bytes_current, before);
}

TEST_F(Pluggable, AFractionLimitsThePool)
{
    moiety_pool *pool = AnyPool();
    uint64_t whole = Stats(pool).limit_bytes;
    moiety_caps caps = {};
    caps.struct_size = sizeof(caps);
    ASSERT_OK(moiety_probe(0, &caps));
    moiety_pluggable_memory_fraction(0.25, 0);
    EXPECT_EQ(caps.total_memory_bytes / 4, Stats(pool).limit_bytes);
    moiety_pluggable_memory_fraction(1, 0);
    EXPECT_EQ(whole, Stats(pool).limit_bytes);
}

TEST_F(Pluggable, ABlockIsInItsSegment)
{
    auto *block = static_cast<char *>(moiety_pluggable_alloc(kMiB, 0, nullptr));
    size_t bytes = 0;
    auto *base =
        static_cast<char *>(moiety_pluggable_base_alloc(block, &bytes));
    EXPECT_LE(base, block);
    EXPECT_GE(base + bytes, block + kMiB);
    EXPECT_EQ(base, moiety_pluggable_base_alloc(block, nullptr));
    moiety_pluggable_free(block, kMiB, 0, nullptr);
    EXPECT_EQ(0U, ThrownBy([] {
                      size_t size;
                      moiety_pluggable_base_alloc(&size, &size);
                  }).find("Moiety: the block's segment is not known: "));
}

TEST_F(Pluggable, ARecordedStreamKeepsTheBlock)
{
    pool_test::Stream own;
    pool_test::Stream other;
    void *block = moiety_pluggable_alloc(kMiB, 0, own);
    other.Hold();
    moiety_pluggable_record_stream(block, other);
    moiety_pluggable_free(block, kMiB, 0, own);
    void *next = moiety_pluggable_alloc(kMiB, 0, own);
    EXPECT_NE(block, next);
    other.Release();
    moiety_pluggable_free(next, kMiB, 0, own);
    int of_others = 0;
    moiety_pluggable_record_stream(&of_others, own);
}

// As PyTorch has a function: its address, through Python.
template <typename Function, typename Own> Function *PyTorchs(Own *function)
{
    return reinterpret_cast<Function *>(reinterpret_cast<uintptr_t>(function));
}

// As torch.cuda.graph() captures one: what it allocates, uses and frees.
class Graph
{
  public:
    explicit Graph(size_t size_bytes)
    {
        auto *begin = PyTorchs<Begin>(&moiety_pluggable_begin_allocate_to_pool);
        auto *end = PyTorchs<End>(&moiety_pluggable_end_allocate_to_pool);
        void *graph = nullptr;
        begin(0, kGraphs, [](void *) { return true; });
        EXPECT_EQ(0, pool_test::Get<int(void *, unsigned)>(
                         "cuStreamBeginCapture_v2")(stream_, kGlobalCapture));
        block_ = moiety_pluggable_alloc(size_bytes, 0, stream_);
        moiety_pluggable_free(block_, size_bytes, 0, stream_);
        EXPECT_EQ(0, pool_test::Get<int(void *, void **)>("cuStreamEndCapture")(
                         stream_, &graph));
        end(0, kGraphs);
        EXPECT_EQ(0, pool_test::Get<int(void *)>("cuGraphDestroy")(graph));
    }
    void Reset()
    {
        PyTorchs<End> (&moiety_pluggable_release_pool)(0, kGraphs);
    }
    void *block() const
    {
        return block_;
    }

  private:
    pool_test::Stream stream_;
    void *block_ = nullptr;
};

bool IsServed(void *block, size_t size_bytes)
{
    std::vector<void *> taken;
    bool is_served = false;
    for (int i = 0; i < 64; i++) {
        taken.push_back(moiety_pluggable_alloc(size_bytes, 0, nullptr));
        is_served = is_served || taken.back() == block;
    }
    for (void *one : taken)
        moiety_pluggable_free(one, size_bytes, 0, nullptr);
    return is_served;
}

TEST_F(Pluggable, WhatGraphsUseIsKeptUntilTheLastIsReset)
{
    moiety_pool *pool = AnyPool();
    uint64_t before = Stats(pool).allocated_bytes_current;
    Graph first(3 * kMiB);
    Graph second(5 * kMiB);
    EXPECT_FALSE(IsServed(first.block(), 3 * kMiB));
    first.Reset();
    EXPECT_FALSE(IsServed(first.block(), 3 * kMiB));
    EXPECT_FALSE(IsServed(second.block(), 5 * kMiB));
    EXPECT_EQ(8 * kMiB, Stats(pool).allocated_bytes_current - before);
    second.Reset();
    EXPECT_EQ(before, Stats(pool).allocated_bytes_current);
    second.Reset(); // once more than it was begun
}

} // namespace
} // namespace torch_test
