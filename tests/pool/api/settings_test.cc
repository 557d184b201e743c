// SPDX-License-Identifier: Apache-2.0
//
// What is asked of a pool that lives, and changed in it.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "pool/driver/cuda_abi.h"
#include "tests/pool/pool_under_test.h"

namespace
{

using pool_test::Defaults;
using pool_test::kGiB;
using pool_test::kKiB;
using pool_test::kMiB;
using pool_test::Pool;

const moiety_stream kStream = MOIETY_STREAM_LEGACY;

moiety_pool_options WithLimit(uint64_t limit_bytes, uint32_t flags = 0)
{
    moiety_pool_options options = Defaults();
    options.limit_bytes = limit_bytes;
    options.flags = flags;
    options.wait_ms = 0;
    return options;
}

moiety_status TryAlloc(moiety_pool *pool, size_t size_bytes)
{
    moiety_devptr block = 0;
    moiety_status status = moiety_alloc(pool, size_bytes, kStream, &block);
    if (status == MOIETY_OK)
        status = moiety_free(pool, block, MOIETY_STREAM_DONE);
    return status;
}

class Settings : public ::testing::TestWithParam<uint32_t>
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }
    void TearDown() override
    {
        pool_test::SetFaults("");
        unsetenv("MOIETY_CONF");
    }
};

// --- the limit ---

class Limit : public Settings
{
};

INSTANTIATE_TEST_SUITE_P(Kinds, Limit,
                         ::testing::Values(0, MOIETY_POOL_MAPPED,
                                           MOIETY_POOL_CHECKED,
                                           MOIETY_POOL_PASS_THROUGH));

TEST_P(Limit, IsRaised)
{
    Pool pool(WithLimit(64 * kMiB, GetParam()));
    EXPECT_EQ(MOIETY_E_TOO_LARGE, TryAlloc(pool, 200 * kMiB));
    EXPECT_EQ(MOIETY_OK, moiety_pool_set_limit(pool, 256 * kMiB));
    EXPECT_EQ(256 * kMiB, pool.Stats().limit_bytes);
    EXPECT_EQ(MOIETY_OK, TryAlloc(pool, 200 * kMiB));
}

TEST_P(Limit, IsLowered)
{
    Pool pool(WithLimit(512 * kMiB, GetParam()));
    EXPECT_EQ(MOIETY_OK, TryAlloc(pool, 200 * kMiB));
    EXPECT_EQ(MOIETY_OK, moiety_pool_set_limit(pool, 64 * kMiB));
    EXPECT_GE(64 * kMiB, pool.Stats().reserved_bytes_current);
    EXPECT_EQ(MOIETY_E_TOO_LARGE, TryAlloc(pool, 200 * kMiB));
    EXPECT_EQ(MOIETY_OK, TryAlloc(pool, 32 * kMiB));
}

TEST_P(Limit, BelowWhatIsInUseTakesNothingAway)
{
    Pool pool(WithLimit(512 * kMiB, GetParam()));
    moiety_devptr block = pool.Alloc(200 * kMiB);
    EXPECT_EQ(MOIETY_OK, moiety_pool_set_limit(pool, 64 * kMiB));
    EXPECT_LE(200 * kMiB, pool.Stats().reserved_bytes_current);
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY, TryAlloc(pool, 60 * kMiB));
    pool.Free(block, MOIETY_STREAM_DONE);
    pool.TrimAll();
    EXPECT_EQ(MOIETY_OK, TryAlloc(pool, 60 * kMiB));
}

TEST_P(Limit, OfNothingIsTheDevices)
{
    Pool pool(WithLimit(512 * kMiB, GetParam()));
    EXPECT_EQ(MOIETY_OK, moiety_pool_set_limit(pool, 0));
    EXPECT_EQ(8 * kGiB, pool.Stats().limit_bytes);
}

TEST_P(Limit, IsInWholeUnits)
{
    Pool pool(WithLimit(64 * kMiB, GetParam()));
    EXPECT_EQ(MOIETY_OK, moiety_pool_set_limit(pool, 5 * kMiB));
    EXPECT_EQ(4 * kMiB, pool.Stats().limit_bytes);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_set_limit(pool, 2 * kMiB - 1));
    EXPECT_NE(nullptr, std::strstr(moiety_last_error_message(), "2 MiB"));
    EXPECT_EQ(4 * kMiB, pool.Stats().limit_bytes);
}

