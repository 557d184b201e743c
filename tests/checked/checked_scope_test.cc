// SPDX-License-Identifier: Apache-2.0
//
// Capture scopes of pools that are checked, that pass all through, or both:
// what a graph uses stays as it is until the release, and only then gets its
// pattern; mistakes are found at once where that can be, and after the release
// where not; programs without mistakes are not blamed.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/checked/captured_graph.h"
#include "tests/checked/checked_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace checked_test;

// A pool, and a stream with an open scope.
class CheckedScope : public Checked
{
  protected:
    void Make(moiety_pool_options options)
    {
        pool_.reset(new Pool(options));
        ASSERT_OK(moiety_scope_begin(*pool_, stream_, &scope_));
    }

    void SetUp() override
    {
        Make(Quiet());
    }

    // What was held back is not, nor are the streams known any more.
    void TearDown() override
    {
        if (!pool_)
            return;
        pool_test::Synchronize();
        EXPECT_OK(moiety_scope_release_all(*pool_));
        EXPECT_OK(moiety_pool_retire_stream(*pool_, stream_));
        EXPECT_EQ(0u, pool_->End().block_count);
    }

    void EndScope()
    {
        EXPECT_OK(moiety_scope_end(scope_));
    }

    // With all patterns written.
    void Release()
    {
        EXPECT_OK(moiety_scope_release(scope_));
        pool_test::Synchronize();
        // Any free looks for what is over.
        pool_->Free(pool_->Alloc(4));
        pool_test::Synchronize();
    }

    void EndAndRelease()
    {
        EndScope();
        Release();
    }

    moiety_devptr Alloc(size_t size_bytes)
    {
        return pool_->Alloc(size_bytes, stream_);
    }

    // Ends the capture and the scope. The block, which the graph writes and the
    // capture freed.
    moiety_devptr CaptureUse(CapturedGraph &graph, size_t size_bytes,
                             size_t written_bytes)
    {
        moiety_devptr block = Alloc(size_bytes);
        Set(block, 0x11, written_bytes, stream_);
        pool_->Free(block, stream_);
        EXPECT_EQ(1u, graph.End());
        EndScope();
        return block;
    }

    moiety_devptr CaptureUse(CapturedGraph &graph, size_t size_bytes)
    {
        return CaptureUse(graph, size_bytes, size_bytes);
    }

    Stream stream_, launches_;
    std::unique_ptr<Pool> pool_;
    moiety_scope scope_ = 0;
};

// --- in all pools that know their blocks one by one

class EachScope : public CheckedScope,
                  public ::testing::WithParamInterface<uint32_t>
{
  protected:
    void SetUp() override
    {
        moiety_pool_options options = pool_test::Defaults();
        set_kind(&options, GetParam());
        Make(options);
    }
};

INSTANTIATE_TEST_SUITE_P(Pools, EachScope, EachKind(), NameOfKind);

TEST_P(EachScope, KeepsWhatItsCaptureFreesUntilTheRelease)
{
    moiety_devptr block = 0;
    {
        CapturedGraph graph(stream_);
        block = CaptureUse(graph, 4096);
        (void)pool_->TrimAll();
        EXPECT_EQ(1u, pool_->Stats().allocation_current);
        EXPECT_EQ(0u, pool_->Stats().allocation_freed);
        EXPECT_EQ(0u, pool_->Stats().segment_freed);
        graph.Launch(launches_);
        pool_test::Synchronize();
        EXPECT_TRUE(pool_test::Holds(block, 4096, 0x11111111));
    }
    Release();
    (void)pool_->TrimAll();
    EXPECT_EQ(0u, pool_->Stats().allocation_current);
    EXPECT_EQ(0u, pool_->Stats().reserved_bytes_current);
}

