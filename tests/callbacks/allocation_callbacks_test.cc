// SPDX-License-Identifier: Apache-2.0
//
// What a pool tells of each allocation and free, and what the functions may do.
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

// What is live, as it was told. Each address once at a time, with one size.
class Ledger
{
  public:
    moiety_allocation_callbacks Callbacks()
    {
        moiety_allocation_callbacks callbacks = {};
        callbacks.struct_size = sizeof(callbacks);
        callbacks.user = this;
        callbacks.allocated = Allocated;
        callbacks.freeing = Freeing;
        return callbacks;
    }

    size_t LiveCount()
    {
        std::lock_guard<std::mutex> guard(lock_);
        return live_.size();
    }

    // What was told last.
    moiety_allocation last = {};
    unsigned allocated_count = 0;
    unsigned freeing_count = 0;
    std::function<void()> act; // in either, without a lock

  private:
    static void Allocated(void *user, const moiety_allocation *allocation)
    {
        auto *self = static_cast<Ledger *>(user);
        {
            std::lock_guard<std::mutex> guard(self->lock_);
            self->last = *allocation;
            self->allocated_count++;
            EXPECT_LE(allocation->requested_bytes, allocation->size_bytes);
            EXPECT_TRUE(
                self->live_.emplace(allocation->address, allocation->size_bytes)
                    .second)
                << "told twice";
        }
        if (self->act)
            self->act();
    }

    static void Freeing(void *user, const moiety_allocation *allocation)
    {
        auto *self = static_cast<Ledger *>(user);
        {
            std::lock_guard<std::mutex> guard(self->lock_);
            self->last = *allocation;
            self->freeing_count++;
            auto found = self->live_.find(allocation->address);
            ASSERT_NE(self->live_.end(), found) << "never told";
            EXPECT_EQ(found->second, allocation->size_bytes);
            self->live_.erase(found);
        }
        if (self->act)
            self->act();
    }

    std::mutex lock_;
    std::map<moiety_devptr, uint64_t> live_;
};

class AllocationCallbacks : public StandinTestWith<uint32_t>
{
  protected:
    moiety_pool_options Options(uint32_t flags = 0)
    {
        moiety_pool_options options = Defaults();
        set_kind(&options, flags | GetParam());
        options.wait_ms = MOIETY_WAIT_NONE;
        callbacks = ledger.Callbacks();
        options.allocation_callbacks = &callbacks;
        return options;
    }

    Ledger ledger;
    moiety_allocation_callbacks callbacks;
};

INSTANTIATE_TEST_SUITE_P(Kinds, AllocationCallbacks,
                         ::testing::Values(0, KIND_MAPPED,
                                           MOIETY_POOL_EXPORTABLE,
                                           KIND_CHECKED |
                                               MOIETY_POOL_CHECKED_QUIET,
                                           KIND_PASS_THROUGH));

TEST_P(AllocationCallbacks, TellOfABlockThatChangesItsLength)
{
    Pool pool(Options());
    Stream stream;
    moiety_devptr block = pool.Alloc(8 * kMiB, stream);
    moiety_status status = moiety_resize(pool, block, 2 * kMiB, stream);
    EXPECT_EQ(block, ledger.last.address);
    EXPECT_EQ(pool.UsableSize(block), ledger.last.size_bytes);
    EXPECT_EQ(status == MOIETY_OK ? 1u : 0u, ledger.freeing_count);
    EXPECT_EQ(1u, ledger.LiveCount());
    pool.Free(block, stream);
    EXPECT_EQ(0u, ledger.LiveCount());
}

