// SPDX-License-Identifier: Apache-2.0
//
// Pools of mapped memory (MOIETY_MEMORY_MAPPED): blocks across pieces, pieces that
// move under work that waits, and all that a pool offers on top.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "moiety/scope.h"
#include "moiety/tenant.h"
#include "tests/checked/captured_graph.h"
#include "tests/heap/heap_under_test.h"
#include "tests/pool/inventory.h"
#include "tests/pool/pool_under_test.h"
#include "tests/segment/fake_source.h"
#include "tests/support/tools/pools.h"

// The linker's names for the pool's clock and for ours, which a test may put
// forward.
extern "C" uint64_t __real_moietyi_now_ns(void);
extern "C" uint64_t __wrap_moietyi_now_ns(void);

static std::atomic<uint64_t> clock_ahead_ns{0};

uint64_t __wrap_moietyi_now_ns(void)
{
    return __real_moietyi_now_ns() + clock_ahead_ns;
}

namespace
{

constexpr uint64_t kHourNs = UINT64_C(3600) * 1000 * 1000 * 1000;

using checked_test::CapturedGraph;
using heap_test::Heap;
using namespace pool_test;

using MappedPool = StandinTest;

// No thread keeps a block, so that what is freed is free.
moiety_pool_options Mapped()
{
    moiety_pool_options options = driver_options();
    set_kind(&options, KIND_MAPPED);
    options.thread_cache_bytes = MOIETY_BYTES_NONE;
    return options;
}

// Whether the driver has an event of a context.
bool IsOldDriver()
{
    return std::getenv("MOIETY_STANDIN_DRIVER_VERSION") != nullptr;
}

void Set(moiety_devptr address, size_t size_bytes, uint32_t word,
         moiety_stream stream)
{
    EXPECT_EQ(
        CUDA_SUCCESS,
        (pool_test::Get<CUresult(CUdeviceptr, unsigned, size_t, CUstream)>(
            "cuMemsetD32Async")(address, word, size_bytes / 4, stream)));
}

void Copy(moiety_devptr to, moiety_devptr from, size_t size_bytes,
          moiety_stream stream)
{
    EXPECT_EQ(
        CUDA_SUCCESS,
        (pool_test::Get<CUresult(CUdeviceptr, CUdeviceptr, size_t, CUstream)>(
            "cuMemcpyDtoDAsync_v2")(to, from, size_bytes, stream)));
}

// Waits for nothing, as a stream is held: where there is no event of a context,
// an allocation that may wait does so for all work before it grows.
moiety_devptr AllocAtOnce(Pool &pool, size_t size_bytes, moiety_stream stream)
{
    moiety_devptr address = 0;
    EXPECT_OK(alloc_no_wait(pool, size_bytes, stream, &address));
    return address;
}

// What was freed behind two events, and what moved, needs a trim for each, with
// the device's work between them.
void ExpectAllGoesBack(Pool &pool)
{
    for (int i = 0; i < 4; i++)
        pool.TrimAll();
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
}

TEST_F(MappedPool, HasBlocksOfEverySize)
{
    Pool pool(Mapped());
    pool_test::Ranges ranges;
    std::vector<moiety_devptr> blocks;
    uint32_t word = 1;
    for (size_t size_bytes = 512; size_bytes <= 256 * kMiB; size_bytes *= 2)
        for (size_t more_bytes : {size_t{0}, size_bytes / 2 + 512}) {
            blocks.push_back(pool.Alloc(size_bytes + more_bytes));
            EXPECT_TRUE(ranges.Add(blocks.back(), size_bytes + more_bytes));
            pool_test::Fill(blocks.back(), 512, word);
            pool_test::Fill(blocks.back() + size_bytes + more_bytes - 512, 512,
                            word++);
        }
    word = 1;
    for (moiety_devptr block : blocks)
        EXPECT_TRUE(pool_test::Holds(block, 512, word++));
    for (moiety_devptr block : blocks)
        pool.Free(block);
    EXPECT_EQ(0u, pool.Stats().allocated_bytes_current);
    ExpectAllGoesBack(pool);
}

// Pieces of 4 MiB.
TEST_F(MappedPool, HasABlockAcrossPieces)
{
    Pool pool(Mapped());
    uint64_t creations = pool_test::Calls("cuMemCreate");
    moiety_devptr block = pool.Alloc(200 * kMiB);
    EXPECT_EQ(creations + 50, pool_test::Calls("cuMemCreate"));
    EXPECT_EQ(200 * kMiB, pool.Stats().reserved_bytes_current);
    pool_test::Fill(block, 200 * kMiB, 7);
    EXPECT_TRUE(pool_test::Holds(block, 200 * kMiB, 7));
    pool.Free(block);
}

TEST_F(MappedPool, JoinsFreePiecesToOneBlock)
{
    Pool pool(Mapped());
    std::vector<moiety_devptr> blocks;
    for (int i = 0; i < 3; i++)
        blocks.push_back(pool.Alloc(10 * kMiB));
    for (moiety_devptr block : blocks)
        pool.Free(block, MOIETY_STREAM_DONE);
    moiety_devptr block = pool.Alloc(30 * kMiB);
    EXPECT_EQ(30 * kMiB, pool.Stats().reserved_bytes_current);
    pool_test::Fill(block, 30 * kMiB, 9);
    EXPECT_TRUE(pool_test::Holds(block, 30 * kMiB, 9));
    pool.Free(block);
}

TEST_F(MappedPool, GrowsByWhatIsMissing)
{
    Pool pool(Mapped());
    pool.Free(pool.Alloc(10 * kMiB));
    moiety_devptr block = pool.Alloc(14 * kMiB);
    EXPECT_EQ(14 * kMiB, pool.Stats().reserved_bytes_current);
    EXPECT_EQ(0u, pool.Stats().mapped_moves);
    pool.Free(block);
}

TEST_F(MappedPool, MovesWhatIsDone)
{
    Pool pool(Mapped());
    moiety_devptr first = pool.Alloc(8 * kMiB);
    moiety_devptr keeper = pool.Alloc(2 * kMiB);
    pool.Free(first, MOIETY_STREAM_DONE);
    moiety_devptr block = pool.Alloc(12 * kMiB);
    EXPECT_EQ(keeper + 2 * kMiB, block);
    moiety_pool_stats stats = pool.Stats();
    EXPECT_EQ(2u, stats.mapped_moves);
    EXPECT_EQ(8 * kMiB, stats.mapped_moved_bytes);
    EXPECT_EQ(0u, stats.mapped_left_bytes);
    EXPECT_EQ(14 * kMiB, stats.reserved_bytes_current);
    pool.Free(block);
    pool.Free(keeper);
}

// Two of three pieces are wanted side by side, and the third is between them.
void MoveOnce(Pool *pool)
{
    moiety_devptr before = pool->Alloc(8 * kMiB);
    moiety_devptr keeper = pool->Alloc(8 * kMiB);
    moiety_devptr behind = pool->Alloc(8 * kMiB);
    pool->Free(before, MOIETY_STREAM_DONE);
    pool->Free(behind, MOIETY_STREAM_DONE);
    moiety_devptr block = pool->Alloc(16 * kMiB);
    pool->Free(block, MOIETY_STREAM_DONE);
    pool->Free(keeper, MOIETY_STREAM_DONE);
}

// Of its time, the moves are a small part.
TEST_F(MappedPool, MovesAsOftenAsAProgramWantsThatHasTimeForIt)
{
    Pool pool(Mapped());
    MoveOnce(&pool);
    const uint64_t reserved = pool.Stats().reserved_bytes_current;
    for (int i = 0; i < 10; i++) {
        clock_ahead_ns += kHourNs;
        MoveOnce(&pool);
    }
    EXPECT_LE(10u, pool.Stats().mapped_moves);
    EXPECT_EQ(reserved, pool.Stats().reserved_bytes_current);
}

TEST_F(MappedPool, GrowsWhereAProgramDoesNothingButMove)
{
    Pool pool(Mapped());
    MoveOnce(&pool);
    const uint64_t reserved = pool.Stats().reserved_bytes_current;
    int rounds = 0;
    while (pool.Stats().reserved_bytes_current == reserved && rounds < 10000) {
        MoveOnce(&pool);
        rounds++;
    }
    EXPECT_LT(reserved, pool.Stats().reserved_bytes_current);
}

// Both addresses are of the same memory, and the stream's work is in order.
TEST_F(MappedPool, MovesUnderWorkThatWaits)
{
    Pool pool(Mapped());
    Stream stream;
    moiety_devptr first = pool.Alloc(8 * kMiB, stream);
    moiety_devptr keeper = pool.Alloc(8 * kMiB, stream);
    stream.Hold();
    Set(first, 8 * kMiB, 1, stream);
    Copy(keeper, first, 8 * kMiB, stream);
    pool.Free(first, stream);
    moiety_devptr block = AllocAtOnce(pool, 12 * kMiB, stream);
    Set(block, 12 * kMiB, 2, stream);
    moiety_pool_stats stats = pool.Stats();
    EXPECT_EQ(IsOldDriver() ? 0u : 2u, stats.mapped_moves);
    EXPECT_EQ(IsOldDriver() ? 0u : 8 * kMiB, stats.mapped_left_bytes);
    EXPECT_EQ(IsOldDriver() ? 28 * kMiB : 20 * kMiB,
              stats.reserved_bytes_current);
    Heap(pool).ExpectStatsOfMapped(pool);
    stream.Release();
    pool_test::Synchronize();
    EXPECT_TRUE(pool_test::Holds(keeper, 8 * kMiB, 1));
    EXPECT_TRUE(pool_test::Holds(block, 12 * kMiB, 2));
    pool.TrimAll();
    EXPECT_EQ(0u, pool.Stats().mapped_left_bytes) << "an event has passed";
    pool.Free(block, MOIETY_STREAM_DONE);
    pool.Free(keeper, MOIETY_STREAM_DONE);
    ExpectAllGoesBack(pool);
}

// What one stream freed serves no other before its work is over.
TEST_F(MappedPool, MovesNothingOfAnotherStream)
{
    Pool pool(Mapped());
    Stream mine, other;
    moiety_devptr first = pool.Alloc(8 * kMiB, other);
    moiety_devptr keeper = pool.Alloc(2 * kMiB, other);
    other.Hold();
    Set(first, 8 * kMiB, 1, other);
    pool.Free(first, other);
    moiety_devptr block = AllocAtOnce(pool, 12 * kMiB, mine);
    EXPECT_EQ(0u, pool.Stats().mapped_moves);
    other.Release();
    pool.Free(block, mine);
    pool.Free(keeper, other);
}

TEST_F(MappedPool, MovesNothingOfAStreamThatCaptures)
{
    Pool pool(Mapped());
    Stream stream;
    moiety_devptr first = pool.Alloc(8 * kMiB, stream);
    moiety_devptr keeper = pool.Alloc(2 * kMiB, stream);
    stream.Hold();
    Set(first, 8 * kMiB, 1, stream);
    pool.Free(first, stream);
    moiety_scope scope = 0;
    ASSERT_EQ(MOIETY_OK, moiety_scope_begin(pool, stream, &scope));
    CapturedGraph graph(stream);
    moiety_devptr block = AllocAtOnce(pool, 12 * kMiB, stream);
    EXPECT_EQ(0u, pool.Stats().mapped_moves);
    Set(block, 4, 1, stream);
    EXPECT_EQ(1u, graph.End());
    EXPECT_OK(moiety_scope_end(scope));
    stream.Release();
    EXPECT_OK(moiety_scope_release(scope));
    pool.Free(block);
    pool.Free(keeper);
}

// Blocks of 2 to 40 MiB that come and go, of which every second stays.
void Churn(Pool &pool, moiety_stream stream)
{
    pool_test::Ranges ranges;
    std::vector<moiety_devptr> kept;
    for (size_t size_bytes = 2 * kMiB; size_bytes <= 40 * kMiB;
         size_bytes += 2 * kMiB) {
        moiety_devptr gone = pool.Alloc(size_bytes, stream);
        moiety_devptr stays = pool.Alloc(2 * kMiB, stream);
        EXPECT_TRUE(ranges.Add(stays, 2 * kMiB));
        Set(stays, 2 * kMiB, static_cast<uint32_t>(size_bytes), stream);
        Set(gone, 64 * kKiB, 0, stream);
        Set(gone + size_bytes - 64 * kKiB, 64 * kKiB, 0, stream);
        kept.push_back(stays);
        pool.Free(gone, stream);
    }
    pool_test::Synchronize();
    for (size_t i = 0; i < kept.size(); i++) {
        EXPECT_TRUE(pool_test::Holds(
            kept[i], 2 * kMiB, static_cast<uint32_t>((i + 1) * 2 * kMiB)));
        pool.Free(kept[i], stream);
    }
}

TEST_F(MappedPool, LosesNothingByManyMoves)
{
    Pool pool(Mapped());
    Stream stream;
    Churn(pool, stream);
    moiety_pool_stats stats = pool.Stats();
    EXPECT_LT(10u, stats.mapped_moves);
    EXPECT_EQ(stats.segment_current,
              stats.segment_allocated - stats.segment_freed);
    // 20 blocks that stay, and the largest of the others.
    EXPECT_LE(pool.Stats().reserved_bytes_peak, 128 * kMiB);
    Heap heap(pool);
    EXPECT_EQ(0u, heap.Count(MOIETY_HEAP_LOST));
    EXPECT_EQ(0u, heap.Count(MOIETY_HEAP_USED));
    heap.ExpectStatsOfMapped(pool);
}

TEST_F(MappedPool, IsWholeInASnapshotWhileAPlaceIsLeft)
{
    Pool pool(Mapped());
    Stream stream;
    moiety_devptr first = pool.Alloc(8 * kMiB, stream);
    moiety_devptr keeper = pool.Alloc(2 * kMiB, stream);
    stream.Hold();
    pool.Free(first, stream);
    moiety_devptr block = AllocAtOnce(pool, 10 * kMiB, stream);
    Heap heap(pool);
    EXPECT_EQ(0u, heap.Count(MOIETY_HEAP_LOST));
    EXPECT_EQ(2u, heap.Count(MOIETY_HEAP_USED));
    uint64_t bytes = 0;
    for (const moiety_heap_segment &segment : heap.segments())
        bytes += segment.size_bytes;
    EXPECT_EQ(pool.Stats().reserved_bytes_current, bytes);
    heap.ExpectStatsOfMapped(pool);
    stream.Release();
    pool.Free(block);
    pool.Free(keeper);
}

TEST_F(MappedPool, ReportsLeaks)
{
    Pool pool(Mapped());
    Stream stream;
    moiety_devptr first = pool.Alloc(8 * kMiB, stream);
    moiety_devptr keeper = pool.Alloc(2 * kMiB, stream);
    pool.Free(first, stream);
    moiety_devptr block = pool.Alloc(100 * kMiB, stream);
    moiety_leaks leaks = pool.End();
    EXPECT_EQ(2u, leaks.block_count);
    EXPECT_EQ(102 * kMiB, leaks.bytes);
    ASSERT_EQ(2u, leaks.address_count);
    EXPECT_EQ(keeper + block, leaks.addresses[0] + leaks.addresses[1]);
}

TEST_F(MappedPool, HasTenants)
{
    Pool pool(Mapped());
    moiety_tenant tenant = 0;
    ASSERT_EQ(MOIETY_OK, create_tenant(pool, "one", 100 * kMiB, &tenant));
    moiety_devptr block = 0, none = 0;
    EXPECT_OK(
        alloc_for_tenant(tenant, 80 * kMiB, MOIETY_STREAM_LEGACY, &block));
    EXPECT_EQ(MOIETY_E_BUDGET,
              alloc_for_tenant(tenant, 30 * kMiB, MOIETY_STREAM_LEGACY, &none));
    pool.Free(block);
    EXPECT_OK(moiety_tenant_destroy(tenant));
}

// The graph's block was freed while it was captured, and stays where it is.
TEST_F(MappedPool, KeepsAGraphsMemoryWhilePiecesMove)
{
    Pool pool(Mapped());
    Stream stream, other;
    moiety_scope scope = 0;
    ASSERT_EQ(MOIETY_OK, moiety_scope_begin(pool, stream, &scope));
    CapturedGraph graph(stream);
    moiety_devptr block = pool.Alloc(6 * kMiB, stream);
    Set(block, 6 * kMiB, 3, stream);
    EXPECT_OK(moiety_free(pool, block, stream));
    EXPECT_EQ(1u, graph.End());
    EXPECT_OK(moiety_scope_end(scope));
    for (moiety_stream user : {moiety_stream(stream), moiety_stream(other)}) {
        Churn(pool, user);
        EXPECT_LT(10u, pool.Stats().mapped_moves);
        graph.Launch(stream);
        pool_test::Synchronize();
        EXPECT_TRUE(pool_test::Holds(block, 6 * kMiB, 3));
        pool_test::Fill(block, 6 * kMiB, 0);
    }
    EXPECT_EQ(6 * kMiB, Heap(pool).Bytes(MOIETY_HEAP_KEPT));
    EXPECT_OK(moiety_scope_release(scope));
    ExpectAllGoesBack(pool);
}

TEST_F(MappedPool, MovesAtItsLimit)
{
    moiety_pool_options options = Mapped();
    options.limit_bytes = 32 * kMiB;
    Pool pool(options);
    std::vector<moiety_devptr> blocks;
    for (int i = 0; i < 8; i++)
        blocks.push_back(pool.Alloc(4 * kMiB));
    for (int i = 0; i < 8; i += 2)
        pool.Free(blocks[i], MOIETY_STREAM_DONE);
    moiety_devptr block = 0;
    EXPECT_OK(alloc_no_wait(pool, 16 * kMiB, MOIETY_STREAM_LEGACY, &block));
    EXPECT_LE(3u, pool.Stats().mapped_moves);
    EXPECT_EQ(32 * kMiB, pool.Stats().reserved_bytes_current);
    pool_test::Fill(block, 16 * kMiB, 4);
    EXPECT_TRUE(pool_test::Holds(block, 16 * kMiB, 4));
    moiety_devptr none = 0;
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, 512, MOIETY_STREAM_LEGACY, &none));
    pool.Free(block);
    for (int i = 1; i < 8; i += 2)
        pool.Free(blocks[i]);
}