// Freed on whatever stream, before its end and after it.
TEST_P(EachScope, KeepsItsBlocksThatAreFreedLater)
{
    CapturedGraph graph(stream_);
    moiety_devptr first = Alloc(4096), second = Alloc(4096);
    EXPECT_EQ(0u, graph.End());
    pool_->Free(first, stream_);
    EndScope();
    pool_->Free(second, MOIETY_STREAM_DONE);
    EXPECT_EQ(2u, pool_->Stats().allocation_current);
    Release();
    EXPECT_EQ(0u, pool_->Stats().allocation_current);
}

TEST_P(EachScope, KeepsOrdinaryBlocksThatItsCaptureFrees)
{
    moiety_devptr block = pool_->Alloc(4096, launches_);
    CapturedGraph graph(stream_);
    Set(block, 0x11, 4096, stream_);
    pool_->Free(block, stream_);
    EXPECT_EQ(1u, graph.End());
    EndScope();
    graph.Launch(launches_);
    pool_test::Synchronize();
    EXPECT_TRUE(pool_test::Holds(block, 4096, 0x11111111));
    EXPECT_EQ(1u, pool_->Stats().allocation_current);
    Release();
    EXPECT_EQ(0u, pool_->Stats().allocation_current);
    EXPECT_OK(moiety_pool_retire_stream(*pool_, launches_));
}

TEST_P(EachScope, LeavesWhatWasNotFreedAsAnOrdinaryBlock)
{
    CapturedGraph graph(stream_);
    moiety_devptr block = Alloc(4096);
    EXPECT_EQ(0u, graph.End());
    EndAndRelease();
    EXPECT_EQ(1u, pool_->Stats().allocation_current);
    pool_->Free(block, MOIETY_STREAM_DONE);
    EXPECT_EQ(0u, pool_->Stats().allocation_current);
}

// The launch that is queued is waited for.
TEST_P(EachScope, IsReleasedWhileItsGraphRuns)
{
    CapturedGraph graph(stream_);
    (void)CaptureUse(graph, 4096);
    launches_.Hold();
    graph.Launch(launches_);
    EXPECT_OK(moiety_scope_release(scope_));
    (void)pool_->Trim();
    EXPECT_NE(0u, pool_->Stats().reserved_bytes_current);
    launches_.Release();
    pool_test::Synchronize();
    (void)pool_->TrimAll();
    EXPECT_EQ(0u, pool_->Stats().reserved_bytes_current);
}

TEST_P(EachScope, RefusesToFreeItsBlockBehindAnEvent)
{
    moiety_event event = pool_test::NewEvent();
    CapturedGraph graph(stream_);
    moiety_devptr block = Alloc(4096);
    EXPECT_EQ(MOIETY_E_IN_USE, moiety_free_on_event(*pool_, block, event));
    EXPECT_TRUE(MessageHas("kept by a capture scope"));
    pool_->Free(block, stream_);
    EXPECT_EQ(0u, graph.End());
    EndAndRelease();
    pool_test::DestroyEvent(event);
}

TEST_P(EachScope, IsForItsCaptureOnly)
{
    {
        CapturedGraph graph(stream_);
        pool_->Free(Alloc(100), stream_);
        EXPECT_EQ(0u, graph.End());
    }
    CapturedGraph graph(stream_);
    moiety_devptr none = 0;
    EXPECT_EQ(MOIETY_E_CAPTURING, moiety_alloc(*pool_, 100, stream_, &none));
    EXPECT_EQ(0u, graph.End());
    EndScope();
}

// A block that a capture keeps twice goes when both are released.
TEST_P(EachScope, SharesABlockThatAnotherCaptureFrees)
{
    moiety_scope other = 0;
    ASSERT_EQ(MOIETY_OK, moiety_scope_begin(*pool_, launches_, &other));
    moiety_devptr block = 0;
    {
        CapturedGraph graph(stream_);
        block = Alloc(4096);
        EXPECT_EQ(0u, graph.End());
    }
    {
        CapturedGraph graph(launches_);
        pool_->Free(block, launches_);
        EXPECT_EQ(0u, graph.End());
    }
    EXPECT_OK(moiety_scope_end(other));
    EndAndRelease();
    EXPECT_EQ(1u, pool_->Stats().allocation_current);
    EXPECT_OK(moiety_scope_release(other));
    EXPECT_EQ(0u, pool_->Stats().allocation_current);
    EXPECT_OK(moiety_pool_retire_stream(*pool_, launches_));
}

