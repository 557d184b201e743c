// SPDX-License-Identifier: Apache-2.0
//
// moiety.hpp: what owners give back, what is thrown, containers of pinned memory.
#include "moiety/moiety.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/pool/pool_under_test.h"

namespace
{

using pool_test::kKiB;
using pool_test::kMiB;
using pool_test::Live;

static_assert(!std::is_copy_constructible_v<moiety::pool>);
static_assert(!std::is_copy_constructible_v<moiety::buffer>);
static_assert(std::is_nothrow_move_constructible_v<moiety::buffer>);
static_assert(std::is_nothrow_move_assignable_v<moiety::buffer>);
static_assert(std::is_nothrow_move_constructible_v<moiety::host_arena>);

class Cxx : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }
    pool_test::Stream stream_;
};

TEST_F(Cxx, OwnersGiveBackWhatTheyHave)
{
    int64_t before = Live("allocations");
    {
        moiety::pool pool;
        {
            moiety::buffer first(pool, 5000, stream_);
            moiety::buffer second(pool.get(), 3 * kMiB, stream_);
            EXPECT_NE(0u, first.address());
            EXPECT_EQ(first.address(),
                      reinterpret_cast<moiety_devptr>(first.data()));
            EXPECT_EQ(3 * kMiB, second.size());
            EXPECT_EQ(static_cast<moiety_stream>(stream_), second.stream());
            EXPECT_EQ(2u, pool.stats().allocation_current);
        }
        EXPECT_EQ(0u, pool.stats().allocation_current);
        pool_test::Synchronize();
        pool.synchronize(20000);
        EXPECT_LT(0u, pool.trim());
    }
    EXPECT_EQ(before, Live("allocations"));
}

TEST_F(Cxx, WhatIsMovedFromHasNothing)
{
    moiety::pool first;
    moiety_pool *handle = first.get();
    moiety::pool pool(std::move(first));
    EXPECT_EQ(nullptr, first.get()); // NOLINT: that is what is asked
    EXPECT_EQ(handle, pool.get());
    moiety::buffer a(pool, 512, stream_), b(pool, 512, stream_), c;
    moiety_devptr address = a.address();
    c = std::move(a);
    EXPECT_EQ(address, c.address());
    EXPECT_EQ(0u, a.address()); // NOLINT
    c = std::move(b);
    moiety::buffer d(std::move(c));
    EXPECT_EQ(0u, c.size()); // NOLINT
    EXPECT_EQ(512u, d.size());
}

TEST_F(Cxx, BlocksCanBeKept)
{
    moiety::pool pool;
    moiety_devptr address;
    {
        moiety::buffer block(pool, 512, stream_);
        block.record_use(MOIETY_STREAM_LEGACY);
        block.set_stream(MOIETY_STREAM_DONE);
        address = block.release();
        EXPECT_EQ(0u, block.address());
    }
    EXPECT_EQ(1u, pool.stats().allocation_current);
    EXPECT_EQ(MOIETY_OK, moiety_free(pool.get(), address, MOIETY_STREAM_DONE));
}

TEST_F(Cxx, BuffersGrowWhereTheyLie)
{
    moiety::pool pool;
    moiety::buffer block(pool, 100 * kKiB, stream_);
    moiety_devptr address = block.address();
    EXPECT_TRUE(block.try_resize(200 * kKiB));
    EXPECT_EQ(200 * kKiB, block.size());
    EXPECT_FALSE(block.try_resize(pool_test::kGiB));
    EXPECT_EQ(200 * kKiB, block.size());
    EXPECT_EQ(address, block.address());
    moiety::buffer nothing;
    EXPECT_THROW(nothing.try_resize(1), moiety::error);
}

TEST_F(Cxx, AllIsFreedAtOnce)
{
    moiety::pool pool;
    for (int i = 0; i < 3; i++) {
        moiety::buffer block(pool, 512, stream_);
        EXPECT_NE(0u, block.release());
    }
    EXPECT_EQ(3u, pool.free_all(stream_));
    EXPECT_EQ(0u, pool.stats().allocation_current);
    moiety::host_arena arena;
    EXPECT_EQ(0u, arena.free_all(MOIETY_STREAM_DONE));
}

TEST_F(Cxx, StatusesAreThrown)
{
    moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
    options.limit_bytes = 64 * kMiB;
    options.wait_ms = 0;
    moiety::pool pool(options);
    try {
        moiety::buffer block(pool, 65 * kMiB, stream_);
        FAIL() << "above the limit";
    } catch (const std::bad_alloc &thrown) {
        EXPECT_NE(nullptr, std::strstr(thrown.what(), "MOIETY_E_TOO_LARGE: "));
    }
    try {
        moiety::check(moiety_free(pool.get(), 512, stream_));
        FAIL() << "no block of the pool's";
    } catch (const moiety::out_of_memory &) {
        FAIL() << "memory is not what is missing";
    } catch (const moiety::error &thrown) {
        EXPECT_EQ(MOIETY_E_FOREIGN, thrown.status());
        EXPECT_STREQ(
            (std::string("MOIETY_E_FOREIGN: ") + moiety_last_error_message())
                .c_str(),
            thrown.what());
    }
    options.limit_bytes = 1;
    EXPECT_THROW(moiety::pool refused(options), moiety::error);
}

TEST_F(Cxx, ContainersLieInPinnedMemory)
{
    int64_t before = Live("host");
    {
        moiety_host_options options = MOIETY_HOST_OPTIONS_INIT;
        options.limit_bytes = 8 * kMiB;
        options.touch_threads = 1;
        options.wait_ms = 0;
        moiety::host_arena arena(options);
        moiety::host_resource resource(arena), same(arena.get());
        {
            std::pmr::vector<int> numbers(1000, 7, &resource);
            std::pmr::string none("", &resource);
            for (int i = 0; i < 50000; i++)
                numbers.push_back(i);
            EXPECT_EQ(7, numbers[999]);
            EXPECT_EQ(49999, numbers.back());
            moiety_devptr device = 0;
            EXPECT_EQ(MOIETY_OK, moiety_host_device_address(
                                     arena.get(), numbers.data(), &device));
            std::pmr::vector<int> moved(std::move(numbers), &same);
            EXPECT_EQ(51000u, moved.size());
        }
        EXPECT_TRUE(resource.is_equal(same));
        EXPECT_FALSE(resource.is_equal(*std::pmr::new_delete_resource()));
        EXPECT_THROW((void)resource.allocate(16 * kMiB), std::bad_alloc);
        EXPECT_THROW((void)resource.allocate(64, 1024), std::bad_alloc);
        void *empty = resource.allocate(0);
        EXPECT_NE(nullptr, empty);
        resource.deallocate(empty, 0);
    }
    EXPECT_EQ(before, Live("host"));
}

} // namespace