TEST_F(MappedPool, IsMadeByTheEnvironmentToo)
{
    setenv("MOIETY_CONF", "memory:mapped", 1);
    moiety_pool_options options = driver_options();
    options.thread_cache_bytes = MOIETY_BYTES_NONE;
    uint64_t creations = pool_test::Calls("cuMemCreate");
    Pool pool(options);
    unsetenv("MOIETY_CONF");
    pool.Free(pool.Alloc(10 * kMiB));
    EXPECT_LT(creations, pool_test::Calls("cuMemCreate"));
}

uint64_t ReservationsOfAPool()
{
    uint64_t before = pool_test::Calls("cuMemAddressReserve");
    Pool pool(Mapped());
    pool.Free(pool.Alloc(2 * kMiB));
    return pool_test::Calls("cuMemAddressReserve") - before;
}

// The addresses of pools that ended are there for the next: none is halved more
// often for them.
TEST_F(MappedPool, HasAsManyAddressesHoweverManyThereWere)
{
    uint64_t first = ReservationsOfAPool();
    for (int i = 0; i < 150; i++)
        ASSERT_EQ(first, ReservationsOfAPool()) << i;
}

// What is refused leaves nothing behind.
void ExpectRefused(const moiety_pool_options &options, moiety_status status,
                   const char *message)
{
    pool_test::Inventory inventory;
    moiety_pool *pool = nullptr;
    EXPECT_EQ(status, moiety_pool_create(&options, &pool));
    EXPECT_EQ(nullptr, pool);
    EXPECT_NE(std::string::npos,
              std::string(moiety_last_error_message()).find(message))
        << moiety_last_error_message();
    inventory.ExpectUnchanged();
}