TEST_P(AllocationCallbacks, TellEachBlock)
{
    Pool pool(Options());
    Stream stream;
    for (size_t size_bytes : {size_t{1}, 5000 * size_t{1}, size_t{3 * kMiB}}) {
        for (int i = 0; i < 3; i++) {
            moiety_devptr block = pool.Alloc(size_bytes, stream);
            EXPECT_EQ(static_cast<moiety_pool *>(pool), ledger.last.pool);
            EXPECT_EQ(block, ledger.last.address);
            EXPECT_EQ(size_bytes, ledger.last.requested_bytes);
            EXPECT_EQ(pool.UsableSize(block), ledger.last.size_bytes);
            EXPECT_EQ(static_cast<moiety_stream>(stream), ledger.last.stream);
            EXPECT_EQ(sizeof(moiety_allocation), ledger.last.struct_size);
            EXPECT_EQ(1u, ledger.LiveCount());
            pool.Free(block, stream);
            EXPECT_EQ(block, ledger.last.address);
            EXPECT_EQ(0u, ledger.last.requested_bytes);
            EXPECT_EQ(0u, ledger.LiveCount());
        }
    }
    EXPECT_EQ(9u, ledger.allocated_count);
    EXPECT_EQ(9u, ledger.freeing_count);
}

TEST_P(AllocationCallbacks, TellOfEveryWayToAllocateAndFree)
{
    Pool pool(Options(MOIETY_POOL_NOTE_STREAMS));
    moiety_devptr block = 0, several[3] = {};
    Stream stream;
    ASSERT_OK(alloc_aligned(pool, 5000, 4096, stream, &block));
    EXPECT_OK(moiety_free_sized(pool, block, 5000, stream));
    ASSERT_OK(alloc_no_wait(pool, 5000, stream, &block));
    EXPECT_OK(moiety_free_on_alloc_stream(pool, block));
    EXPECT_EQ(static_cast<moiety_stream>(stream), ledger.last.stream);
    ASSERT_OK(alloc_zeroed(pool, 5000, stream, &block));
    moiety_event event = pool_test::NewEvent();
    EXPECT_OK(moiety_free_on_event(pool, block, event));
    EXPECT_EQ(MOIETY_STREAM_ANY, ledger.last.stream);
    pool_test::DestroyEvent(event);
    ASSERT_OK(moiety_alloc_batch(pool, 5000, stream, 3, several));
    EXPECT_EQ(3u, ledger.LiveCount());
    EXPECT_OK(moiety_free_batch(pool, several, 3, MOIETY_STREAM_ANY, nullptr));
    EXPECT_EQ(6u, ledger.allocated_count);
    EXPECT_EQ(6u, ledger.freeing_count);
    EXPECT_EQ(0u, ledger.LiveCount());
    // Nothing, and caches that nobody may use alone.
    EXPECT_EQ(MOIETY_OK, moiety_alloc(pool, 0, stream, &block));
    EXPECT_EQ(MOIETY_OK, moiety_free(pool, 0, stream));
    EXPECT_EQ(MOIETY_E_WOULD_BLOCK, alloc_no_call(pool, 5000, stream, &block));
    EXPECT_EQ(6u, ledger.allocated_count);
    EXPECT_EQ(6u, ledger.freeing_count);
}

TEST_P(AllocationCallbacks, TellOfTenantsAndPrivateArenas)
{
    Pool pool(Options());
    moiety_tenant tenant = 0;
    moiety_private arena = 0;
    moiety_devptr block = 0;
    ASSERT_EQ(MOIETY_OK, create_tenant(pool, "one", 0, &tenant));
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(alloc_for_tenant(tenant, 5000, kStream, &block));
        EXPECT_EQ(block, ledger.last.address);
        pool.Free(block);
    }
    ASSERT_OK(moiety_tenant_destroy(tenant));
    ASSERT_OK(create_arena(pool, 0, &arena));
    ASSERT_OK(alloc_of_arena(arena, 5000, kStream, &block));
    EXPECT_EQ(1u, ledger.LiveCount());
    pool.Free(block);
    if (!(GetParam() & (KIND_CHECKED | KIND_PASS_THROUGH))) {
        ASSERT_OK(moiety_private_claim(arena, block, 5000, kStream));
        EXPECT_EQ(block, ledger.last.address);
        pool.Free(block);
    } else {
        EXPECT_EQ(MOIETY_E_UNSUPPORTED,
                  moiety_private_claim(arena, block, 5000, kStream));
    }
    ASSERT_OK(moiety_private_destroy(arena));
    EXPECT_EQ(0u, ledger.LiveCount());
}

