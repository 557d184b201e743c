// SPDX-License-Identifier: Apache-2.0
//
// What the server is asked for: the same of every subject, and of many sizes.

extern "C" {
#include "bench/server/request.h"
}

#include <gtest/gtest.h>

#include <cstring>
#include <set>

namespace
{

constexpr uint64_t kSeed = 1;
constexpr uint64_t kRequests = 2000;

server_request Make(uint64_t seed, uint64_t number)
{
    // Cleared, so that padding is the same too.
    server_request request;
    std::memset(&request, 0, sizeof(request));
    server_request_make(seed, number, &request);
    return request;
}

bool IsSame(const server_request &left, const server_request &right)
{
    return std::memcmp(&left, &right, sizeof(left)) == 0;
}

TEST(ServerRequest, IsDecidedByItsSeedAndNumber)
{
    for (uint64_t number = 0; number < kRequests; number++) {
        ASSERT_TRUE(IsSame(Make(kSeed, number), Make(kSeed, number)));
    }
}

TEST(ServerRequest, DiffersFromTheNext)
{
    for (uint64_t number = 0; number < kRequests; number++) {
        server_request next = Make(kSeed, number + 1);
        next.number = number;
        ASSERT_FALSE(IsSame(Make(kSeed, number), next)) << number;
    }
}

TEST(ServerRequest, DiffersFromThatOfAnotherSeed)
{
    EXPECT_FALSE(IsSame(Make(kSeed, 7), Make(kSeed + 1, 7)));
}

TEST(ServerRequest, AsksForTensorsWithinTheLimits)
{
    for (uint64_t number = 0; number < kRequests; number++) {
        server_request request = Make(kSeed, number);
        ASSERT_GE(request.tensor_count, SERVER_TENSORS_MIN);
        ASSERT_LE(request.tensor_count, SERVER_TENSORS_MAX);
        for (unsigned i = 0; i < request.tensor_count; i++) {
            size_t size_bytes = request.tensors[i].size_bytes;
            ASSERT_GE(size_bytes, SERVER_TENSOR_BYTES_MIN);
            ASSERT_LE(size_bytes, SERVER_TENSOR_BYTES_MAX);
            ASSERT_EQ(size_bytes % 64, 0u);
        }
    }
}

TEST(ServerRequest, TakesItsInputFromWithinThePattern)
{
    for (uint64_t number = 0; number < kRequests; number++) {
        server_request request = Make(kSeed, number);
        ASSERT_LT(request.input_offset_bytes, SERVER_INPUT_OFFSET_MAX);
        ASSERT_GE(request.input_bytes, SERVER_TENSOR_BYTES_MIN);
        ASSERT_LE(request.input_bytes, SERVER_TENSOR_BYTES_MAX);
    }
}

TEST(ServerRequest, AsksForEachSizeAsOftenAsForItsDouble)
{
    unsigned count[9] = {};
    unsigned total = 0;
    for (uint64_t number = 0; number < kRequests; number++) {
        server_request request = Make(kSeed, number);
        for (unsigned i = 0; i < request.tensor_count; i++) {
            unsigned doubling = 0;
            while (request.tensors[i].size_bytes >> (doubling + 13))
                doubling++;
            ASSERT_LT(doubling, 9u);
            count[doubling]++;
            total++;
        }
    }
    for (unsigned doubling = 0; doubling < 9; doubling++) {
        EXPECT_GT(count[doubling], total / 9 * 8 / 10) << doubling;
        EXPECT_LT(count[doubling], total / 9 * 12 / 10) << doubling;
    }
}

TEST(ServerRequest, HandsSomeOverAndNotAll)
{
    unsigned handed_over = 0;
    for (uint64_t number = 0; number < kRequests; number++)
        handed_over += Make(kSeed, number).is_handed_over;
    EXPECT_GT(handed_over, kRequests / 8);
    EXPECT_LT(handed_over, kRequests / 2);
}

TEST(ServerRequest, FillsEachTensorWithAnotherWord)
{
    std::set<uint32_t> words;
    unsigned total = 0;
    for (uint64_t number = 0; number < 100; number++) {
        server_request request = Make(kSeed, number);
        for (unsigned i = 0; i < request.tensor_count; i++, total++)
            words.insert(server_request_tag(&request, i));
    }
    EXPECT_EQ(words.size(), total);
}

} // namespace
