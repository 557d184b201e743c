// SPDX-License-Identifier: Apache-2.0
//
// Pools of one device that help each other: the driver has 64 MiB.
#include <cstdlib>

#include "moiety/segment.h"
#include "tests/pool/oom/oom_under_test.h"
#include "tests/segment/fake_source.h"
#include "tests/support/tools/pools.h"

namespace oom_test
{

class OtherPools : public ::testing::TestWithParam<uint32_t>
{
  protected:
    static void SetUpTestSuite()
    {
        setenv("MOIETY_STANDIN_MEMORY", "64M", 1);
        setenv("MOIETY_STANDIN_DEVICES", "2", 1);
        pool_test::UseStandin();
    }

    static moiety_pool_options With(uint32_t flags, uint32_t wait_ms = 0)
    {
        moiety_pool_options options = driver_options();
        set_kind(&options, flags);
        options.wait_ms = wait_of(wait_ms);
        return options;
    }

    // As many blocks as make `bytes`.
    static std::vector<moiety_devptr> Take(Pool &pool, uint64_t bytes,
                                           size_t size_bytes = 4 * kMiB)
    {
        std::vector<moiety_devptr> blocks;
        for (; bytes; bytes -= size_bytes)
            blocks.push_back(pool.Alloc(size_bytes, kStream));
        return blocks;
    }

    static void Give(Pool &pool, const std::vector<moiety_devptr> &blocks,
                     moiety_stream stream = MOIETY_STREAM_DONE)
    {
        for (moiety_devptr block : blocks)
            pool.Free(block, stream);
    }

    static moiety_oom_report ExpectNoMemory(Pool &pool, size_t size_bytes)
    {
        moiety_devptr address = 77;
        EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
                  moiety_alloc(pool, size_bytes, kStream, &address));
        EXPECT_EQ(77u, address);
        return LastOom(pool);
    }
};

INSTANTIATE_TEST_SUITE_P(Kinds, OtherPools,
                         ::testing::Values(0, KIND_MAPPED,
                                           MOIETY_POOL_EXPORTABLE,
                                           KIND_MAPPED | MOIETY_POOL_EXPORTABLE,
                                           KIND_CHECKED));

TEST_P(OtherPools, GiveWhatNobodyUses)
{
    Pool rich(With(GetParam() & ~KIND_CHECKED)), poor(With(GetParam()));
    moiety_devptr live = rich.Alloc(4 * kMiB);
    pool_test::Fill(live, 4 * kMiB, 0x5EED);
    // A device that works would keep it.
    pool_test::Synchronize();
    Give(rich, Take(rich, 48 * kMiB));
    EXPECT_LE(48 * kMiB, rich.Stats().reserved_bytes_current);
    moiety_devptr block = poor.Alloc(40 * kMiB);
    ASSERT_NE(0u, block);
    EXPECT_EQ(1u, poor.Stats().others_asked);
    EXPECT_LE(40 * kMiB, poor.Stats().others_got_bytes);
    EXPECT_EQ(poor.Stats().others_got_bytes, rich.Stats().others_given_bytes);
    EXPECT_EQ(0u, poor.Stats().ooms);
    EXPECT_TRUE(pool_test::Holds(live, 4 * kMiB, 0x5EED));
    rich.Free(live);
    poor.Free(block);
}

// Small blocks in the caches of the calling thread, of one that sleeps, and of
// one that has ended.
TEST_P(OtherPools, GiveWhatIsInCaches)
{
    Pool rich(With(GetParam() & ~KIND_CHECKED)), poor(With(GetParam()));
    std::atomic<int> step{0};
    auto use = [&] {
        pool_test::SetCurrent(pool_test::PrimaryContext());
        Give(rich, Take(rich, 16 * kMiB, 64 * kKiB), kStream);
    };
    std::thread sleeping([&] {
        use();
        for (step = 1; step != 2;)
            std::this_thread::yield();
    });
    std::thread(use).join();
    while (step != 1)
        std::this_thread::yield();
    use();
    pool_test::Synchronize();
    moiety_devptr block = poor.Alloc(60 * kMiB);
    EXPECT_NE(0u, block);
    step = 2;
    sleeping.join();
    poor.Free(block);
}

