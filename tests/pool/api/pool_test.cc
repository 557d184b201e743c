// SPDX-License-Identifier: Apache-2.0
//
// The life of a pool: what it is made with, and what its end gives back.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

class PoolTest : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        setenv("MOIETY_STANDIN_DEVICES", "2", 1);
        pool_test::UseStandin();
    }
};

std::string Message()
{
    return moiety_last_error_message();
}

class PoolCreate : public PoolTest
{
  protected:
    void TearDown() override
    {
        unsetenv("MOIETY_CONF");
    }
    moiety_pool *pool = nullptr;
};

TEST_F(PoolCreate, WithoutAPlaceForThePoolIsInvalid)
{
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_create(nullptr, nullptr));
}

TEST_F(PoolCreate, TakesTheDefaultsForNoOptions)
{
    ASSERT_OK(moiety_pool_create(nullptr, &pool)) << Message();
    moiety_devptr block = 0;
    EXPECT_OK(moiety_alloc(pool, 512, kStream, &block));
    EXPECT_OK(moiety_free(pool, block, kStream));
    EXPECT_OK(moiety_pool_destroy(pool, nullptr));
}

TEST_F(PoolCreate, ReservesNothing)
{
    int64_t before = Live("allocations");
    Pool own;
    EXPECT_EQ(0u, own.Stats().reserved_bytes_current);
    EXPECT_EQ(before, Live("allocations"));
}

// Of this process, mapped or only set aside.
uint64_t AddressBytes()
{
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Where addresses count as memory, a small pool must not ask for gigabytes.
TEST_F(PoolCreate, TakesAddressesByItsLimit)
{
    moiety_pool_options options = Defaults();
    options.limit_bytes = 64 * kMiB;
    Pool first(options); // what a process needs once
    uint64_t before = AddressBytes();
    Pool own(options);
    EXPECT_GT(before + options.limit_bytes, AddressBytes());
    own.Free(own.Alloc(60 * kMiB));
}

TEST_F(PoolCreate, RefusesAnOptionAndMakesNothing)
{
    moiety_pool_options options = Defaults();
    options.first_segment_bytes = 3 * kMiB;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_create(&options, &pool));
    EXPECT_EQ(nullptr, pool);
    EXPECT_EQ("option first_segment_bytes is 3145728; accepted are multiples "
              "of 2M up to 1024G",
              Message());
}

TEST_F(PoolCreate, RefusesADeviceThatIsNotThere)
{
    moiety_pool_options options = Defaults();
    for (int32_t device : {2, -1, INT32_MIN}) {
        options.device = device;
        EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_create(&options, &pool));
        EXPECT_EQ("device " + std::to_string(device) +
                      " does not exist; the machine has devices 0 to 1",
                  Message());
    }
    EXPECT_EQ(nullptr, pool);
}

TEST_F(PoolCreate, ObeysTheEnvironmentOverTheProgram)
{
    setenv("MOIETY_CONF", "limit:4M,first_segment:2M", 1);
    moiety_pool_options options = Defaults();
    options.limit_bytes = kGiB;
    Pool own(options);
    EXPECT_EQ(4 * kMiB, own.Stats().limit_bytes);
    moiety_devptr block = own.Alloc(1);
    EXPECT_EQ(2 * kMiB, own.Stats().reserved_bytes_current);
    EXPECT_EQ(MOIETY_E_TOO_LARGE, moiety_alloc(own, 5 * kMiB, kStream, &block));
    own.Free(block);
}

TEST_F(PoolCreate, RefusesAKeyOfTheEnvironmentByName)
{
    setenv("MOIETY_CONF", "limits:4M", 1);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_create(nullptr, &pool));
    EXPECT_EQ(nullptr, pool);
    EXPECT_EQ(
        0u,
        Message().find(
            "MOIETY_CONF: key 'limits' is not known, did you mean 'limit'?"))
        << Message();
}

class PoolOptions : public PoolTest
{
};

TEST_F(PoolOptions, GiveTheSizesOfSegments)
{
    moiety_pool_options options = Defaults();
    options.first_segment_bytes = 4 * kMiB;
    options.largest_segment_bytes = 8 * kMiB;
    Pool pool(options);
    std::vector<moiety_devptr> blocks;
    std::vector<uint64_t> reserved;
    while (reserved.size() < 10) {
        blocks.push_back(pool.Alloc(kMiB));
        uint64_t now_bytes = pool.Stats().reserved_bytes_current;
        if (reserved.empty() || reserved.back() != now_bytes)
            reserved.push_back(now_bytes);
    }
    // By the first size, until a quarter of what is reserved is the largest.
    std::vector<uint64_t> expected;
    for (uint64_t mib : {4, 8, 12, 16, 20, 24, 28, 32, 40, 48})
        expected.push_back(mib * kMiB);
    EXPECT_EQ(expected, reserved);
    for (moiety_devptr block : blocks)
        pool.Free(block);
}