TEST_P(EachScope, NamesOnlyWhatWasNotFreedAsLeaks)
{
    CapturedGraph graph(stream_);
    moiety_devptr block = Alloc(700);
    pool_->Free(Alloc(4096), stream_);
    EXPECT_EQ(0u, graph.End());
    EndScope();
    moiety_leaks leaks = pool_->End();
    EXPECT_EQ(1u, leaks.block_count);
    EXPECT_EQ(700u, leaks.bytes);
    EXPECT_EQ(block, leaks.addresses[0]);
    pool_.reset();
}

// One thread frees what another releases the scope of.
TEST_P(EachScope, IsReleasedWhileItsBlocksAreFreed)
{
    std::vector<moiety_devptr> blocks;
    CapturedGraph graph(stream_);
    for (int i = 0; i < 200; i++)
        blocks.push_back(Alloc(512));
    EXPECT_EQ(0u, graph.End());
    EndScope();
    std::thread freer([&] {
        for (moiety_devptr block : blocks)
            pool_->Free(block, MOIETY_STREAM_ANY);
    });
    EXPECT_OK(moiety_scope_release(scope_));
    freer.join();
    EXPECT_EQ(0u, pool_->Stats().allocation_current);
}

// --- in checked pools

TEST_F(CheckedScope, OfARightProgramIsNotReported)
{
    constexpr int kBlocks = 20;
    CapturedGraph graph(stream_);
    std::vector<moiety_devptr> blocks;
    for (int i = 0; i < kBlocks; i++) {
        size_t size_bytes = size_t{100} << (i % 16);
        moiety_devptr block = Alloc(size_bytes);
        Set(block, 0x11, size_bytes, stream_);
        i % 3 ? pool_->Free(block, stream_) : blocks.push_back(block);
    }
    EXPECT_EQ(size_t{kBlocks}, graph.End());
    EndScope();
    for (int i = 0; i < 3; i++)
        graph.Launch(launches_);
    for (moiety_devptr block : blocks)
        pool_->Free(block, launches_);
    graph.Launch(launches_);
    EXPECT_EQ(0u, Check(*pool_).verified_blocks);
    EXPECT_EQ(uint64_t{kBlocks}, Check(*pool_).held_blocks);
    EXPECT_EQ(0u, Check(*pool_).live_blocks);
    Release();
    moiety_checked_counts counts = Check(*pool_);
    EXPECT_EQ(0u, Findings(counts));
    EXPECT_EQ(kBlocks + 1u, counts.verified_blocks);
    EXPECT_EQ(0u, counts.unverified_blocks);
    EXPECT_EQ(0u, counts.held_blocks);
    EXPECT_OK(moiety_pool_retire_stream(*pool_, launches_));
}

TEST_F(CheckedScope, HasItsBlocksFreedOnceOnly)
{
    moiety_event event = pool_test::NewEvent();
    CapturedGraph graph(stream_);
    moiety_devptr block = Alloc(100);
    pool_->Free(block, stream_);
    const moiety_stream ways[] = {stream_, kStream, MOIETY_STREAM_ANY,
                                  MOIETY_STREAM_DONE};
    for (moiety_stream stream : ways) {
        EXPECT_EQ(MOIETY_E_DOUBLE_FREE, moiety_free(*pool_, block, stream));
        // The legacy stream may be asked for nothing, but named.
        EXPECT_TRUE(MessageHas("was freed before; block 1 of 100 bytes"));
    }
    EXPECT_EQ(MOIETY_E_DOUBLE_FREE, moiety_free_on_event(*pool_, block, event));
    EXPECT_EQ(5u, Check(*pool_).double_frees);
    EXPECT_EQ(1u, Check(*pool_).held_blocks);
    EXPECT_EQ(0u, graph.End());
    EndScope();
    EXPECT_EQ(MOIETY_E_DOUBLE_FREE, moiety_free(*pool_, block, stream_));
    Release();
    EXPECT_EQ(MOIETY_E_DOUBLE_FREE, moiety_free(*pool_, block, stream_));
    EXPECT_EQ(7u, Findings(Check(*pool_)));
    pool_test::DestroyEvent(event);
}

