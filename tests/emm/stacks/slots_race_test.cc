// SPDX-License-Identifier: Apache-2.0
//
// Slots of ONNX Runtime's functions: calls of many threads, and a slot that is
// given back meanwhile.
#include "emm/native/onnxruntime/slots.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "moiety/moiety.h"
#include "tests/pool/pool_under_test.h"

namespace
{

constexpr int kThreads = 4;
constexpr int kRounds = 2000;

class Slots : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        pool_test::UseStandin();
        ASSERT_OK(moiety_pool_create(nullptr, &pool_));
    }
    void TearDown() override
    {
        moiety_leaks leaks{};
        leaks.struct_size = sizeof leaks;
        ASSERT_OK(moiety_pool_destroy(pool_, &leaks));
        EXPECT_EQ(0u, leaks.block_count);
    }
    int Take(moiety_onnxruntime_functions *out)
    {
        return moiety_onnxruntime_take(pool_, 0, MOIETY_STREAM_LEGACY, out);
    }
    moiety_pool *pool_ = nullptr;
};

TEST_F(Slots, EachHasFunctionsOfItsOwn)
{
    moiety_onnxruntime_functions one{}, other{};
    int first = Take(&one), second = Take(&other);
    EXPECT_NE(first, second);
    EXPECT_NE(one.alloc, other.alloc);
    EXPECT_NE(one.free, other.free);
    EXPECT_NE(one.empty_cache, other.empty_cache);
    EXPECT_EQ(0u, moiety_onnxruntime_give(first));
    EXPECT_EQ(0u, moiety_onnxruntime_give(second));
}

TEST_F(Slots, OneThatWasGivenBackAllocatesNothing)
{
    moiety_onnxruntime_functions functions{};
    int slot = Take(&functions);
    ASSERT_EQ(0u, moiety_onnxruntime_give(slot));
    EXPECT_EQ(nullptr, functions.alloc(512));
    functions.empty_cache();
    functions.free(nullptr);
}

TEST_F(Slots, OneWithLiveBlocksIsKept)
{
    moiety_onnxruntime_functions functions{};
    int slot = Take(&functions);
    void *block = functions.alloc(512);
    EXPECT_EQ(nullptr, functions.alloc(0));
    EXPECT_EQ(1u, moiety_onnxruntime_give(slot));
    functions.free(block);
    EXPECT_EQ(0u, moiety_onnxruntime_give(slot));
}

TEST_F(Slots, WhatThePoolRefusesIsToldAndStaysLive)
{
    moiety_onnxruntime_functions functions{};
    int slot = Take(&functions);
    auto *block = static_cast<char *>(functions.alloc(4096));
    testing::internal::CaptureStderr();
    functions.free(block + 1024);
    EXPECT_NE(std::string::npos, testing::internal::GetCapturedStderr().find(
                                     "memory of ONNX Runtime was not freed"));
    EXPECT_EQ(1u, moiety_onnxruntime_give(slot));
    functions.free(block);
    EXPECT_EQ(0u, moiety_onnxruntime_give(slot));
}

TEST_F(Slots, AreGivenBackBetweenCallsAndNeverUnderABlock)
{
    std::atomic<bool> is_over{false};
    std::atomic<int> refused{0};
    moiety_onnxruntime_functions functions{};
    const int slot = Take(&functions);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; i++) {
        threads.emplace_back([&, i] {
            for (int round = 0; round < kRounds; round++) {
                void *block = functions.alloc(512u << (i % 3));
                refused += !block;
                functions.free(block);
            }
        });
    }
    std::thread closer([&] {
        while (!is_over && moiety_onnxruntime_give(slot))
            std::this_thread::yield();
    });
    for (std::thread &thread : threads)
        thread.join();
    is_over = true;
    closer.join();
    EXPECT_EQ(0u, moiety_onnxruntime_give(slot));
    EXPECT_EQ(nullptr, functions.alloc(512));
}

} // namespace
