// SPDX-License-Identifier: Apache-2.0
//
// The report of a failed allocation, where nothing else is going on: then every
// number of it is known.
#include <cstddef>

#include "tests/pool/oom/oom_under_test.h"
#include "tests/support/tools/pools.h"

namespace oom_test
{

// Version 0.1.0 of the struct; fields may only be appended.
static_assert(offsetof(moiety_oom_report, struct_size) == 0, "moved");
static_assert(offsetof(moiety_oom_report, status) == 4, "moved");
static_assert(offsetof(moiety_oom_report, pool) == 8, "moved");
static_assert(offsetof(moiety_oom_report, requested_bytes) == 24, "moved");
static_assert(offsetof(moiety_oom_report, steps) == 168, "moved");
static_assert(offsetof(moiety_oom_report, streams) == 368, "moved");
static_assert(sizeof(moiety_oom_stream) == 40, "changed");
static_assert(offsetof(moiety_oom_report, source_name) == 688, "moved");
static_assert(offsetof(moiety_oom_report, other_pool_count) == 720, "moved");
static_assert(offsetof(moiety_oom_report, grow_reason) == 736, "moved");
static_assert(offsetof(moiety_oom_report, unrecorded_bytes) == 864, "moved");
static_assert(sizeof(moiety_oom_report) == 888, "changed");

class OomReport : public OomTest
{
};

TEST_F(OomReport, IsEmptyBeforeAFailure)
{
    Pool pool;
    moiety_oom_report report = LastOom(pool);
    EXPECT_EQ(sizeof(report), report.struct_size);
    EXPECT_EQ(static_cast<uint32_t>(MOIETY_OK), report.status);
    EXPECT_EQ(0u, report.requested_bytes);
    EXPECT_EQ(0u, report.limit_bytes);
}

TEST_F(OomReport, NeedsAPoolAndAPlace)
{
    Pool pool;
    moiety_oom_report report = {};
    report.struct_size = sizeof(report);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_last_oom(nullptr, &report));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_last_oom(pool, nullptr));
    report.struct_size = 687;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_last_oom(pool, &report));
    report.struct_size = sizeof(report) + 8;
    EXPECT_OK(moiety_pool_last_oom(pool, &report));
    EXPECT_EQ(sizeof(report), report.struct_size);
}

/* As it was in version 0.1.0. */
TEST_F(OomReport, FillsAnOlderStructAndNothingBehindIt)
{
    Pool pool;
    moiety_oom_report report = {};
    report.struct_size = 688;
    report.source_name[0] = 'x';
    EXPECT_OK(moiety_pool_last_oom(pool, &report));
    EXPECT_EQ(688u, report.struct_size);
    EXPECT_EQ('x', report.source_name[0]);
}

TEST_F(OomReport, NamesTheSource)
{
    moiety_source source = {};
    source.struct_size = sizeof(source);
    source.reserve = [](void *, size_t, moiety_devptr *) {
        return MOIETY_E_NO_DEVICE_MEMORY;
    };
    source.release = [](void *, moiety_devptr, size_t) { return MOIETY_OK; };
    moiety_pool_options options = Small();
    Pool driver(options);
    std::vector<moiety_devptr> blocks = Fill(driver, kMiB);
    EXPECT_STREQ("cuMemAlloc", Fail(driver, kMiB).source_name);
    FreeAll(driver, blocks);
    options.source = &source;
    source.name = "a name of as many bytes as 31 is";
    Pool named(options);
    EXPECT_STREQ("a name of as many bytes as 31 i",
                 Fail(named, kMiB).source_name);
}

TEST_F(OomReport, SaysWhatWasAskedFor)
{
    Pool pool(Small());
    Stream stream;
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    moiety_oom_report report = Fail(pool, 70000, stream);
    EXPECT_EQ(static_cast<uint32_t>(MOIETY_E_NO_DEVICE_MEMORY), report.status);
    EXPECT_EQ(static_cast<moiety_pool *>(pool), report.pool);
    EXPECT_EQ(static_cast<moiety_stream>(stream), report.stream);
    EXPECT_EQ(70000u, report.requested_bytes);
    EXPECT_EQ(137u * 512u, report.needed_bytes);
    EXPECT_EQ(512u, report.alignment_bytes);
    EXPECT_EQ(1u, report.is_exact);
    EXPECT_GT(report.duration_ns, 0u);
    FreeAll(pool, blocks);
}