// One after the other, and no more of them than are needed.
TEST_P(OtherPools, AreAskedInTurn)
{
    Pool first(With(0)), second(With(KIND_MAPPED)), third(With(0));
    for (Pool *pool : {&first, &second, &third})
        Give(*pool, Take(*pool, 16 * kMiB));
    Pool poor(With(GetParam()));
    moiety_devptr block = poor.Alloc(40 * kMiB);
    EXPECT_NE(0u, block);
    EXPECT_EQ(2u, poor.Stats().others_asked);
    EXPECT_LE(16 * kMiB, first.Stats().others_given_bytes);
    EXPECT_LE(16 * kMiB, second.Stats().others_given_bytes);
    EXPECT_EQ(0u, third.Stats().others_given_bytes);
    poor.Free(block);
}

// Nor is the driver, which has refused before, as long as the pool has what a stream
// freed, however little.
TEST_P(OtherPools, AreNotNeededForWhatAStreamFreed)
{
    Pool beside(With(0)), pool(With(GetParam() & ~KIND_CHECKED));
    const std::vector<moiety_devptr> taken = Take(beside, 16 * kMiB);
    pool_test::Stream first, second;
    std::vector<moiety_devptr> blocks;
    moiety_devptr block = 0;
    while (moiety_alloc(pool, 4 * kMiB, first, &block) == MOIETY_OK)
        blocks.push_back(block);
    ASSERT_LE(9u, blocks.size());
    pool.Free(blocks.back(), first);
    auto asked = [] {
        return pool_test::Calls("cuMemAlloc_v2") +
               pool_test::Calls("cuMemCreate");
    };
    const uint64_t before = asked();
    ASSERT_LE(1u, before);
    blocks.back() = pool.Alloc(4 * kMiB, second);
    EXPECT_NE(0u, blocks.back());
    EXPECT_EQ(before, asked());
    Give(pool, blocks);
    Give(beside, taken);
}

TEST_P(OtherPools, KeepWhatIsInUse)
{
    Pool rich(With(0)), poor(With(GetParam()));
    std::vector<moiety_devptr> blocks = Take(rich, 60 * kMiB);
    for (moiety_devptr block : blocks)
        pool_test::Fill(block, 4 * kMiB, static_cast<uint32_t>(block >> 20));
    moiety_oom_report report = ExpectNoMemory(poor, 8 * kMiB);
    EXPECT_EQ(1u, report.other_pool_count);
    EXPECT_EQ(0u, report.other_pool_bytes);
    for (moiety_devptr block : blocks)
        EXPECT_TRUE(pool_test::Holds(block, 4 * kMiB,
                                     static_cast<uint32_t>(block >> 20)));
    Give(rich, blocks);
}

// A failure does not wait for work of another pool.
TEST_P(OtherPools, KeepWhatWorkMayUse)
{
    Pool rich(With(0)), poor(With(GetParam(), 60000));
    Stream stream;
    std::vector<moiety_devptr> blocks = Take(rich, 60 * kMiB);
    stream.Hold();
    Give(rich, blocks, stream);
    ExpectNoMemory(poor, 8 * kMiB);
    stream.Release();
    pool_test::Synchronize();
    poor.Free(poor.Alloc(8 * kMiB));
}

TEST_P(OtherPools, AreNotAskedBecauseOfALimit)
{
    moiety_pool_options options = With(GetParam());
    options.limit_bytes = 16 * kMiB;
    Pool rich(With(0)), poor(options);
    Give(rich, Take(rich, 16 * kMiB));
    moiety_devptr block = poor.Alloc(8 * kMiB);
    EXPECT_EQ(0u, ExpectNoMemory(poor, 10 * kMiB).other_pool_count);
    EXPECT_EQ(0u, poor.Stats().others_asked);
    EXPECT_LE(16 * kMiB, rich.Stats().reserved_bytes_current);
    poor.Free(block);
}

TEST_P(OtherPools, AreNotAskedByATry)
{
    Pool rich(With(0)), poor(With(GetParam()));
    moiety_devptr block = 0;
    Give(rich, Take(rich, 60 * kMiB));
    EXPECT_EQ(MOIETY_E_WOULD_BLOCK,
              alloc_no_wait(poor, 16 * kMiB, kStream, &block));
    EXPECT_EQ(0u, poor.Stats().others_asked);
}

TEST_P(OtherPools, OfAnotherDeviceAreNotAsked)
{
    moiety_pool_options options = With(0);
    options.device = 1;
    Pool distant(options), rich(With(0)), poor(With(GetParam()));
    moiety_devptr block = 0;
    ASSERT_OK(moiety_alloc(distant, 32 * kMiB, MOIETY_STREAM_ANY, &block));
    distant.Free(block, MOIETY_STREAM_DONE);
    std::vector<moiety_devptr> blocks = Take(rich, 60 * kMiB);
    EXPECT_EQ(1u, ExpectNoMemory(poor, 8 * kMiB).other_pool_count);
    EXPECT_LE(32 * kMiB, distant.Stats().reserved_bytes_current);
    Give(rich, blocks);
}