TEST_P(Limit, IsBoundByTheTables)
{
    Pool pool(WithLimit(4 * kMiB, GetParam()));
    EXPECT_EQ(MOIETY_OK, moiety_pool_set_limit(pool, 64 * kMiB));
    EXPECT_EQ(MOIETY_E_TOO_LARGE, moiety_pool_set_limit(pool, 66 * kMiB));
    EXPECT_NE(nullptr, std::strstr(moiety_last_error_message(), "67108864"));
    EXPECT_EQ(64 * kMiB, pool.Stats().limit_bytes);
    // All of it can be had, in odd pieces too.
    std::vector<moiety_devptr> blocks;
    for (int i = 0; i < 6; i++)
        blocks.push_back(pool.Alloc(6 * kMiB + 512));
    for (moiety_devptr block : blocks)
        pool.Free(block, MOIETY_STREAM_DONE);
}

// What is never exceeded is the higher one of the two, at any moment.
TEST_F(Settings, LimitsChangeWhileOthersGrow)
{
    Pool pool(WithLimit(64 * kMiB));
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++)
        threads.emplace_back([&] {
            for (int n = 0; n < 60; n++) {
                moiety_status status = TryAlloc(pool, 20 * kMiB);
                if (status != MOIETY_OK) {
                    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY, status);
                }
                EXPECT_GE(128 * kMiB, pool.Stats().reserved_bytes_current);
            }
        });
    for (int n = 0; n < 60; n++)
        EXPECT_EQ(MOIETY_OK,
                  moiety_pool_set_limit(pool, (n % 2 ? 64 : 128) * kMiB));
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(MOIETY_OK, moiety_pool_set_limit(pool, 32 * kMiB));
    EXPECT_GE(32 * kMiB, pool.Stats().reserved_bytes_current);
}

TEST_F(Settings, ADeviceThatDoesNotSayWhatItHasChangesNoLimit)
{
    Pool pool(WithLimit(64 * kMiB));
    pool_test::SetFaults("cuMemGetInfo:nth=1:code=CUDA_ERROR_UNKNOWN");
    EXPECT_EQ(MOIETY_E_DRIVER, moiety_pool_set_limit(pool, 0));
    EXPECT_EQ(64 * kMiB, pool.Stats().limit_bytes);
}

// --- reserving, peaks, options ---

class Reserve : public Settings
{
};

INSTANTIATE_TEST_SUITE_P(Kinds, Reserve,
                         ::testing::Values(0, MOIETY_POOL_MAPPED,
                                           MOIETY_POOL_CHECKED));

TEST_P(Reserve, TakesAllOfIt)
{
    Pool pool(WithLimit(512 * kMiB, GetParam()));
    EXPECT_EQ(MOIETY_OK, moiety_pool_reserve(pool, 100 * kMiB));
    uint64_t reserved = pool.Stats().reserved_bytes_current;
    EXPECT_LE(100 * kMiB, reserved);
    EXPECT_GE(128 * kMiB, reserved);
    EXPECT_EQ(MOIETY_OK, moiety_pool_reserve(pool, 100 * kMiB));
    EXPECT_EQ(reserved, pool.Stats().reserved_bytes_current) << "it has it";
}

TEST_P(Reserve, WhatFollowsAsksTheSourceForNothing)
{
    Pool pool(WithLimit(512 * kMiB, GetParam()));
    EXPECT_EQ(MOIETY_OK, moiety_pool_reserve(pool, 100 * kMiB));
    uint64_t segments = pool.Stats().segment_allocated;
    pool.Free(pool.Alloc(60 * kMiB));
    EXPECT_EQ(segments, pool.Stats().segment_allocated);
}

TEST_P(Reserve, KeepsToTheLimit)
{
    Pool pool(WithLimit(64 * kMiB, GetParam()));
    EXPECT_EQ(MOIETY_E_TOO_LARGE, moiety_pool_reserve(pool, 66 * kMiB));
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
    EXPECT_EQ(MOIETY_OK, moiety_pool_reserve(pool, 64 * kMiB));
    EXPECT_EQ(64 * kMiB, pool.Stats().reserved_bytes_current);
}

TEST_F(Settings, NothingIsReservedWhereAllPassesThrough)
{
    Pool pool(WithLimit(0, MOIETY_POOL_PASS_THROUGH));
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, moiety_pool_reserve(pool, 2 * kMiB));
}