TEST_F(OomReport, CountsGrainsAboveOneMebibyteToo)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB, 7 * kMiB);
    moiety_oom_report report = Fail(pool, kMiB + 1);
    EXPECT_EQ(kMiB + 512, report.needed_bytes);
    EXPECT_EQ(512u, report.alignment_bytes);
    EXPECT_EQ(kMiB, report.largest_free_bytes);
    FreeAll(pool, blocks);
}

TEST_F(OomReport, AddsUpToWhatIsReserved)
{
    Pool pool(Small());
    Stream held;
    std::vector<moiety_devptr> blocks = Fill(pool, kBlock);
    held.Hold();
    for (int i = 0; i < 3; i++) {
        pool.Free(blocks.back(), held);
        blocks.pop_back();
    }
    pool.Free(blocks.back(), MOIETY_STREAM_DONE);
    blocks.pop_back();
    moiety_oom_report report = Fail(pool, 2 * kBlock);
    EXPECT_EQ(8 * kMiB, report.limit_bytes);
    EXPECT_EQ(8 * kMiB, report.reserved_bytes);
    EXPECT_EQ(0u, report.unreleased_bytes);
    EXPECT_EQ(1u, report.segment_count);
    EXPECT_EQ(2044 * kBlock, report.live_bytes);
    EXPECT_EQ(2044u, report.live_count);
    EXPECT_EQ(3 * kBlock, report.retiring_bytes);
    EXPECT_EQ(kBlock, report.free_bytes);
    EXPECT_EQ(kBlock, report.largest_free_bytes);
    EXPECT_EQ(0u, report.cached_own_bytes + report.cached_others_bytes +
                      report.cached_ended_bytes);
    held.Release();
    FreeAll(pool, blocks);
}

// An idle thread keeps its cache; it is not the caller's.
// Too little for the request, but not left where it was.
TEST_F(OomReport, TellsWhatASleepingThreadHad)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kBlock);
    std::mutex lock;
    lock.lock();
    std::atomic<bool> is_cached{false};
    std::thread other([&] {
        pool.Free(blocks.back(), MOIETY_STREAM_DONE);
        is_cached = true;
        std::lock_guard<std::mutex> until_looked(lock);
    });
    while (!is_cached)
        std::this_thread::yield();
    moiety_oom_report report = Fail(pool, 2 * kBlock);
    EXPECT_EQ(1u, report.steps[MOIETY_OOM_IDLE_THREADS].tries);
    EXPECT_EQ(kBlock, report.steps[MOIETY_OOM_IDLE_THREADS].gave_bytes);
    EXPECT_EQ(0u, report.cached_others_bytes);
    EXPECT_EQ(0u, report.cached_own_bytes);
    EXPECT_EQ(0u, report.cached_ended_bytes);
    EXPECT_EQ(kBlock, report.free_bytes);
    EXPECT_EQ(kBlock, report.largest_free_bytes);
    lock.unlock();
    other.join();
    blocks.pop_back();
    blocks.push_back(pool.Alloc(kBlock));
    FreeAll(pool, blocks);
}

TEST_F(OomReport, KnowsTheLargestRunOfPages)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, 2 * kMiB, 4 * kMiB);
    moiety_oom_report report = Fail(pool, 6 * kMiB);
    EXPECT_EQ(4 * kMiB, report.largest_free_bytes);
    EXPECT_EQ(4 * kMiB, report.free_bytes);
    EXPECT_EQ(6 * kMiB, report.needed_bytes);
    FreeAll(pool, blocks);
}