TEST_F(MappedPool, HasNoSourceOfItsOwn)
{
    segment_test::FakeSource source;
    moiety_source table = source.Table();
    moiety_pool_options options = Mapped();
    options.source = &table;
    ExpectRefused(options, MOIETY_E_INVALID,
                  "memory is mapped; accepted are auto and driver where the "
                  "pool has a source");
}

TEST_F(MappedPool, HasNoHandlesForOtherProcesses)
{
    Pool pool(Mapped());
    moiety_devptr block = pool.Alloc(4 * kMiB);
    moiety_ipc_handle handle;
    EXPECT_NE(MOIETY_OK, moiety_ipc_export(pool, block, &handle));
    pool.Free(block);
}

bool IsMapped(const moiety_pool_options &options)
{
    uint64_t creations = pool_test::Calls("cuMemCreate");
    uint64_t allocations = pool_test::Calls("cuMemAlloc_v2");
    Pool pool(options);
    pool.Free(pool.Alloc(4 * kMiB));
    creations = pool_test::Calls("cuMemCreate") - creations;
    allocations = pool_test::Calls("cuMemAlloc_v2") - allocations;
    EXPECT_NE(creations == 0, allocations == 0);
    return creations != 0;
}

moiety_pool_options Preferred()
{
    moiety_pool_options options = Mapped();
    set_kind(&options, KIND_AUTO);
    return options;
}

