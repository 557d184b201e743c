// SPDX-License-Identifier: Apache-2.0
//
// A pool as TensorRT's allocator, called by its interface as TensorRT calls it.
#include "moiety/stacks/tensorrt.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <type_traits>
#include <vector>

#include "tests/pool/pool_under_test.h"
namespace
{

using namespace pool_test;

static_assert(
    std::is_base_of_v<nvinfer1::IGpuAllocator, moiety::tensorrt_allocator>);
static_assert(
    std::is_nothrow_constructible_v<moiety::tensorrt_allocator, moiety_pool *>);

class TensorRt : public StandinTest
{
  protected:
    static moiety_pool_options Options()
    {
        moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
        options.limit_bytes = 64 * kMiB;
        options.wait_ms = MOIETY_WAIT_NONE;
        return options;
    }
    bool IsTheirs(void *memory)
    {
        moiety_pool *found = nullptr;
        return moiety_pool_of(reinterpret_cast<moiety_devptr>(memory),
                              &found) == MOIETY_OK &&
               found == pool_.get();
    }
    uint64_t Live()
    {
        return pool_.stats().allocation_current;
    }
    pool_test::Stream stream_;
    moiety::pool pool_{Options()};
    moiety::tensorrt_allocator own_{pool_};
    nvinfer1::IGpuAsyncAllocator &trt_ = own_;
};

TEST_F(TensorRt, MemoryComesFromThePoolAndGoesBack)
{
    void *memory = trt_.allocateAsync(5000, 256, 0, stream_);
    EXPECT_TRUE(IsTheirs(memory));
    EXPECT_EQ(1u, Live());
    EXPECT_TRUE(trt_.deallocateAsync(memory, stream_));
    EXPECT_EQ(0u, Live());
}

TEST_F(TensorRt, NothingIsANullPointer)
{
    EXPECT_EQ(nullptr, trt_.allocateAsync(0, 256, 0, stream_));
    EXPECT_TRUE(trt_.deallocateAsync(nullptr, stream_));
    EXPECT_EQ(nullptr, trt_.reallocate(nullptr, 0, 512));
}

TEST_F(TensorRt, AlignmentIsKept)
{
    std::vector<void *> blocks;
    for (uint64_t alignment : {uint64_t{0}, uint64_t{1}, 4 * kKiB, 2 * kMiB}) {
        void *memory = trt_.allocateAsync(512, alignment, 0, stream_);
        ASSERT_NE(nullptr, memory);
        EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(memory) %
                          (alignment ? alignment : 1));
        blocks.push_back(memory);
    }
    EXPECT_EQ(nullptr, trt_.allocateAsync(512, 3, 0, stream_));
    for (void *memory : blocks)
        EXPECT_TRUE(trt_.deallocateAsync(memory, stream_));
}

TEST_F(TensorRt, OutOfMemoryIsANullPointer)
{
    void *memory = trt_.allocateAsync(48 * kMiB, 256, 0, stream_);
    ASSERT_NE(nullptr, memory);
    EXPECT_EQ(nullptr, trt_.allocateAsync(48 * kMiB, 256, 0, stream_));
    EXPECT_EQ(nullptr, trt_.allocateAsync(kGiB, 256, 0, stream_));
    EXPECT_NE('\0', moiety_last_error_message()[0]);
    EXPECT_TRUE(trt_.deallocateAsync(memory, stream_));
}

TEST_F(TensorRt, WhatIsNotThePoolsIsNotFreed)
{
    int own = 0;
    EXPECT_FALSE(trt_.deallocateAsync(&own, stream_));
}

TEST_F(TensorRt, FreesAreInTheOrderOfTheirStream)
{
    pool_test::Stream other;
    void *memory = trt_.allocateAsync(5000, 256, 0, stream_);
    stream_.Hold();
    EXPECT_TRUE(trt_.deallocateAsync(memory, stream_));
    void *elsewhere = trt_.allocateAsync(5000, 256, 0, other);
    EXPECT_NE(memory, elsewhere);
    EXPECT_EQ(memory, trt_.allocateAsync(5000, 256, 0, stream_));
    stream_.Release();
    EXPECT_TRUE(trt_.deallocateAsync(memory, stream_));
    EXPECT_TRUE(trt_.deallocateAsync(elsewhere, other));
}

TEST_F(TensorRt, ANullStreamIsTheLegacyOne)
{
    void *memory = trt_.allocateAsync(5000, 256, 0, nullptr);
    EXPECT_TRUE(trt_.deallocateAsync(memory, nullptr));
    moiety_devptr again = 0;
    ASSERT_OK(moiety_alloc(pool_.get(), 5000, MOIETY_STREAM_LEGACY, &again));
    EXPECT_EQ(memory, reinterpret_cast<void *>(again));
    EXPECT_OK(moiety_free(pool_.get(), again, MOIETY_STREAM_LEGACY));
}

TEST_F(TensorRt, CallsWithoutAStreamWaitForAll)
{
    void *memory = own_.allocate(5000, 256, 0);
    EXPECT_TRUE(IsTheirs(memory));
    stream_.Hold();
    EXPECT_TRUE(own_.deallocate(memory));
    void *other = trt_.allocateAsync(5000, 256, 0, nullptr);
    EXPECT_NE(memory, other);
    stream_.Release();
    EXPECT_TRUE(trt_.deallocateAsync(other, nullptr));
}

TEST_F(TensorRt, MemoryGrowsWhereItLiesOrNotAtAll)
{
    void *memory = trt_.allocateAsync(4 * kMiB, 256, 1, stream_);
    EXPECT_EQ(memory, trt_.reallocate(memory, 256, 2 * kMiB));
    EXPECT_EQ(nullptr, trt_.reallocate(memory, 256, kGiB));
    EXPECT_EQ(nullptr, trt_.reallocate(memory, 256, 0));
    EXPECT_TRUE(trt_.deallocateAsync(memory, stream_));
}

TEST_F(TensorRt, ThreadsMayCallItAtATime)
{
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([&] {
            pool_test::SetCurrent(pool_test::PrimaryContext());
            pool_test::Stream stream;
            for (uint64_t size = 1; size < 500; size++) {
                void *memory = trt_.allocateAsync(size * 64, 256, 0, stream);
                EXPECT_NE(nullptr, memory);
                EXPECT_TRUE(trt_.deallocateAsync(memory, stream));
            }
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(0u, Live());
}

} // namespace