TEST_F(OomReport, KnowsTheLargestRunDownToAGrain)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB, 7 * kMiB);
    std::vector<moiety_devptr> small = Fill(pool, 512, kMiB);
    EXPECT_EQ(0u, Fail(pool, 1024).largest_free_bytes);
    pool.Free(small[10], MOIETY_STREAM_DONE);
    EXPECT_EQ(512u, Fail(pool, 1024).largest_free_bytes);
    pool.Free(small[12], MOIETY_STREAM_DONE);
    moiety_oom_report report = Fail(pool, 1024);
    EXPECT_EQ(512u, report.largest_free_bytes);
    EXPECT_EQ(1024u, report.free_bytes);
    pool.Free(small[11], MOIETY_STREAM_DONE);
    EXPECT_EQ(1536u, Fail(pool, 2048).largest_free_bytes);
    small.erase(small.begin() + 10, small.begin() + 13);
    FreeAll(pool, small);
    FreeAll(pool, blocks);
}

TEST_F(OomReport, HasTheDevicesMemory)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    size_t free_bytes = 0, total_bytes = 0;
    using info_fn = int(size_t *, size_t *);
    ASSERT_EQ(0, pool_test::Get<info_fn>("cuMemGetInfo_v2")(&free_bytes,
                                                            &total_bytes));
    moiety_oom_report report = Fail(pool, 512);
    EXPECT_EQ(free_bytes, report.device_free_bytes);
    EXPECT_EQ(total_bytes, report.device_total_bytes);
    EXPECT_GT(total_bytes, 0u);
    FreeAll(pool, blocks);
}

TEST_F(OomReport, DoesWithoutTheDevicesMemory)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    pool_test::SetFaults("cuMemGetInfo:nth=1:code=CUDA_ERROR_UNKNOWN");
    moiety_oom_report report = Fail(pool, 512);
    pool_test::SetFaults("");
    EXPECT_EQ(0u, report.device_free_bytes);
    EXPECT_EQ(0u, report.device_total_bytes);
    EXPECT_EQ(8 * kMiB, report.live_bytes);
    FreeAll(pool, blocks);
}

TEST_F(OomReport, SaysWhyThePoolDidNotGrow)
{
    Pool limited(Small());
    std::vector<moiety_devptr> blocks = Fill(limited, kMiB);
    EXPECT_EQ(static_cast<uint32_t>(MOIETY_E_NO_DEVICE_MEMORY),
              Fail(limited, 512).grow_status);
    FreeAll(limited, blocks);

    Pool refused;
    pool_test::SetFaults("cuMemAlloc:every=1:code=CUDA_ERROR_OUT_OF_MEMORY");
    moiety_oom_report report = Fail(refused, 512);
    pool_test::SetFaults("");
    EXPECT_EQ(static_cast<uint32_t>(MOIETY_E_NO_DEVICE_MEMORY),
              report.grow_status);
    EXPECT_EQ(2, report.driver_code);
    EXPECT_EQ(0u, report.reserved_bytes);
    EXPECT_EQ(0u, report.largest_free_bytes);
}

TEST_F(OomReport, NamesStreamsThatDoNotFinish)
{
    Pool pool(Small());
    Stream first, second;
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    first.Hold();
    second.Hold();
    pool.Free(blocks[0], first);
    // So that it is on a queue, and older than the next.
    EXPECT_EQ(0u, pool.Trim(UINT64_MAX));
    pool.Free(blocks[1], second);
    pool.Free(blocks[2], second);
    moiety_oom_report report = Fail(pool, kMiB);
    ASSERT_EQ(2u, report.stream_count);
    EXPECT_EQ(2u, report.waiting_stream_count);
    EXPECT_EQ(static_cast<moiety_stream>(first), report.streams[0].stream);
    EXPECT_EQ(kMiB, report.streams[0].retiring_bytes);
    EXPECT_EQ(static_cast<moiety_stream>(second), report.streams[1].stream);
    EXPECT_EQ(2 * kMiB, report.streams[1].retiring_bytes);
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(static_cast<uint32_t>(MOIETY_OOM_KIND_STREAM),
                  report.streams[i].kind);
        EXPECT_EQ(pool_test::PrimaryContext(), report.streams[i].context);
    }
    EXPECT_GT(report.streams[0].oldest_ns, report.streams[1].oldest_ns);
    first.Release();
    second.Release();
    blocks.erase(blocks.begin(), blocks.begin() + 3);
    FreeAll(pool, blocks);
}