TEST_F(PoolOptions, WithoutCachesKeepNothingInThem)
{
    moiety_pool_options options = Defaults();
    options.thread_cache_bytes = MOIETY_BYTES_NONE;
    Pool pool(options);
    for (int i = 0; i < 100; i++)
        pool.Free(pool.Alloc(64 * kKiB), MOIETY_STREAM_DONE);
    moiety_pool_stats stats = pool.Stats();
    EXPECT_EQ(0u, stats.cached_bytes);
    EXPECT_EQ(0u, stats.cache_hits);
    EXPECT_EQ(stats.reserved_bytes_current,
              stats.free_bytes + stats.retiring_bytes);
}

TEST_F(PoolOptions, BoundWhatCachesHold)
{
    moiety_pool_options options = Defaults();
    options.thread_cache_bytes = 4 * kMiB;
    options.cache_bytes = 4 * kMiB;
    Pool pool(options);
    std::vector<moiety_devptr> blocks;
    for (int i = 0; i < 400; i++)
        blocks.push_back(pool.Alloc(kKiB << (i % 10)));
    uint64_t most_bytes = 0;
    for (moiety_devptr block : blocks) {
        pool.Free(block, MOIETY_STREAM_DONE);
        most_bytes = std::max(most_bytes, pool.Stats().cached_bytes);
    }
    EXPECT_GT(most_bytes, 0u);
    EXPECT_LE(most_bytes, 5 * kMiB);
}

// 2.083 GiB.
TEST_F(PoolOptions, ReserveForALargeRequestLittleMoreThanIt)
{
    Pool pool;
    moiety_devptr block = pool.Alloc(2133 * kMiB + 17);
    EXPECT_LT(pool.Stats().reserved_bytes_current, 209 * kGiB / 100);
    pool.Free(block);
}

class PoolContext : public PoolTest
{
};

moiety_context ContextOf(moiety_devptr address)
{
    moiety_context context = nullptr;
    constexpr int kAttributeContext = 1;
    EXPECT_EQ(
        0, pool_test::Get<int(void *, int, moiety_devptr)>(
               "cuPointerGetAttribute")(&context, kAttributeContext, address));
    return context;
}

bool IsPrimaryActive(int device)
{
    unsigned flags = 0;
    int is_active = 0;
    EXPECT_EQ(0, pool_test::Get<int(int, unsigned *, int *)>(
                     "cuDevicePrimaryCtxGetState")(device, &flags, &is_active));
    return is_active != 0;
}

TEST_F(PoolContext, IsThePrimaryOneOfItsDeviceKeptAlive)
{
    ASSERT_FALSE(IsPrimaryActive(1));
    {
        moiety_pool_options options = Defaults();
        options.device = 1;
        Pool pool(options);
        EXPECT_TRUE(IsPrimaryActive(1));
        moiety_devptr block = pool.Alloc(512);
        EXPECT_NE(pool_test::PrimaryContext(), ContextOf(block));
        pool.Free(block);
    }
    EXPECT_FALSE(IsPrimaryActive(1));
}

TEST_F(PoolContext, OfARefusedPoolIsNotKept)
{
    moiety_source source = {};
    moiety_pool_options options = Defaults();
    options.device = 1;
    options.source = &source;
    moiety_pool *pool = nullptr;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_create(&options, &pool));
    EXPECT_EQ(nullptr, pool);
    EXPECT_FALSE(IsPrimaryActive(1));
}

TEST_F(PoolContext, MayBeTheCallersOwnWhateverTheDeviceSays)
{
    moiety_context context = pool_test::NewContext();
    {
        moiety_pool_options options = Defaults();
        options.context = context;
        options.device = 99;
        Pool pool(options);
        moiety_devptr block = pool.Alloc(512);
        EXPECT_EQ(context, ContextOf(block));
        pool.Free(block);
    }
    pool_test::DestroyContext(context);
}

void UseAPoolThoroughly(moiety_context expected)
{
    Pool pool;
    EXPECT_EQ(expected, Current());
    std::vector<moiety_devptr> blocks;
    for (int i = 0; i < 300; i++)
        blocks.push_back(pool.Alloc(64 * kKiB));
    EXPECT_EQ(expected, Current());
    for (moiety_devptr block : blocks)
        pool.Free(block, MOIETY_STREAM_ANY);
    EXPECT_EQ(expected, Current());
    pool.Trim();
    EXPECT_EQ(expected, Current());
    pool.End();
    EXPECT_EQ(expected, Current());
}

