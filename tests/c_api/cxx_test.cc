// SPDX-License-Identifier: Apache-2.0
//
// moiety.hpp: what owners give back, what is thrown, containers of pinned memory.
#include "moiety/moiety.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/c_api/cxx_log.h"
#include "tests/pool/pool_under_test.h"

namespace
{

using cxx_test::Log;
using pool_test::kKiB;
using pool_test::kMiB;
using pool_test::Live;

static_assert(!std::is_copy_constructible_v<moiety::pool>);
static_assert(!std::is_copy_constructible_v<moiety::buffer>);
static_assert(std::is_nothrow_move_constructible_v<moiety::buffer>);
static_assert(std::is_nothrow_move_assignable_v<moiety::buffer>);
static_assert(std::is_nothrow_move_constructible_v<moiety::host_arena>);
static_assert(std::is_convertible_v<moiety::out_of_memory *, std::exception *>);
static_assert(std::is_convertible_v<moiety::status_error *, std::exception *>);
static_assert(std::is_nothrow_copy_constructible_v<moiety::out_of_memory>);
static_assert(std::is_nothrow_copy_constructible_v<moiety::status_error>);

class Cxx : public pool_test::StandinTest
{
  protected:
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
    EXPECT_OK(moiety_free(pool.get(), address, MOIETY_STREAM_DONE));
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

// What an allocation above the limit throws, where it is caught as a T.
template <typename T> void ExpectTooLarge(moiety_stream stream)
{
    moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
    options.limit_bytes = 64 * kMiB;
    options.wait_ms = MOIETY_WAIT_NONE;
    moiety::pool pool(options);
    try {
        moiety::buffer block(pool, 65 * kMiB, stream);
        FAIL() << "above the limit";
    } catch (const T &thrown) {
        EXPECT_NE(nullptr, std::strstr(thrown.what(), "MOIETY_E_TOO_LARGE: "));
        const auto *error = dynamic_cast<const moiety::error *>(&thrown);
        ASSERT_NE(nullptr, error);
        EXPECT_EQ(MOIETY_E_TOO_LARGE, error->status());
        EXPECT_STREQ(thrown.what(), error->what());
    }
}

TEST_F(Cxx, StandardExceptionsAreCaught)
{
    ExpectTooLarge<std::bad_alloc>(stream_);
    ExpectTooLarge<std::exception>(stream_);
    EXPECT_THROW(moiety::check(MOIETY_E_IN_USE), std::exception);
    EXPECT_THROW(moiety::check(MOIETY_E_NO_PINNED_MEMORY), moiety::error);
}

TEST_F(Cxx, StatusesAreThrown)
{
    moiety::pool pool;
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
    moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
    options.limit_bytes = 1;
    EXPECT_THROW(moiety::pool refused(options), moiety::error);
}

TEST_F(Cxx, WhatDestructorsAreRefusedIsLogged)
{
    Log log(MOIETY_LOG_ERROR);
    moiety::host_arena arena;
    moiety::host_resource resource(arena);
    moiety::pool pool;
    {
        moiety::buffer block(pool, 512, stream_);
        EXPECT_OK(moiety_free(pool.get(), block.address(), stream_));
    }
    EXPECT_TRUE(log.Has("moiety::~buffer: MOIETY_E_DOUBLE_FREE: "));
    resource.deallocate(&arena, 1, 1);
    EXPECT_TRUE(log.Has("moiety::host_resource: MOIETY_E_FOREIGN: "));
    {
        moiety::pool gone;
        EXPECT_OK(moiety_pool_destroy(gone.get(), nullptr));
    }
    EXPECT_TRUE(log.Has("moiety::~pool: MOIETY_E_DESTROYED: "));
}

TEST_F(Cxx, OwnersEndWithTheGuard)
{
    int64_t before = Live("allocations"), before_host = Live("host");
    Log log(MOIETY_LOG_WARNING);
    moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
    options.memory = MOIETY_MEMORY_DRIVER;
    EXPECT_OK(moiety_capture_guard_begin());
    {
        moiety::pool pool(options);
        moiety::buffer block(pool, kMiB, stream_);
        moiety::host_arena arena;
        moiety::host_resource resource(arena);
        resource.deallocate(resource.allocate(kMiB), kMiB);
    }
    EXPECT_LT(before, Live("allocations"));
    EXPECT_LT(before_host, Live("host"));
    EXPECT_OK(moiety_capture_guard_end());
    EXPECT_EQ(before, Live("allocations"));
    EXPECT_EQ(before_host, Live("host"));
    EXPECT_TRUE(log.IsEmpty());
}

TEST_F(Cxx, OwnersEndQuietlyInAChild)
{
    moiety::pool pool;
    moiety::host_arena arena;
    moiety::host_resource resource(arena);
    // The ends of strings read them.
    ASSERT_OK(moiety_host_copy_to_children(arena.get()));
    auto *block = new moiety::buffer(pool, 512, stream_);
    auto *staging = new std::pmr::vector<char>(kMiB, 'a', &resource);
    auto *lines = new std::pmr::vector<std::pmr::string>(3, &resource);
    pid_t child = fork();
    ASSERT_NE(-1, child);
    if (child == 0) {
        delete lines;
        delete staging;
        delete block;
        moiety::pool ends(std::move(pool));
        moiety::host_arena ends_too(std::move(arena));
        _exit(moiety_last_error_message() ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
    delete lines;
    delete staging;
    delete block;
}

TEST_F(Cxx, PinnedMemoryIsAlignedToAnyPowerOfTwo)
{
    moiety::host_arena arena;
    moiety::host_resource resource(arena);
    for (std::size_t alignment = 1; alignment <= 16 * kMiB; alignment *= 2) {
        for (std::size_t size : {std::size_t{0}, std::size_t{1}, kMiB}) {
            void *memory = resource.allocate(size, alignment);
            EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(memory) % alignment);
            std::memset(memory, 1, size);
            resource.deallocate(memory, size, alignment);
        }
    }
    moiety_pool_stats stats{};
    stats.struct_size = sizeof stats;
    EXPECT_OK(moiety_pool_get_stats(moiety_host_pool(arena.get()), &stats));
    EXPECT_EQ(0u, stats.allocation_current);
    volatile std::size_t most = SIZE_MAX - 5;
    EXPECT_THROW((void)resource.allocate(most, 4 * kMiB), std::bad_alloc);
    EXPECT_THROW((void)resource.allocate(kMiB, 6 * kMiB), std::bad_alloc);
}

TEST_F(Cxx, StandardPoolsLieInPinnedMemory)
{
    moiety::host_arena arena;
    moiety::host_resource resource(arena);
    std::pmr::unsynchronized_pool_resource pool(&resource);
    for (std::size_t size = 8; size <= kMiB; size *= 2)
        pool.deallocate(pool.allocate(size, 8), size, 8);
}

TEST_F(Cxx, ContainersLieInPinnedMemory)
{
    int64_t before = Live("host");
    {
        moiety_host_options options = MOIETY_HOST_OPTIONS_INIT;
        options.limit_bytes = 8 * kMiB;
        options.touch_threads = 1;
        options.wait_ms = MOIETY_WAIT_NONE;
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
            EXPECT_OK(moiety_host_device_address(arena.get(), numbers.data(),
                                                 &device));
            std::pmr::vector<int> moved(std::move(numbers), &same);
            EXPECT_EQ(51000u, moved.size());
        }
        EXPECT_TRUE(resource.is_equal(same));
        EXPECT_FALSE(resource.is_equal(*std::pmr::new_delete_resource()));
        EXPECT_THROW((void)resource.allocate(16 * kMiB), std::bad_alloc);
        void *empty = resource.allocate(0);
        EXPECT_NE(nullptr, empty);
        resource.deallocate(empty, 0);
    }
    EXPECT_EQ(before, Live("host"));
}

} // namespace