// No function of the program's is called for another pool's sake.
TEST_P(OtherPools, WithASourceOrAWatcherAreLeftAlone)
{
    segment_test::FakeSource source;
    moiety_source table = source.Table();
    moiety_pool_options options = With(0);
    options.source = &table;
    unsigned released = 0;
    moiety_segment_watcher watcher = {};
    watcher.struct_size = sizeof(watcher);
    watcher.user = &released;
    watcher.releasing = [](void *user, const moiety_segment_info *) {
        ++*static_cast<unsigned *>(user);
    };
    for (uint32_t flags : {uint32_t{0}, uint32_t{KIND_MAPPED}}) {
        Pool own(options), watched(With(flags)), poor(With(GetParam()));
        moiety_watch id = nullptr;
        ASSERT_OK(moiety_segment_watch(watched, &watcher, &id));
        Give(own, Take(own, 16 * kMiB));
        size_t kept = source.Live().size();
        Give(watched, Take(watched, 60 * kMiB));
        ExpectNoMemory(poor, 16 * kMiB);
        EXPECT_EQ(0u, released);
        EXPECT_EQ(kept, source.Live().size());
        ASSERT_OK(moiety_segment_unwatch(watched, id));
        poor.Free(poor.Alloc(16 * kMiB));
        EXPECT_EQ(0u, released);
        own.End();
    }
}

TEST_P(OtherPools, ComeBeforeCallbacks)
{
    Pool rich(With(0)), poor(With(GetParam()));
    Callback callback;
    ASSERT_OK(callback.AddTo(poor));
    Give(rich, Take(rich, 60 * kMiB));
    poor.Free(poor.Alloc(16 * kMiB));
    EXPECT_EQ(0u, callback.calls);
}

// Its thread is in a call of that pool.
TEST_P(OtherPools, MayBeAskedInACallbackOfTheirs)
{
    moiety_pool_options options = With(0);
    options.limit_bytes = 60 * kMiB;
    Pool rich(options), poor(With(GetParam()));
    std::vector<moiety_devptr> blocks = Take(rich, 60 * kMiB);
    Callback callback;
    callback.act = [&](uint64_t) {
        Give(rich, blocks);
        blocks.clear();
        poor.Free(poor.Alloc(20 * kMiB), MOIETY_STREAM_DONE);
        EXPECT_LE(20 * kMiB, rich.Stats().others_given_bytes);
        EXPECT_LE(20 * kMiB, poor.Trim());
        return 1;
    };
    ASSERT_OK(callback.AddTo(rich));
    rich.Free(rich.Alloc(4 * kMiB));
    EXPECT_EQ(1u, callback.calls);
}

TEST_P(OtherPools, HelpToReserve)
{
    Pool rich(With(0)), poor(With(GetParam()));
    Give(rich, Take(rich, 60 * kMiB));
    EXPECT_OK(moiety_pool_reserve(poor, 32 * kMiB));
    EXPECT_LE(32 * kMiB, poor.Stats().reserved_bytes_current);
}

// Memory that went away for a while comes back.
TEST_P(OtherPools, HelpArenasWithHandlesOfTheirOwn)
{
    if (!(GetParam() & KIND_MAPPED))
        GTEST_SKIP() << "of mapped memory";
    Pool rich(With(0)), poor(With(GetParam()));
    moiety_private arena = 0;
    moiety_private_options options = {};
    options.struct_size = sizeof(options);
    options.flags = MOIETY_PRIVATE_PAUSABLE;
    moiety_devptr block = 0;
    Give(rich, Take(rich, 60 * kMiB));
    ASSERT_OK(moiety_private_create(poor, &options, &arena));
    ASSERT_OK(alloc_of_arena(arena, 16 * kMiB, kStream, &block));
    ASSERT_OK(moiety_private_pause(arena, 0));
    Give(rich, Take(rich, 60 * kMiB));
    EXPECT_OK(moiety_private_resume(arena));
    EXPECT_EQ(2u, poor.Stats().others_asked);
    EXPECT_OK(moiety_free(poor, block, kStream));
    EXPECT_OK(moiety_private_destroy(arena));
}