TEST_P(Limit, PeaksBeginAnew)
{
    Pool pool(WithLimit(512 * kMiB, GetParam()));
    EXPECT_EQ(MOIETY_OK, TryAlloc(pool, 200 * kMiB));
    pool.TrimAll();
    EXPECT_LE(200 * kMiB, pool.Stats().reserved_bytes_peak);
    EXPECT_EQ(MOIETY_OK, moiety_pool_reset_peaks(pool));
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_peak);
    EXPECT_EQ(MOIETY_OK, TryAlloc(pool, 20 * kMiB));
    EXPECT_LE(20 * kMiB, pool.Stats().reserved_bytes_peak);
    EXPECT_GE(64 * kMiB, pool.Stats().reserved_bytes_peak);
}

TEST_F(Settings, OptionsAreTheResolvedOnes)
{
    setenv("MOIETY_CONF", "wait_ms:7,first_segment:4MiB", 1);
    Pool pool(WithLimit(64 * kMiB));
    moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
    EXPECT_EQ(MOIETY_OK, moiety_pool_options_get(pool, &options));
    EXPECT_EQ(7u, options.wait_ms);
    EXPECT_EQ(4 * kMiB, options.first_segment_bytes);
    EXPECT_EQ(kGiB, options.largest_segment_bytes);
    EXPECT_EQ(64 * kMiB, options.limit_bytes);
    EXPECT_EQ(pool_test::PrimaryContext(), options.context);
    EXPECT_EQ(nullptr, options.source);
    EXPECT_EQ(MOIETY_OK, moiety_pool_set_limit(pool, 32 * kMiB));
    EXPECT_EQ(MOIETY_OK, moiety_pool_options_get(pool, &options));
    EXPECT_EQ(32 * kMiB, options.limit_bytes);
}

TEST_F(Settings, OptionsAreNotWrittenPastTheCallersStruct)
{
    Pool pool;
    moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
    options.struct_size = offsetof(moiety_pool_options, peer_devices);
    options.peer_devices = 77;
    EXPECT_EQ(MOIETY_OK, moiety_pool_options_get(pool, &options));
    EXPECT_EQ(offsetof(moiety_pool_options, peer_devices), options.struct_size);
    EXPECT_EQ(77u, options.peer_devices);
    // Of version 0.1.0, which ended with cache_bytes.
    options.struct_size = offsetof(moiety_pool_options, history_entries);
    options.history_entries = 77;
    EXPECT_EQ(MOIETY_OK, moiety_pool_options_get(pool, &options));
    EXPECT_EQ(offsetof(moiety_pool_options, history_entries),
              options.struct_size);
    EXPECT_EQ(77u, options.history_entries);
    options.struct_size = offsetof(moiety_pool_options, history_entries) - 1;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_options_get(pool, &options));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_options_get(pool, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_options_get(nullptr, &options));
}

TEST_F(Settings, OptionsAreCheckedAsCreationDoes)
{
    moiety_pool_options options = WithLimit(64 * kMiB);
    EXPECT_EQ(MOIETY_OK, moiety_pool_options_check(nullptr));
    EXPECT_EQ(MOIETY_OK, moiety_pool_options_check(&options));
    options.first_segment_bytes = 3;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_options_check(&options));
    moiety_pool *pool = nullptr;
    const std::string said = moiety_last_error_message();
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_create(&options, &pool));
    EXPECT_EQ(said, moiety_last_error_message());
    setenv("MOIETY_CONF", "no_such_key:1", 1);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_options_check(nullptr));
}

// --- whose an address is ---

TEST_P(Limit, AddressesAreOfTheirPool)
{
    Pool first(WithLimit(64 * kMiB, GetParam()));
    Pool second(WithLimit(64 * kMiB));
    for (const Pool *pool : {&first, &second}) {
        moiety_devptr block = const_cast<Pool *>(pool)->Alloc(5 * kMiB);
        moiety_pool *found = nullptr;
        EXPECT_EQ(MOIETY_OK, moiety_pool_of(block, &found));
        EXPECT_EQ(static_cast<moiety_pool *>(*pool), found);
        const_cast<Pool *>(pool)->Free(block);
    }
}