// A block that a free did not take is told of again.
TEST_P(AllocationCallbacks, TellThatAFreeWasRefused)
{
    Pool pool(Options());
    moiety_devptr block = pool.Alloc(5000);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_free_sized(pool, block, 77777, kStream));
    EXPECT_NE(std::string::npos,
              std::string(moiety_last_error_message()).find("77777"))
        << moiety_last_error_message();
    EXPECT_EQ(1u, ledger.LiveCount());
    EXPECT_EQ(1u, ledger.freeing_count);
    EXPECT_EQ(2u, ledger.allocated_count);
    // No block at all.
    EXPECT_NE(MOIETY_OK, moiety_free(pool, block + 512, kStream));
    EXPECT_NE(MOIETY_OK, moiety_free(pool, 512, kStream));
    EXPECT_EQ(1u, ledger.freeing_count);
    pool.Free(block);
    EXPECT_EQ(0u, ledger.LiveCount());
}

TEST_P(AllocationCallbacks, OfAnAllocationThatFailsAreNotCalled)
{
    moiety_pool_options options = Options();
    options.limit_bytes = 8 * kMiB;
    options.first_segment_bytes = 2 * kMiB;
    Pool pool(options);
    moiety_devptr block = pool.Alloc(3 * kMiB), other = 77;
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, 5 * kMiB + 512 * kKiB, kStream, &other));
    EXPECT_EQ(1u, ledger.allocated_count);
    pool.Free(block);
}

TEST_P(AllocationCallbacks, MayUseOtherPoolsButNotTheirOwn)
{
    Pool other;
    Pool pool(Options());
    unsigned calls = 0;
    ledger.act = [&] {
        moiety_devptr block = 0;
        moiety_pool_stats stats = {};
        stats.struct_size = sizeof(stats);
        calls++;
        EXPECT_EQ(MOIETY_E_REENTRANT, moiety_alloc(pool, 512, kStream, &block));
        EXPECT_EQ(MOIETY_E_REENTRANT, moiety_pool_get_stats(pool, &stats));
        EXPECT_EQ(MOIETY_E_REENTRANT, moiety_pool_trim(pool, 0, nullptr));
        other.Free(other.Alloc(512));
        EXPECT_EQ(MOIETY_OK, moiety_pool_get_stats(other, &stats));
    };
    for (int i = 0; i < 3; i++)
        pool.Free(pool.Alloc(5000));
    EXPECT_EQ(6u, calls);
}

// Nor by way of another pool that tells.
TEST_P(AllocationCallbacks, ThatComeBackByAnotherPoolAreRefused)
{
    Ledger outer_ledger;
    moiety_allocation_callbacks outer_callbacks = outer_ledger.Callbacks();
    moiety_pool_options outer_options = Defaults();
    outer_options.allocation_callbacks = &outer_callbacks;
    Pool outer(outer_options), inner(Options());
    unsigned refused = 0;
    ledger.act = [&] {
        moiety_devptr block = 0;
        for (moiety_pool *pool : {static_cast<moiety_pool *>(outer),
                                  static_cast<moiety_pool *>(inner)})
            refused +=
                moiety_alloc(pool, 512, kStream, &block) == MOIETY_E_REENTRANT;
    };
    outer_ledger.act = [&] { inner.Free(inner.Alloc(512)); };
    outer.Free(outer.Alloc(512));
    EXPECT_EQ(8u, refused);
    EXPECT_EQ(0u, outer_ledger.LiveCount());
}