TEST_F(CheckedScope, HasItsBlocksFreedBySizeAndBeginning)
{
    CapturedGraph graph(stream_);
    moiety_devptr block = Alloc(4000);
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_free_sized(*pool_, block, 3999, stream_));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_free(*pool_, block + 512, stream_));
    EXPECT_EQ(MOIETY_E_FOREIGN, moiety_free(*pool_, 512, stream_));
    moiety_checked_counts counts = Check(*pool_);
    EXPECT_EQ(1u, counts.wrong_sizes);
    EXPECT_EQ(1u, counts.interior_frees);
    EXPECT_EQ(1u, counts.foreign_frees);
    EXPECT_EQ(1u, counts.live_blocks);
    EXPECT_OK(moiety_free_sized(*pool_, block, 4000, stream_));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_free(*pool_, block + 512, stream_));
    EXPECT_TRUE(MessageHas("inside a block, at offset 512 that was freed"));
    EXPECT_EQ(0u, graph.End());
    EndAndRelease();
    EXPECT_EQ(4u, Findings(Check(*pool_)));
}

TEST_F(CheckedScope, FindsWhatItsGraphWritesOutOfBounds)
{
    CapturedGraph graph(stream_);
    (void)CaptureUse(graph, 4000, 4001);
    graph.Launch(launches_);
    pool_test::Synchronize();
    EXPECT_EQ(0u, Findings(Check(*pool_)));
    Release();
    EXPECT_EQ(1u, Check(*pool_).writes_out_of_bounds);
    EXPECT_EQ(1u, Findings(Check(*pool_)));
}

// A launch that is queued is not one after the release.
TEST_F(CheckedScope, GetsNoPatternWhileItsGraphRuns)
{
    CapturedGraph graph(stream_);
    (void)CaptureUse(graph, 4000);
    launches_.Hold();
    graph.Launch(launches_);
    EXPECT_OK(moiety_scope_release(scope_));
    EXPECT_EQ(1u, Check(*pool_).held_blocks);
    launches_.Release();
    pool_test::Synchronize();
    EXPECT_EQ(0u, Check(*pool_).held_blocks);
    EXPECT_EQ(1u, Check(*pool_).verified_blocks);
    EXPECT_EQ(0u, Findings(Check(*pool_)));
}

// The promise of the release was broken.
TEST_F(CheckedScope, FindsAGraphThatIsLaunchedAfterTheRelease)
{
    CapturedGraph graph(stream_);
    moiety_devptr block = Alloc(4000);
    Set(block + 100, 0x11, 8, stream_);
    pool_->Free(block, stream_);
    EXPECT_EQ(1u, graph.End());
    EndScope();
    graph.Launch(launches_);
    Release();
    graph.Launch(launches_);
    pool_test::Synchronize();
    EXPECT_EQ(1u, Check(*pool_).writes_after_free);
    EXPECT_EQ(1u, Findings(Check(*pool_)));
}

// What outlives its scope is an ordinary block, whose free writes the pattern.
TEST_F(CheckedScope, FindsAGraphThatWritesWhatWasFreedAfterTheRelease)
{
    CapturedGraph graph(stream_);
    moiety_devptr block = Alloc(4000);
    Set(block, 0x11, 4000, stream_);
    EXPECT_EQ(1u, graph.End());
    EndAndRelease();
    graph.Launch(stream_);
    pool_->Free(block, stream_);
    graph.Launch(stream_);
    pool_test::Synchronize();
    EXPECT_EQ(1u, Check(*pool_).writes_after_free);
    EXPECT_EQ(1u, Findings(Check(*pool_)));
}