TEST_F(Settings, AddressesOfNobodyAreNoPools)
{
    Pool pool;
    moiety_pool *found = pool;
    moiety_devptr block = pool.Alloc(512);
    EXPECT_EQ(MOIETY_OK, moiety_pool_of(block + 100, &found)) << "inside";
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_of(block, nullptr));
    pool.Free(block);
    pool.End();
    found = nullptr;
    for (moiety_devptr address : {block, moiety_devptr{0}, ~moiety_devptr{0}})
        EXPECT_EQ(MOIETY_E_FOREIGN, moiety_pool_of(address, &found));
    EXPECT_EQ(nullptr, found);
}

// --- zeroes ---

class Zeroed : public Settings
{
  protected:
    static bool IsZero(moiety_devptr address, size_t size_bytes)
    {
        std::vector<char> bytes(size_bytes, 1);
        EXPECT_EQ(CUDA_SUCCESS,
                  (pool_test::Get<CUresult(void *, CUdeviceptr, size_t)>(
                      "cuMemcpyDtoH_v2")(bytes.data(), address, size_bytes)));
        return bytes == std::vector<char>(size_bytes, 0);
    }
    static void Soil(moiety_devptr address, size_t size_bytes)
    {
        EXPECT_EQ(CUDA_SUCCESS,
                  (pool_test::Get<CUresult(CUdeviceptr, unsigned char, size_t)>(
                      "cuMemsetD8_v2")(address, 7, size_bytes)));
        pool_test::Synchronize();
    }
};

INSTANTIATE_TEST_SUITE_P(Kinds, Zeroed,
                         ::testing::Values(0, MOIETY_POOL_MAPPED,
                                           MOIETY_POOL_CHECKED,
                                           MOIETY_POOL_PASS_THROUGH));

TEST_P(Zeroed, IsZeroWhateverWasThere)
{
    Pool pool(WithLimit(64 * kMiB, GetParam()));
    pool_test::Stream stream;
    for (size_t size_bytes : {1 * kKiB, 100 * kKiB + 3, 5 * kMiB}) {
        moiety_devptr block = pool.Alloc(size_bytes, stream);
        Soil(block, size_bytes);
        pool.Free(block, stream);
        ASSERT_EQ(MOIETY_OK,
                  moiety_alloc_zeroed(pool, size_bytes, stream, &block));
        pool_test::Synchronize();
        EXPECT_TRUE(IsZero(block, size_bytes));
        pool.Free(block, stream);
    }
}

// Nothing is zeroed before the stream's earlier work, and the caller need not wait.
TEST_P(Zeroed, ComesInTheStreamsOrder)
{
    Pool pool(WithLimit(64 * kMiB, GetParam()));
    pool_test::Stream stream;
    moiety_devptr block = 0;
    stream.Hold();
    EXPECT_EQ(MOIETY_OK, moiety_alloc_zeroed(pool, 4 * kKiB, stream, &block));
    stream.Release();
    pool_test::Synchronize();
    EXPECT_TRUE(IsZero(block, 4 * kKiB));
    pool.Free(block, stream);
}

TEST_P(Zeroed, ARefusalToFillTakesNoBlock)
{
    Pool pool(WithLimit(64 * kMiB, GetParam()));
    moiety_devptr block = 77;
    pool.Free(pool.Alloc(4 * kKiB));
    pool_test::SetFaults("cuMemsetD8Async:nth=1:code=CUDA_ERROR_UNKNOWN");
    EXPECT_EQ(MOIETY_E_DRIVER,
              moiety_alloc_zeroed(pool, 4 * kKiB, kStream, &block));
    EXPECT_EQ(77u, block);
    EXPECT_EQ(0u, pool.Stats().allocation_current);
}

TEST_F(Settings, ZeroesNeedAnOrder)
{
    Pool pool;
    moiety_devptr block = 77;
    for (moiety_stream stream : {MOIETY_STREAM_ANY, MOIETY_STREAM_DONE})
        EXPECT_EQ(MOIETY_E_INVALID,
                  moiety_alloc_zeroed(pool, 512, stream, &block));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_alloc_zeroed(pool, 512, kStream, nullptr));
    EXPECT_EQ(77u, block);
    uint64_t fills = pool_test::Calls("cuMemsetD8Async");
    EXPECT_EQ(MOIETY_OK, moiety_alloc_zeroed(pool, 0, kStream, &block));
    EXPECT_EQ(0u, block) << "as moiety_alloc()";
    EXPECT_EQ(fills, pool_test::Calls("cuMemsetD8Async"));
}

} // namespace