// Others go on with their calls, but the pool does not end.
TEST_P(AllocationCallbacks, HoldUpNobodyButThePoolsEnd)
{
    Pool pool(Options());
    std::atomic<int> step{0};
    ledger.act = [&] {
        if (step != 0)
            return;
        for (step = 1; step != 2;)
            std::this_thread::yield();
    };
    std::thread told([&] {
        pool_test::SetCurrent(pool_test::PrimaryContext());
        moiety_devptr block = pool.Alloc(5000);
        pool.Free(block);
    });
    while (step != 1)
        std::this_thread::yield();
    moiety_heap_snapshot *snapshot = nullptr;
    EXPECT_EQ(MOIETY_E_IN_USE, moiety_pool_destroy(pool, nullptr));
    if (!(GetParam() & (KIND_CHECKED | KIND_PASS_THROUGH))) {
        EXPECT_EQ(MOIETY_OK, moiety_heap_snapshot_create(pool, &snapshot));
        moiety_heap_snapshot_destroy(snapshot);
    }
    pool.Free(pool.Alloc(kMiB));
    pool.Trim();
    step = 2;
    told.join();
}

TEST_P(AllocationCallbacks, OfManyThreadsAgreeWithThePool)
{
    moiety_pool_options options = Options();
    options.history_entries = 64;
    Pool pool(options);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([&, i] {
            pool_test::SetCurrent(pool_test::PrimaryContext());
            std::vector<moiety_devptr> blocks;
            for (int n = 0; n < 400; n++) {
                blocks.push_back(
                    pool.Alloc(512 * (1 + (n * 7 + i) % 40), kStream));
                if (n % 3 == 2) {
                    pool.Free(blocks.back(), MOIETY_STREAM_ANY);
                    blocks.pop_back();
                }
            }
            for (moiety_devptr block : blocks)
                pool.Free(block, kStream);
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(1600u, ledger.allocated_count);
    EXPECT_EQ(1600u, ledger.freeing_count);
    EXPECT_EQ(0u, ledger.LiveCount());
    EXPECT_EQ(1600u, pool.Stats().allocation_allocated);
}

TEST_P(AllocationCallbacks, AreCopiedAndTold)
{
    moiety_pool_options options = Options(), resolved = {};
    Pool pool(options);
    callbacks = {};
    resolved.struct_size = sizeof(resolved);
    ASSERT_OK(moiety_pool_get_options(pool, &resolved));
    ASSERT_NE(nullptr, resolved.allocation_callbacks);
    EXPECT_NE(&callbacks, resolved.allocation_callbacks);
    EXPECT_EQ(&ledger, resolved.allocation_callbacks->user);
    pool.Free(pool.Alloc(512));
    EXPECT_EQ(1u, ledger.freeing_count);
    Pool other;
    ASSERT_OK(moiety_pool_get_options(other, &resolved));
    EXPECT_EQ(nullptr, resolved.allocation_callbacks);
}

TEST_P(AllocationCallbacks, MayBeOneOfTheTwo)
{
    moiety_pool_options options = Options();
    callbacks.freeing = nullptr;
    Pool allocating(options);
    callbacks = ledger.Callbacks();
    moiety_devptr block = allocating.Alloc(512);
    allocating.Free(block);
    EXPECT_EQ(1u, ledger.allocated_count);
    EXPECT_EQ(0u, ledger.freeing_count);
}

TEST_P(AllocationCallbacks, ThatAreNoneAreRefused)
{
    moiety_pool_options options = Options();
    moiety_pool *pool = nullptr;
    auto refused = [&](const char *part) {
        EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_create(&options, &pool));
        EXPECT_NE(std::string::npos,
                  std::string(moiety_last_error_message()).find(part))
            << moiety_last_error_message();
        callbacks = ledger.Callbacks();
    };
    callbacks.struct_size--;
    refused("struct_size");
    callbacks.flags = 1;
    refused("flags");
    callbacks.allocated = callbacks.freeing = nullptr;
    refused("NULL");
    EXPECT_EQ(nullptr, pool);
}

} // namespace