TEST_F(CheckedScope, HoldsBackWhatItsCaptureFreesAsFarAsThatGoes)
{
    CapturedGraph graph(stream_);
    moiety_devptr block = Alloc(4000);
    pool_->Free(block, stream_);
    moiety_devptr other = Alloc(4000);
    EXPECT_NE(block, other);
    pool_->Free(other, stream_);
    EXPECT_EQ(0u, graph.End());
    EndAndRelease();
}

// With nothing held back beyond need.
class CheckedScopeThatReuses : public CheckedScope
{
  protected:
    void SetUp() override
    {
        moiety_pool_options options = Quiet();
        options.quarantine_bytes = MOIETY_BYTES_NONE;
        Make(options);
    }
};

TEST_F(CheckedScopeThatReuses, GivesABlockAgainForTheVerySize)
{
    CapturedGraph graph(stream_);
    moiety_devptr block = Alloc(4000);
    Set(block, 0x11, 4000, stream_);
    pool_->Free(block, stream_);
    // It would end where bounds are that nodes from before may write.
    moiety_devptr shorter = Alloc(3999);
    EXPECT_NE(block, shorter);
    Set(shorter, 0x22, 3999, stream_);
    EXPECT_EQ(block, Alloc(4000));
    EXPECT_EQ(2u, Check(*pool_).live_blocks);
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_free_sized(*pool_, block, 3999, stream_));
    EXPECT_TRUE(MessageHas("block 3 of 4000 bytes"));
    EXPECT_FALSE(MessageHas(", freed"));
    EXPECT_EQ(2u, pool_->Stats().allocation_current);
    EXPECT_EQ(2u, graph.End());
    EndScope();
    graph.Launch(launches_);
    pool_test::Synchronize();
    pool_->Free(block, stream_);
    pool_->Free(shorter, stream_);
    Release();
    moiety_checked_counts counts = Check(*pool_);
    EXPECT_EQ(1u, counts.wrong_sizes);
    EXPECT_EQ(1u, Findings(counts));
    EXPECT_EQ(0u, counts.live_blocks + counts.held_blocks);
    EXPECT_EQ(0u, pool_->Stats().allocation_current);
}

TEST_F(CheckedScopeThatReuses, GivesNoBlockAgainThatOthersUse)
{
    CapturedGraph graph(stream_);
    moiety_devptr block = Alloc(4000);
    EXPECT_OK(moiety_record_use(*pool_, block, launches_));
    pool_->Free(block, stream_);
    EXPECT_NE(block, Alloc(4000));
    EXPECT_EQ(0u, graph.End());
    EndAndRelease();
    EXPECT_EQ(1u, pool_->End().block_count);
    pool_.reset();
}

TEST_F(CheckedScopeThatReuses, ChargesWhoeverHasTheBlock)
{
    moiety_tenant tenants[2] = {};
    moiety_tenant_stats infos[2] = {};
    auto live_bytes = [&](int i) {
        infos[i].struct_size = sizeof(infos[i]);
        EXPECT_OK(moiety_tenant_get_stats(tenants[i], &infos[i]));
        return infos[i].live_bytes;
    };
    for (moiety_tenant &tenant : tenants)
        ASSERT_EQ(MOIETY_OK,
                  create_tenant(*pool_, &tenant == tenants ? "one" : "two", 0,
                                &tenant));
    CapturedGraph graph(stream_);
    moiety_devptr block = 0, again = 0;
    ASSERT_OK(alloc_for_tenant(tenants[0], 4000, stream_, &block));
    pool_->Free(block, stream_);
    EXPECT_EQ(4096u, live_bytes(0));
    ASSERT_OK(alloc_for_tenant(tenants[1], 4000, stream_, &again));
    EXPECT_EQ(block, again);
    EXPECT_EQ(0u, live_bytes(0));
    EXPECT_EQ(4096u, live_bytes(1));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_free_sized(*pool_, block, 1, stream_));
    EXPECT_TRUE(MessageHas("of tenant 'two'"));
    pool_->Free(block, stream_);
    EXPECT_EQ(0u, graph.End());
    EndScope();
    EXPECT_EQ(4096u, live_bytes(1));
    Release();
    EXPECT_EQ(0u, live_bytes(1));
}