TEST_F(MappedPool, IsPreferredWhereThereIsSuchMemory)
{
    EXPECT_TRUE(IsMapped(Preferred()));
    moiety_pool_options shared = Preferred();
    shared.flags |= MOIETY_POOL_EXPORTABLE;
    EXPECT_FALSE(IsMapped(shared));
    pool_test::SetFaults("cuMemGetAllocationGranularity:every=1:code="
                         "CUDA_ERROR_NOT_SUPPORTED");
    EXPECT_FALSE(IsMapped(Preferred()));
    ExpectRefused(Mapped(), MOIETY_E_UNSUPPORTED,
                  "cuMemGetAllocationGranularity");
    pool_test::SetFaults("");
}

TEST_F(MappedPool, IsTheDefaultWhereThereIsSuchMemory)
{
    moiety_pool_options options = {};
    options.struct_size = sizeof(options);
    EXPECT_TRUE(IsMapped(options));
    EXPECT_TRUE(IsMapped(MOIETY_POOL_OPTIONS_INIT));
    options.flags = MOIETY_POOL_EXPORTABLE;
    EXPECT_FALSE(IsMapped(options));
    options.flags = 0;
    options.memory = MOIETY_MEMORY_DRIVER;
    EXPECT_FALSE(IsMapped(options));
    options.memory = MOIETY_MEMORY_AUTO;
    pool_test::SetFaults("cuMemGetAllocationGranularity:every=1:code="
                         "CUDA_ERROR_NOT_SUPPORTED");
    EXPECT_FALSE(IsMapped(options));
    pool_test::SetFaults("");
}

