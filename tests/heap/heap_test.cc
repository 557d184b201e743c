// SPDX-License-Identifier: Apache-2.0
//
// Each state that memory can be in, seen once in a snapshot.
#include <gtest/gtest.h>

#include <sys/syscall.h>
#include <unistd.h>

#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/heap/heap_under_test.h"
#include "tests/pool/pool_under_test.h"
#include "tests/segment/fake_source.h"
#include "tests/support/tools/pools.h"

namespace
{

using heap_test::Heap;
using namespace pool_test;

using HeapTest = StandinTest;

TEST_F(HeapTest, OfANewPoolIsEmpty)
{
    Pool pool;
    Heap heap(pool);
    EXPECT_EQ(0u, heap.summary().segment_count);
    EXPECT_EQ(0u, heap.summary().interval_count);
    heap.ExpectStatsOf(pool);
}

TEST_F(HeapTest, HasABlockInUse)
{
    Pool pool;
    moiety_devptr address = pool.Alloc(100 * kKiB);
    Heap heap(pool);
    moiety_heap_interval block = heap.At(address);
    EXPECT_EQ(static_cast<uint32_t>(MOIETY_HEAP_USED), block.kind);
    EXPECT_EQ(pool.UsableSize(address), block.size_bytes);
    EXPECT_EQ(1u, heap.Count(MOIETY_HEAP_USED));
    heap.ExpectStatsOf(pool);
    pool.Free(address);
}

uint32_t ThreadId()
{
    return static_cast<uint32_t>(syscall(SYS_gettid));
}

// Threads' caches that hold next to nothing.
moiety_pool_options Tight()
{
    moiety_pool_options options = pool_test::Defaults();
    options.thread_cache_bytes = kMiB;
    return options;
}

TEST_F(HeapTest, HasTheTailOfARunFree)
{
    Pool pool;
    moiety_devptr run = pool.Alloc(3 * kMiB + 1);
    Heap heap(pool);
    EXPECT_EQ(3 * kMiB + 512, heap.At(run).size_bytes);
    moiety_heap_interval tail = heap.At(run + 3 * kMiB + 512);
    EXPECT_EQ(static_cast<uint32_t>(MOIETY_HEAP_FREE), tail.kind);
    EXPECT_EQ(29 * kMiB - 512, tail.size_bytes);
    heap.ExpectStatsOf(pool);
    pool.Free(run);
}

TEST_F(HeapTest, HasWhatAThreadHasCached)
{
    Pool pool;
    Stream stream;
    moiety_devptr block = pool.Alloc(64 * kKiB, stream);
    pool.Free(block, stream);
    Heap heap(pool);
    moiety_heap_interval cached = heap.At(block);
    EXPECT_EQ(static_cast<uint32_t>(MOIETY_HEAP_CACHED), cached.kind);
    EXPECT_EQ(ThreadId(), cached.thread_id);
    EXPECT_EQ(stream, cached.stream);
    heap.ExpectStatsOf(pool);
    // It is where it was.
    EXPECT_EQ(block, pool.Alloc(64 * kKiB, stream));
    pool.Free(block, MOIETY_STREAM_ANY);
    EXPECT_EQ(MOIETY_STREAM_ANY, Heap(pool).At(block).stream);
    block = pool.Alloc(96 * kKiB);
    pool.Free(block, MOIETY_STREAM_DONE);
    EXPECT_EQ(MOIETY_STREAM_DONE, Heap(pool).At(block).stream);
    block = pool.Alloc(kKiB, MOIETY_STREAM_PER_THREAD);
    pool.Free(block, MOIETY_STREAM_PER_THREAD);
    EXPECT_EQ(MOIETY_STREAM_PER_THREAD, Heap(pool).At(block).stream);
}

TEST_F(HeapTest, HasWhatOtherThreadsHaveCached)
{
    Pool pool;
    std::promise<std::pair<moiety_devptr, uint32_t>> cached;
    std::promise<void> end;
    std::thread other([&] {
        moiety_devptr block = pool.Alloc(64 * kKiB);
        pool.Free(block);
        cached.set_value({block, ThreadId()});
        end.get_future().wait();
    });
    std::pair<moiety_devptr, uint32_t> found = cached.get_future().get();
    Heap heap(pool);
    EXPECT_EQ(static_cast<uint32_t>(MOIETY_HEAP_CACHED),
              heap.At(found.first).kind);
    EXPECT_EQ(found.second, heap.At(found.first).thread_id);
    end.set_value();
    other.join();
    // Now it has ended, and nobody has taken its caches yet. A call that is no
    // hit would; a snapshot is none that allocates.
    Heap later(pool);
    EXPECT_EQ(static_cast<uint32_t>(MOIETY_HEAP_CACHED),
              later.At(found.first).kind);
    EXPECT_EQ(0u, later.At(found.first).thread_id);
    later.ExpectStatsOf(pool);
}

TEST_F(HeapTest, HasWhatIsRetiringAndSinceWhen)
{
    Pool pool(Tight());
    Stream stream;
    moiety_devptr run = pool.Alloc(20 * kMiB, stream);
    stream.Hold();
    pool.Free(run, stream);
    Heap first(pool);
    moiety_heap_interval fresh = first.At(run);
    EXPECT_EQ(static_cast<uint32_t>(MOIETY_HEAP_RETIRING), fresh.kind);
    EXPECT_EQ(0u, fresh.thread_id);
    EXPECT_EQ(stream, fresh.stream);
    EXPECT_EQ(0u, fresh.age_ns);
    first.ExpectStatsOf(pool);
    // From the event on.
    pool.Trim();
    Heap second(pool);
    moiety_heap_interval ageing = second.At(run);
    EXPECT_EQ(static_cast<uint32_t>(MOIETY_HEAP_RETIRING), ageing.kind);
    EXPECT_EQ(stream, ageing.stream);
    EXPECT_LT(0u, ageing.age_ns);
    second.ExpectStatsOf(pool);
    stream.Release();
}

TEST_F(HeapTest, HasRecordedUses)
{
    Pool pool;
    Stream first, second;
    second.Hold();
    moiety_devptr block = pool.Alloc(kKiB, first);
    EXPECT_EQ(0u, Heap(pool).At(block).flags);
    ASSERT_OK(moiety_record_use(pool, block, second));
    EXPECT_EQ(MOIETY_HEAP_SPECIAL, Heap(pool).At(block).flags);
    pool.Free(block, first);
    Heap heap(pool);
    EXPECT_EQ(static_cast<uint32_t>(MOIETY_HEAP_RETIRING), heap.At(block).kind);
    EXPECT_EQ(MOIETY_STREAM_ANY, heap.At(block).stream);
    EXPECT_EQ(0u, heap.At(block).flags);
    heap.ExpectStatsOf(pool);
    second.Release();
}

TEST_F(HeapTest, HasWhatIsExportedAndWhatIsKept)
{
    moiety_pool_options options = pool_test::Defaults();
    options.flags = MOIETY_POOL_EXPORTABLE;
    Pool pool(options);
    moiety_ipc_handle handle;
    moiety_devptr block = pool.Alloc(kKiB);
    ASSERT_OK(moiety_ipc_export(pool, block, &handle));
    EXPECT_EQ(static_cast<uint32_t>(MOIETY_HEAP_USED),
              Heap(pool).At(block).kind);
    EXPECT_EQ(MOIETY_HEAP_EXPORTED | MOIETY_HEAP_SPECIAL,
              Heap(pool).At(block).flags);
    pool.Free(block);
    Heap heap(pool);
    EXPECT_EQ(static_cast<uint32_t>(MOIETY_HEAP_KEPT), heap.At(block).kind);
    EXPECT_EQ(1u, heap.Count(MOIETY_HEAP_KEPT));
    heap.ExpectStatsOf(pool);
    ASSERT_OK(moiety_ipc_release_exports(pool, block));
    EXPECT_EQ(0u, Heap(pool).Count(MOIETY_HEAP_KEPT));
}

TEST_F(HeapTest, HasWhatACaptureScopeKeeps)
{
    using pool_test::Get;
    Pool pool;
    pool_test::Stream stream;
    moiety_scope scope = 0;
    void *graph = nullptr;
    ASSERT_EQ(MOIETY_OK, moiety_scope_begin(pool, stream, &scope));
    ASSERT_EQ(
        0, Get<int(moiety_stream, int)>("cuStreamBeginCapture_v2")(stream, 0));
    moiety_devptr live = pool.Alloc(kKiB, stream);
    moiety_devptr freed = pool.Alloc(kKiB, stream);
    pool.Free(freed, stream);
    ASSERT_EQ(0, (Get<int(moiety_stream, void **)>("cuStreamEndCapture")(
                     stream, &graph)));
    ASSERT_OK(moiety_scope_end(scope));
    Heap heap(pool);
    EXPECT_EQ(static_cast<uint32_t>(MOIETY_HEAP_USED), heap.At(live).kind);
    EXPECT_EQ(static_cast<uint32_t>(MOIETY_HEAP_KEPT), heap.At(freed).kind);
    EXPECT_EQ(1u, heap.Count(MOIETY_HEAP_KEPT));
    heap.ExpectStatsOf(pool);
    ASSERT_OK(moiety_scope_release(scope));
    EXPECT_EQ(0u, Heap(pool).Count(MOIETY_HEAP_KEPT));
    EXPECT_EQ(0, Get<int(void *)>("cuGraphDestroy")(graph));
    pool.Free(live);
}

TEST_F(HeapTest, HasEverySegmentAsTheSourceGaveIt)
{
    segment_test::FakeSource source;
    source.misaligned_bytes = 4096;
    moiety_source table = source.Table();
    moiety_pool_options options = pool_test::Defaults();
    options.source = &table;
    options.first_segment_bytes = 2 * kMiB;
    options.largest_segment_bytes = 4 * kMiB;
    Pool pool(options);
    std::vector<moiety_devptr> runs;
    for (unsigned i = 0; i < 3; i++)
        runs.push_back(pool.Alloc(2 * kMiB));
    Heap heap(pool);
    EXPECT_EQ(source.Live().size(), heap.segments().size());
    for (const moiety_heap_segment &segment : heap.segments()) {
        EXPECT_EQ(1u, source.Live().count(segment.memory));
        EXPECT_LT(segment.memory, segment.address);
        EXPECT_LT(segment.size_bytes, segment.memory_bytes);
        EXPECT_EQ(0u, segment.address % (2 * kMiB));
    }
    heap.ExpectStatsOf(pool);
    for (moiety_devptr run : runs)
        pool.Free(run, MOIETY_STREAM_DONE);
    pool.TrimAll();
    EXPECT_TRUE(Heap(pool).segments().empty());
}

// With bounds, and until it serves again: so not what the statistics count.
TEST_F(HeapTest, HasTheBlocksOfACheckedPoolInUse)
{
    moiety_pool_options options = pool_test::Defaults();
    set_kind(&options, KIND_CHECKED | MOIETY_POOL_CHECKED_QUIET);
    Pool pool(options);
    moiety_devptr kept = pool.Alloc(1000), freed = pool.Alloc(2000);
    pool.Free(freed, MOIETY_STREAM_DONE);
    Heap heap(pool);
    EXPECT_EQ(2u, heap.Count(MOIETY_HEAP_USED));
    EXPECT_LE(3000u, heap.Bytes(MOIETY_HEAP_USED));
    EXPECT_EQ(1000u, pool.Stats().allocated_bytes_current);
    EXPECT_EQ(pool.Stats().reserved_bytes_current,
              heap.Bytes(MOIETY_HEAP_USED) + heap.Bytes(MOIETY_HEAP_CACHED) +
                  heap.Bytes(MOIETY_HEAP_FREE));
    pool.Free(kept);
}

TEST_F(HeapTest, OutlivesThePool)
{
    segment_test::FakeSource source;
    moiety_heap_snapshot *snapshot = nullptr;
    {
        moiety_source table = source.Table();
        const std::string name = "short-lived";
        table.name = name.c_str();
        moiety_pool_options options = pool_test::Defaults();
        options.source = &table;
        Pool pool(options);
        pool.Free(pool.Alloc(kKiB), MOIETY_STREAM_DONE);
        ASSERT_OK(moiety_heap_snapshot_create(pool, &snapshot));
    }
    moiety_heap_summary summary = {};
    summary.struct_size = sizeof(summary);
    ASSERT_OK(moiety_heap_snapshot_summary(snapshot, &summary));
    EXPECT_STREQ("short-lived", summary.source_name);
    EXPECT_EQ(1u, summary.segment_count);
    EXPECT_LT(0u, summary.time_ns);
    EXPECT_LT(0u, summary.stopped_ns);
    size_t count = 0;
    EXPECT_EQ(moiety_heap_snapshot_intervals(snapshot, nullptr),
              moiety_heap_snapshot_intervals(snapshot, &count));
    EXPECT_EQ(summary.interval_count, count);
    moiety_heap_snapshot_destroy(snapshot);
}

TEST_F(HeapTest, ChecksItsArguments)
{
    Pool pool;
    moiety_heap_snapshot *snapshot = nullptr;
    moiety_heap_summary summary = {};
    size_t count = 7;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_heap_snapshot_create(pool, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_heap_snapshot_create(nullptr, &snapshot));
    EXPECT_EQ(nullptr, moiety_heap_snapshot_segments(nullptr, &count));
    EXPECT_EQ(0u, count);
    EXPECT_EQ(nullptr, moiety_heap_snapshot_intervals(nullptr, nullptr));
    ASSERT_OK(moiety_heap_snapshot_create(pool, &snapshot));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_heap_snapshot_summary(snapshot, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_heap_snapshot_summary(snapshot, &summary));
    summary.struct_size = sizeof(summary);
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_heap_snapshot_summary(nullptr, &summary));
    moiety_heap_snapshot_destroy(snapshot);
    moiety_heap_snapshot_destroy(nullptr);
    moiety_pool *gone = pool;
    pool.End();
    EXPECT_EQ(MOIETY_E_DESTROYED, moiety_heap_snapshot_create(gone, &snapshot));
}

TEST_F(HeapTest, NamesTheKinds)
{
    const char *const names[] = {"free", "used", "cached", "retiring",
                                 "kept", "lost", "unknown"};
    for (uint32_t i = 0; i <= MOIETY_HEAP_KINDS; i++)
        EXPECT_STREQ(names[i], moiety_heap_kind_name(i));
}

} // namespace