// Where there is nothing else, also before more than the quarantine is held.
TEST_F(CheckedScope, GivesABlockAgainWhereMemoryIsShort)
{
    EndScope();
    EXPECT_OK(moiety_scope_release(scope_));
    EXPECT_OK(moiety_pool_retire_stream(*pool_, stream_));
    moiety_pool_options options = Quiet();
    options.limit_bytes = 2 * kMiB;
    options.wait_ms = MOIETY_WAIT_NONE;
    Make(options);
    std::vector<moiety_devptr> blocks;
    CapturedGraph graph(stream_);
    moiety_devptr block = 0;
    while (moiety_alloc(*pool_, 64 * kKiB, stream_, &block) == MOIETY_OK)
        blocks.push_back(block);
    ASSERT_FALSE(blocks.empty());
    pool_->Free(blocks[0], stream_);
    EXPECT_EQ(blocks[0], Alloc(64 * kKiB));
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(*pool_, 64 * kKiB, stream_, &block));
    for (moiety_devptr taken : blocks)
        pool_->Free(taken, stream_);
    EXPECT_EQ(0u, graph.End());
    EndScope();
}

TEST_F(CheckedScope, KnowsADeadStream)
{
    auto stream = std::make_unique<Stream>();
    const moiety_stream handle = *stream;
    moiety_scope scope = 0;
    pool_->Free(pool_->Alloc(100, handle), handle);
    stream.reset();
    EXPECT_EQ(MOIETY_E_INVALID, moiety_scope_begin(*pool_, handle, &scope));
    EXPECT_TRUE(
        MessageHas("was destroyed without moiety_pool_retire_stream()"));
    EXPECT_EQ(1u, Check(*pool_).dead_streams);
    EndScope();
    // It is the only guard that is held no more.
    EXPECT_EQ(MOIETY_E_INVALID, moiety_capture_guard_end());
}

// A retirement that was refused is none.
TEST_F(CheckedScope, DoesNotForgetItsStream)
{
    auto stream = std::make_unique<Stream>();
    const moiety_stream handle = *stream;
    moiety_scope scope = 0;
    ASSERT_EQ(MOIETY_OK, moiety_scope_begin(*pool_, handle, &scope));
    EXPECT_EQ(MOIETY_E_IN_USE, moiety_pool_retire_stream(*pool_, handle));
    EXPECT_EQ(MOIETY_OK, moiety_scope_end(scope));
    EXPECT_EQ(MOIETY_OK, moiety_scope_release(scope));
    stream.reset();
    moiety_devptr none = 0;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_alloc(*pool_, 100, handle, &none));
    EXPECT_EQ(1u, Check(*pool_).dead_streams);
    EndScope();
}

TEST_F(CheckedScope, MayBeAutomatic)
{
    moiety_pool_options options = Quiet();
    options.flags |= MOIETY_POOL_AUTO_SCOPE;
    Pool pool(options);
    CapturedGraph graph(launches_);
    moiety_devptr block = pool.Alloc(4000, launches_);
    Set(block, 0x11, 4001, launches_);
    pool.Free(block, launches_);
    EXPECT_EQ(MOIETY_E_DOUBLE_FREE, moiety_free(pool, block, launches_));
    EXPECT_EQ(1u, graph.End());
    EndScope();
    graph.Launch(stream_);
    pool_test::Synchronize();
    EXPECT_EQ(1u, Check(pool).held_blocks);
    EXPECT_OK(moiety_scope_release_all(pool));
    pool_test::Synchronize();
    pool.Free(pool.Alloc(4));
    pool_test::Synchronize();
    moiety_checked_counts counts = Check(pool);
    EXPECT_EQ(0u, counts.held_blocks);
    EXPECT_EQ(1u, counts.writes_out_of_bounds);
    EXPECT_EQ(1u, counts.double_frees);
    EXPECT_OK(moiety_pool_retire_stream(pool, launches_));
}

} // namespace