// A driver that says no to all leaves both pools as they are.
TEST_P(OtherPools, AreWholeWhenTheDriverRefusesThemToo)
{
    Pool rich(With(0)), poor(With(GetParam()));
    Give(rich, Take(rich, 60 * kMiB));
    pool_test::SetFaults("cuMemFree:every=1:code=CUDA_ERROR_UNKNOWN");
    ExpectNoMemory(poor, 16 * kMiB);
    pool_test::SetFaults("");
    EXPECT_LE(60 * kMiB, rich.Stats().reserved_bytes_current);
    poor.Free(poor.Alloc(16 * kMiB));
}

// Any one call of the driver's on the way fails: nothing is lost, and the next
// allocation has it all.
TEST_P(OtherPools, AreWholeWhenOneCallFails)
{
    if (GetParam() & KIND_CHECKED)
        GTEST_SKIP() << "its patterns take long";
    for (const char *entry :
         {"cuMemAlloc", "cuMemFree", "cuMemCreate", "cuMemMap", "cuMemUnmap",
          "cuMemRelease", "cuMemSetAccess", "cuCtxPushCurrent",
          "cuCtxRecordEvent", "cuEventQuery", "cuEventCreate"}) {
        for (int n = 1; n <= 6; n++) {
            SCOPED_TRACE(entry + std::string(", call ") + std::to_string(n));
            Pool rich(With(KIND_AUTO)), poor(With(GetParam()));
            Stream stream;
            moiety_devptr block = 0;
            Give(rich, Take(rich, 60 * kMiB), stream);
            pool_test::Synchronize();
            pool_test::SetFaults(std::string(entry) +
                                 ":nth=" + std::to_string(n) +
                                 ":code=CUDA_ERROR_UNKNOWN");
            bool is_served =
                moiety_alloc(poor, 16 * kMiB, kStream, &block) == MOIETY_OK;
            pool_test::SetFaults("");
            if (is_served)
                poor.Free(block, MOIETY_STREAM_DONE);
            pool_test::Synchronize();
            poor.TrimAll();
            poor.Free(poor.Alloc(40 * kMiB), MOIETY_STREAM_DONE);
        }
    }
}

// --- several threads ---

// Two pools that are refused at the same time do not wait for each other, and
// what is in use is nobody else's.
TEST_P(OtherPools, MayAllBeRefusedAtOnce)
{
    if (GetParam() & KIND_CHECKED)
        GTEST_SKIP() << "its patterns take long";
    Pool one(With(0)), two(With(GetParam()));
    std::atomic<unsigned> served{0};
    auto run = [&](Pool &pool, uint32_t word) {
        pool_test::SetCurrent(pool_test::PrimaryContext());
        for (int i = 0; i < 60; i++) {
            std::vector<moiety_devptr> blocks;
            moiety_devptr block = 0;
            while (blocks.size() < 6 &&
                   moiety_alloc(pool, 4 * kMiB, MOIETY_STREAM_DONE, &block) ==
                       MOIETY_OK)
                blocks.push_back(block);
            for (moiety_devptr at : blocks)
                pool_test::Fill(at, kKiB, word);
            for (moiety_devptr at : blocks)
                EXPECT_TRUE(pool_test::Holds(at, kKiB, word));
            Give(pool, blocks);
            served += !blocks.empty();
        }
    };
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < 4; i++)
        threads.emplace_back([&, i] { run(i % 2 ? one : two, i); });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_LE(60u, served);
    two.Free(two.Alloc(32 * kMiB), MOIETY_STREAM_DONE);
    two.Trim(); // what a checked pool holds back
    one.Free(one.Alloc(32 * kMiB), MOIETY_STREAM_DONE);
}

// Its end waits for who trims it, and no later visit finds it.
TEST_P(OtherPools, MayBeDestroyedMeanwhile)
{
    Pool poor(With(GetParam()));
    std::atomic<bool> is_over{false};
    std::thread ending([&] {
        pool_test::SetCurrent(pool_test::PrimaryContext());
        while (!is_over) {
            Pool brief(With(0));
            moiety_devptr block = 0;
            for (int i = 0; i < 8; i++)
                if (moiety_alloc(brief, 2 * kMiB, MOIETY_STREAM_DONE, &block) ==
                    MOIETY_OK)
                    brief.Free(block, MOIETY_STREAM_DONE);
        }
    });
    for (int i = 0; i < 200; i++) {
        moiety_devptr block = 0;
        if (moiety_alloc(poor, 63 * kMiB, MOIETY_STREAM_DONE, &block) ==
            MOIETY_OK)
            poor.Free(block, MOIETY_STREAM_DONE);
        poor.Trim();
    }
    is_over = true;
    ending.join();
}

} // namespace oom_test