TEST_F(OomReport, NamesAContextThatDoesNotFinish)
{
    Pool pool(Small());
    Stream held;
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    held.Hold();
    using memset_fn = int(moiety_devptr, unsigned char, size_t, moiety_stream);
    ASSERT_EQ(0, pool_test::Get<memset_fn>("cuMemsetD8Async")(blocks.back(), 0,
                                                              512, held));
    pool.Free(blocks.back(), MOIETY_STREAM_ANY);
    blocks.pop_back();
    moiety_oom_report report = Fail(pool, kMiB);
    ASSERT_EQ(1u, report.stream_count);
    EXPECT_EQ(static_cast<uint32_t>(MOIETY_OOM_KIND_CONTEXT),
              report.streams[0].kind);
    EXPECT_EQ(MOIETY_STREAM_ANY, report.streams[0].stream);
    EXPECT_EQ(pool_test::PrimaryContext(), report.streams[0].context);
    EXPECT_EQ(kMiB, report.streams[0].retiring_bytes);
    held.Release();
    FreeAll(pool, blocks);
}

TEST_F(OomReport, CountsStreamsThatItHasNoRoomFor)
{
    Pool pool(Small());
    std::vector<Stream> held(MOIETY_OOM_STREAMS + 2);
    std::vector<moiety_devptr> blocks = Fill(pool, 512 * kKiB);
    for (Stream &stream : held) {
        stream.Hold();
        pool.Free(blocks.back(), stream);
        blocks.pop_back();
    }
    moiety_oom_report report = Fail(pool, 512 * kKiB);
    EXPECT_EQ(static_cast<uint32_t>(MOIETY_OOM_STREAMS), report.stream_count);
    EXPECT_EQ(held.size(), report.waiting_stream_count);
    for (uint32_t i = 1; i < report.stream_count; i++)
        EXPECT_GE(report.streams[i - 1].oldest_ns, report.streams[i].oldest_ns);
    for (Stream &stream : held)
        stream.Release();
    FreeAll(pool, blocks);
}

TEST_F(OomReport, IsTheThreadsOwn)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    std::thread([&] { Fail(pool, 512); }).join();
    EXPECT_EQ(0u, LastOom(pool).requested_bytes);
    Fail(pool, 1024);
    EXPECT_EQ(1024u, LastOom(pool).requested_bytes);
    FreeAll(pool, blocks);
}

// The thread sleeps, and its caches are taken; its report is not.
TEST_F(OomReport, OutlivesTheThreadsCaches)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kBlock);
    std::mutex lock;
    lock.lock();
    std::atomic<bool> is_asleep{false};
    uint64_t requested_bytes = 0;
    std::thread other([&] {
        Fail(pool, 3000);
        pool.Free(blocks.back(), MOIETY_STREAM_DONE);
        is_asleep = true;
        std::lock_guard<std::mutex> until_taken(lock);
        requested_bytes = LastOom(pool).requested_bytes;
    });
    while (!is_asleep)
        std::this_thread::yield();
    blocks.back() = pool.Alloc(kBlock);
    EXPECT_GE(pool.Stats().oom_steps[MOIETY_OOM_IDLE_THREADS], 1u);
    lock.unlock();
    other.join();
    EXPECT_EQ(3000u, requested_bytes);
    FreeAll(pool, blocks);
}

TEST_F(OomReport, IsThePoolsOwn)
{
    Pool pool(Small()), other(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    Fail(pool, 512);
    EXPECT_EQ(0u, LastOom(other).requested_bytes);
    FreeAll(pool, blocks);
}

TEST_F(OomReport, OutlivesASuccess)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    Fail(pool, 2048);
    FreeAll(pool, blocks);
    pool.Free(pool.Alloc(512));
    EXPECT_EQ(2048u, LastOom(pool).requested_bytes);
}

TEST_F(OomReport, IsNotMadeByATry)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    moiety_devptr address = 77;
    EXPECT_EQ(MOIETY_E_WOULD_BLOCK,
              alloc_no_wait(pool, 512, kStream, &address));
    EXPECT_EQ(0u, LastOom(pool).requested_bytes);
    FreeAll(pool, blocks);
}

} // namespace oom_test