// What became of it, as the pool says itself.
moiety_memory MemoryOf(const moiety_pool_options &wanted)
{
    moiety_pool *pool = nullptr;
    moiety_pool_options options = {};
    options.struct_size = sizeof(options);
    EXPECT_OK(moiety_pool_create(&wanted, &pool));
    EXPECT_OK(moiety_pool_get_options(pool, &options));
    EXPECT_OK(moiety_pool_destroy(pool, nullptr));
    return options.memory;
}

TEST_F(MappedPool, IsToldOrTheDriversWhateverWasWanted)
{
    segment_test::FakeSource source;
    moiety_source table = source.Table();
    moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
    EXPECT_EQ(MOIETY_MEMORY_MAPPED, MemoryOf(options));
    options.mode = MOIETY_MODE_PASS_THROUGH;
    EXPECT_EQ(MOIETY_MEMORY_DRIVER, MemoryOf(options));
    options = MOIETY_POOL_OPTIONS_INIT;
    options.source = &table;
    EXPECT_EQ(MOIETY_MEMORY_DRIVER, MemoryOf(options));
    options.memory = MOIETY_MEMORY_DRIVER;
    EXPECT_EQ(MOIETY_MEMORY_DRIVER, MemoryOf(options));
}

TEST_F(MappedPool, IsPreferredToNoSourceOfTheProgram)
{
    segment_test::FakeSource source;
    moiety_source table = source.Table();
    moiety_pool_options options = Preferred();
    options.source = &table;
    {
        Pool pool(options);
        pool.Free(pool.Alloc(4 * kMiB), MOIETY_STREAM_DONE);
    }
    EXPECT_EQ(1u, source.Asked().size());
    EXPECT_EQ("", source.Complaint());
}

// Nor does a pool lack memory where the driver does not say what it has.
TEST_F(MappedPool, IsNotPreferredWhereTheDriverFails)
{
    pool_test::SetFaults("cuMemGetAllocationGranularity:nth=1:code="
                         "CUDA_ERROR_UNKNOWN");
    EXPECT_FALSE(IsMapped(Preferred()));
    pool_test::SetFaults("");
}

TEST_F(MappedPool, IsUnsupportedWhereTheDriverSaysSo)
{
    pool_test::SetFaults("cuMemGetAllocationGranularity:nth=1:code="
                         "CUDA_ERROR_NOT_SUPPORTED");
    ExpectRefused(Mapped(), MOIETY_E_UNSUPPORTED,
                  "cuMemGetAllocationGranularity");
    pool_test::SetFaults("");
}

} // namespace
