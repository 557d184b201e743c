// SPDX-License-Identifier: Apache-2.0
//
// Arenas in captures: what several graphs share, and what they do not.
#include "tests/private/arena_under_test.h"

namespace private_test
{

// A capture in a scope of the arena, which is to end well.
struct Recording {
    Recording(moiety_private arena, CUstream stream)
        : scope_(arena, stream), capture_(stream)
    {
    }
    Scope scope_;
    Capture capture_;
};

class InACaptureOfAnArena : public ::testing::TestWithParam<Load>
{
  protected:
    InACaptureOfAnArena() : arena_(pool_, GetParam().size_bytes) {}

    // A capture that takes all of the arena, and keeps it.
    void CaptureResults(moiety_stream stream)
    {
        Recording capture(arena_, stream);
        arena_.TakeAll(stream);
    }

    // A capture that takes all of the arena and frees it.
    void CaptureAll(moiety_stream stream)
    {
        Recording capture(arena_, stream);
        arena_.TakeAll(stream);
        arena_.Free(stream);
    }

    Stream freed_, next_, other_;
    Pool pool_;
    TightArena arena_;
};
INSTANTIATE_TEST_SUITE_P(Blocks, InACaptureOfAnArena,
                         ::testing::Values(kFew, kMany, kRun), NameOf);

TEST_P(InACaptureOfAnArena, WhatItFreesServesTheSameStreamAtOnce)
{
    Recording capture(arena_, freed_);
    arena_.TakeAll(freed_);
    arena_.Free(freed_);
    EXPECT_TRUE(arena_.ServesAtOnce(freed_, kArenaBytes));
}

TEST_P(InACaptureOfAnArena, WhatItFreesServesNoOtherStreamOfIt)
{
    Recording capture(arena_, freed_);
    arena_.TakeAll(freed_);
    Join(next_, freed_);
    arena_.Free(freed_);
    EXPECT_TRUE(arena_.ServesNothing(next_));
    EXPECT_TRUE(arena_.ServesAtOnce(freed_));
    Join(freed_, next_);
}

// An ordinary allocation is the arena's too.
TEST_P(InACaptureOfAnArena, ServesWhoNamesThePoolAlone)
{
    Recording capture(arena_, freed_);
    moiety_devptr block = 0;
    ASSERT_EQ(moiety_alloc(pool_, kArenaBytes, freed_, &block), MOIETY_OK);
    EXPECT_TRUE(arena_.ServesNothing(freed_));
    ASSERT_EQ(moiety_free(pool_, block, freed_), MOIETY_OK);
    EXPECT_TRUE(arena_.ServesAtOnce(freed_));
}

TEST_P(InACaptureOfAnArena, WhatItFreedServesTheNextCapture)
{
    CaptureAll(freed_);
    CaptureAll(next_);
    CaptureAll(freed_);
    EXPECT_EQ(arena_.Info().graph_count, 3u);
    EXPECT_EQ(arena_.Info().reserved_peak_bytes, kArenaBytes);
}

TEST_P(InACaptureOfAnArena, WhatItFreedServesTheNextInOtherPieces)
{
    CaptureAll(freed_);
    Recording capture(arena_, next_);
    EXPECT_TRUE(arena_.ServesAtOnce(next_, kArenaBytes));
}

TEST_P(InACaptureOfAnArena, WhatItFreesServesNoCaptureBeforeItsEnd)
{
    Recording capture(arena_, freed_);
    arena_.TakeAll(freed_);
    arena_.Free(freed_);
    {
        Recording captured(arena_, next_);
        EXPECT_TRUE(arena_.ServesNothing(next_));
    }
}

// A graph may run at any time, and work outside of captures is no graph.
TEST_P(InACaptureOfAnArena, WhatItFreedServesNobodyOutsideBeforeTheRelease)
{
    Scope scope(arena_, freed_);
    {
        Capture capture(freed_);
        arena_.TakeAll(freed_);
        arena_.Free(freed_);
    }
    scope.End();
    EXPECT_TRUE(arena_.ServesNothing(freed_));
    EXPECT_TRUE(arena_.ServesNothing(MOIETY_STREAM_ANY));
    uint64_t bytes = 1;
    EXPECT_EQ(moiety_private_trim(arena_, &bytes), MOIETY_OK);
    EXPECT_EQ(bytes, 0u);
    Hold hold(other_);
    scope.Release();
    EXPECT_TRUE(arena_.ServesNothing(freed_));
    EXPECT_TRUE(arena_.ServesNothing(MOIETY_STREAM_ANY));
    hold.Release();
    EXPECT_TRUE(arena_.ServesInTheEnd(next_));
}

TEST_P(InACaptureOfAnArena, IsKeptAsLongAsThereIsAGraph)
{
    moiety_scope second = 0;
    CaptureAll(freed_);
    {
        Scope scope(arena_, next_);
        second = scope;
        Capture capture(next_);
        arena_.TakeAll(next_);
        arena_.Free(next_);
    }
    EXPECT_EQ(moiety_scope_release(second), MOIETY_OK);
    EXPECT_TRUE(arena_.ServesNothing(next_));
    EXPECT_EQ(moiety_scope_release_all(pool_), MOIETY_OK);
    EXPECT_TRUE(arena_.ServesInTheEnd(next_));
}

// The result of a graph, which other work reads.
TEST_P(InACaptureOfAnArena, WhatOutlivedItServesCapturesOnlyWhenDone)
{
    CaptureResults(freed_);
    Hold hold(other_);
    arena_.Free(other_);
    EXPECT_TRUE(arena_.ServesNothing(other_));
    Scope scope(arena_, next_);
    {
        Capture capture(next_);
        EXPECT_TRUE(arena_.ServesNothing(next_));
        hold.Release();
        EXPECT_TRUE(arena_.ServesInTheEnd(next_));
    }
}

// Work that was queued before the later capture may read it, on any stream, and the
// later graph is launched on any other.
TEST_P(InACaptureOfAnArena, WhatOutlivedItIsNotReusedInTheCaptureThatFreesIt)
{
    CaptureResults(freed_);
    Hold hold(freed_);
    {
        Recording capture(arena_, next_);
        arena_.Free(next_);
        EXPECT_TRUE(arena_.ServesNothing(next_));
    }
    {
        Recording capture(arena_, next_);
        EXPECT_TRUE(arena_.ServesNothing(next_));
        hold.Release();
        EXPECT_TRUE(arena_.ServesInTheEnd(next_));
    }
}

// No event can be recorded while the scope is open.
TEST_P(InACaptureOfAnArena, WhatWaitedBeforeItServesItInTheEnd)
{
    CaptureResults(freed_);
    Hold hold(other_);
    arena_.Free(other_);
    Recording capture(arena_, next_);
    hold.Release();
    EXPECT_TRUE(arena_.ServesInTheEnd(next_));
}

// It may have work pending that the graph does not come after.
TEST_P(InACaptureOfAnArena, WhatWasAllocatedOutsideIsKeptForTheGraph)
{
    arena_.TakeAll(freed_);
    Hold hold(freed_);
    Scope scope(arena_, freed_);
    {
        Capture capture(freed_);
        arena_.Free(freed_);
        EXPECT_TRUE(arena_.ServesNothing(freed_));
    }
    EXPECT_EQ(arena_.Info().waiting_bytes, 0u) << "the scope has it";
    hold.Release();
    scope.End();
    EXPECT_TRUE(arena_.ServesNothing(freed_));
    scope.Release();
    EXPECT_TRUE(arena_.ServesInTheEnd(next_));
}

TEST_P(InACaptureOfAnArena, ABlockWithARecordedUseIsNotReused)
{
    Scope scope(arena_, freed_);
    Capture capture(freed_);
    arena_.TakeAll(freed_);
    Join(next_, freed_);
    arena_.RecordUse(next_);
    arena_.Free(freed_);
    EXPECT_TRUE(arena_.ServesNothing(freed_));
    Join(freed_, next_);
    EXPECT_EQ(capture.End(), CUDA_SUCCESS);
    scope.End();
    scope.Release();
    EXPECT_TRUE(arena_.ServesInTheEnd(next_));
}

// What a warm-up used is not held beside what the captures use.
TEST_P(InACaptureOfAnArena, TakesWhatIsDoneOutside)
{
    arena_.TakeAll(freed_);
    arena_.Free(MOIETY_STREAM_DONE);
    CaptureAll(freed_);
    EXPECT_EQ(arena_.Info().reserved_peak_bytes, kArenaBytes);
}

TEST_P(InACaptureOfAnArena, WhatWasFreedOutsideServesItOnlyWhenDone)
{
    arena_.TakeAll(freed_);
    Hold hold(freed_);
    arena_.Free(freed_);
    Recording capture(arena_, freed_);
    EXPECT_TRUE(arena_.ServesNothing(freed_));
    hold.Release();
    EXPECT_TRUE(arena_.ServesInTheEnd(freed_));
}

TEST_P(InACaptureOfAnArena, WhatItFreedCanBeClaimed)
{
    Scope scope(arena_, freed_);
    {
        Capture capture(freed_);
        arena_.TakeAll(freed_);
    }
    scope.End();
    std::vector<moiety_devptr> blocks = arena_.blocks();
    arena_.Free(freed_);
    for (moiety_devptr block : blocks)
        ASSERT_EQ(
            moiety_private_claim(arena_, block, GetParam().size_bytes, freed_),
            MOIETY_OK);
    arena_.blocks() = blocks;
}

TEST_P(InACaptureOfAnArena, OfAnotherScopeIsRefused)
{
    streams_test::CaptureScope scope(pool_, freed_);
    Capture capture(freed_);
    EXPECT_EQ(arena_.Take(freed_), MOIETY_E_CAPTURING);
}

// Both graphs have the block: it is free when neither may run.
TEST_P(InACaptureOfAnArena, WhatACaptureOutsideFreesIsKeptForBoth)
{
    CaptureResults(freed_);
    streams_test::CaptureScope outside(pool_, other_);
    {
        Capture capture(other_);
        arena_.Free(other_);
    }
    outside.End();
    {
        Recording capture(arena_, next_);
        EXPECT_TRUE(arena_.ServesNothing(next_));
    }
    outside.Release();
    Recording capture(arena_, next_);
    EXPECT_TRUE(arena_.ServesInTheEnd(next_));
}

// A graph that writes a word into a block of the arena, and from there into what
// is not the arena's.
static CUgraphExec CaptureCopy(TightArena &arena, CUstream stream,
                               moiety_devptr out, uint32_t word)
{
    Scope scope(arena, stream);
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    MUST(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_EQ(arena.Take(stream), MOIETY_OK);
    streams_test::Write(stream, arena.last(), 4096, word);
    MUST(cu.MemcpyDtoDAsync(out, arena.last(), 4096, stream));
    arena.Free(stream);
    MUST(cu.StreamEndCapture(stream, &graph));
    MUST(cu.GraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cu.GraphDestroy(graph));
    return exec;
}

TEST_P(InACaptureOfAnArena, GraphsOfOneMemoryRunOneAfterTheOther)
{
    moiety_devptr out[2] = {};
    CUgraphExec graphs[2] = {};
    for (int i = 0; i < 2; i++) {
        ASSERT_EQ(moiety_alloc(pool_, 4096, freed_, &out[i]), MOIETY_OK);
        graphs[i] = CaptureCopy(arena_, freed_, out[i],
                                i ? streams_test::kNew : streams_test::kOld);
    }
    for (int round = 0; round < 100; round++)
        for (CUgraphExec graph : graphs)
            MUST(cu.GraphLaunch(graph, freed_));
    EXPECT_TRUE(streams_test::Holds(freed_, out[0], 4096, streams_test::kOld));
    EXPECT_TRUE(streams_test::Holds(freed_, out[1], 4096, streams_test::kNew));
    for (int i = 0; i < 2; i++) {
        MUST(cu.GraphExecDestroy(graphs[i]));
        EXPECT_EQ(moiety_free(pool_, out[i], freed_), MOIETY_OK);
    }
}

} // namespace private_test