TEST_F(PoolContext, NeedNotBeCurrentAndDoesNotBecomeSo)
{
    moiety_context other = pool_test::NewContext();
    for (moiety_context context : {moiety_context{nullptr}, other}) {
        pool_test::SetCurrent(context);
        UseAPoolThoroughly(context);
    }
    pool_test::SetCurrent(pool_test::PrimaryContext());
    pool_test::DestroyContext(other);
}

class PoolDestroy : public PoolTest
{
};

TEST_F(PoolDestroy, OfNoPoolDoesNothing)
{
    EXPECT_OK(moiety_pool_destroy(nullptr, nullptr));
}

TEST_F(PoolDestroy, GivesEverythingBack)
{
    int64_t allocations = Live("allocations"), events = Live("events"),
            streams = Live("streams");
    Pool pool;
    pool_test::Stream stream;
    for (int i = 0; i < 500; i++) {
        pool.Free(pool.Alloc(8 * kKiB, stream), stream);
        pool.Free(pool.Alloc(8 * kKiB), MOIETY_STREAM_ANY);
    }
    pool.End();
    EXPECT_EQ(allocations, Live("allocations"));
    EXPECT_EQ(events, Live("events"));
    EXPECT_EQ(streams + 1, Live("streams")) << "the test's own";
}

TEST_F(PoolDestroy, MakesEveryLaterCallInvalid)
{
    moiety_pool *pool = nullptr;
    moiety_devptr block = 0;
    size_t size_bytes = 0;
    uint64_t bytes = 0;
    moiety_pool_stats stats = {};
    moiety_pool_options options = Defaults();
    stats.struct_size = sizeof(stats);
    pool_test::Stream stream;
    moiety_event event = pool_test::NewEvent();
    ASSERT_OK(moiety_pool_create(nullptr, &pool));
    ASSERT_OK(moiety_alloc(pool, 512, kStream, &block));
    ASSERT_OK(moiety_pool_destroy(pool, nullptr));

    const moiety_status statuses[] = {
        moiety_alloc(pool, 512, kStream, &block),
        moiety_alloc(pool, 5 * kMiB, kStream, &block),
        alloc_no_wait(pool, 512, kStream, &block),
        alloc_aligned(pool, 512, 4096, kStream, &block),
        moiety_alloc_batch(pool, 512, kStream, 1, &block),
        moiety_free(pool, block, kStream),
        moiety_free_sized(pool, block, 512, kStream),
        moiety_free_on_alloc_stream(pool, block),
        moiety_free_batch(pool, &block, 1, kStream, nullptr),
        moiety_free_on_event(pool, block, event),
        moiety_record_use(pool, block, kStream),
        moiety_usable_size(pool, block, &size_bytes),
        alloc_zeroed(pool, 512, kStream, &block),
        moiety_pool_trim(pool, 0, &bytes),
        moiety_pool_get_stats(pool, &stats),
        moiety_pool_get_options(pool, &options),
        moiety_pool_set_limit(pool, 4 * kMiB),
        moiety_pool_reserve(pool, 4 * kMiB),
        moiety_pool_reset_peaks(pool),
        moiety_pool_retire_stream(pool, stream),
        moiety_pool_add_context(pool, pool_test::PrimaryContext()),
        moiety_pool_destroy(pool, nullptr),
    };
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
        EXPECT_EQ(MOIETY_E_DESTROYED, statuses[i]) << "call " << i;
    pool_test::DestroyEvent(event);
}

TEST_F(PoolDestroy, LeavesOtherPoolsAlone)
{
    Pool other;
    moiety_devptr block = other.Alloc(4096);
    pool_test::Fill(block, 4096, 7);
    {
        Pool pool;
        pool.Free(pool.Alloc(4096));
    }
    EXPECT_TRUE(pool_test::Holds(block, 4096, 7));
    other.Free(block);
    EXPECT_EQ(block, other.Alloc(4096)) << "from this thread's cache";
    other.Free(block);
}

TEST_F(PoolDestroy, WhileAGuardIsHeldIsRefusedAndChangesNothing)
{
    moiety_pool *pool = nullptr;
    moiety_devptr block = 0;
    ASSERT_EQ(MOIETY_OK, moiety_pool_create(nullptr, &pool));
    ASSERT_EQ(MOIETY_OK, moiety_capture_guard_begin());
    EXPECT_EQ(MOIETY_E_CAPTURING, moiety_pool_destroy(pool, nullptr));
    EXPECT_EQ(MOIETY_OK, moiety_capture_guard_end());
    EXPECT_EQ(MOIETY_OK, moiety_alloc(pool, 512, kStream, &block));
    EXPECT_OK(moiety_free(pool, block, kStream));
    EXPECT_OK(moiety_pool_destroy(pool, nullptr));
}

} // namespace
