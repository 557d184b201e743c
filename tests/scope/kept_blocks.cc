// SPDX-License-Identifier: Apache-2.0
//
// What is allocated or freed in a capture scope, and who gets it when.
#include <map>
#include <memory>

#include <gtest/gtest.h>

#include "moiety/scope.h"
#include "tests/streams/device.h"
#include "tests/streams/pool_under_test.h"

namespace streams_test
{

// Lets a stream join the capture of another.
static void Join(CUstream joining, CUstream captured)
{
    Event event;
    MUST(cu.EventRecord(event, captured));
    MUST(cu.StreamWaitEvent(joining, event, 0));
}

// All that the pool has is done when a test begins, and the streams capture
// nothing.
class InACaptureScope : public RuleTest
{
  protected:
    void SetUp() override
    {
        pool_.Free(MOIETY_STREAM_DONE);
    }

    // Takes everything for a stream.
    void TakeAll(moiety_stream stream)
    {
        while (pool_.Take(stream) == MOIETY_OK) {
        }
    }

    // The same in a capture, which may free it.
    void CaptureAll(CUstream stream, bool is_freed)
    {
        Capture capture(stream);
        TakeAll(stream);
        if (is_freed)
            pool_.Free(stream);
    }
};
FOR_EACH_LOAD(InACaptureScope);

TEST_P(InACaptureScope, WhatTheCaptureFreesServesTheSameStreamAtOnce)
{
    CaptureScope scope(pool_, freed_);
    Capture capture(freed_);
    TakeAll(freed_);
    moiety_devptr block = pool_.last();
    ASSERT_EQ(pool_.FreeLast(freed_), MOIETY_OK);
    ASSERT_TRUE(pool_.ServesAtOnce(freed_));
    EXPECT_EQ(pool_.last(), block);
}

TEST_P(InACaptureScope, WhatTheCaptureFreesServesNoOtherStreamOfIt)
{
    CaptureScope scope(pool_, freed_);
    Capture capture(freed_);
    TakeAll(freed_);
    Join(next_, freed_);
    pool_.Free(freed_);
    EXPECT_TRUE(pool_.ServesNothing(next_));
    EXPECT_TRUE(pool_.ServesAtOnce(freed_));
    Join(freed_, next_);
}

TEST_P(InACaptureScope, WhatTheCaptureFreesServesNobodyBeforeTheRelease)
{
    CaptureScope scope(pool_, freed_);
    {
        Capture capture(freed_);
        TakeAll(freed_);
        pool_.Free(freed_);
        EXPECT_TRUE(pool_.ServesNothing(next_));
        EXPECT_TRUE(pool_.ServesNothing(MOIETY_STREAM_ANY));
    }
    EXPECT_TRUE(pool_.ServesNothing(freed_));
    scope.End();
    EXPECT_TRUE(pool_.ServesNothing(freed_));
    EXPECT_TRUE(pool_.ServesNothing(next_));
    EXPECT_TRUE(pool_.ServesNothing(MOIETY_STREAM_ANY));
    scope.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

// The graph may have been launched on any stream.
TEST_P(InACaptureScope, WhatIsReleasedWaitsForAllStreams)
{
    CaptureScope scope(pool_, freed_);
    CaptureAll(freed_, true);
    scope.End();
    Hold hold(other_);
    scope.Release();
    EXPECT_TRUE(pool_.ServesNothing(freed_));
    EXPECT_TRUE(pool_.ServesNothing(next_));
    EXPECT_TRUE(pool_.ServesNothing(MOIETY_STREAM_ANY));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

TEST_P(InACaptureScope, WhatIsFreedAfterTheCaptureIsKeptToo)
{
    CaptureScope scope(pool_, freed_);
    CaptureAll(freed_, false);
    pool_.Free(freed_);
    EXPECT_TRUE(pool_.ServesNothing(freed_));
    scope.End();
    EXPECT_TRUE(pool_.ServesNothing(freed_));
    scope.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(freed_));
}

TEST_P(InACaptureScope, WhatIsFreedDoneIsKeptToo)
{
    CaptureScope scope(pool_, freed_);
    CaptureAll(freed_, false);
    scope.End();
    pool_.Free(MOIETY_STREAM_DONE);
    EXPECT_TRUE(pool_.ServesNothing(next_));
    scope.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

TEST_P(InACaptureScope, NothingOfItIsTrimmedBeforeTheRelease)
{
    CaptureScope scope(pool_, freed_);
    CaptureAll(freed_, true);
    scope.End();
    uint64_t bytes = 0;
    EXPECT_EQ(moiety_pool_trim(pool_, 0, &bytes), MOIETY_OK);
    EXPECT_EQ(bytes, 0u);
    scope.Release();
    EXPECT_TRUE(pool_.IsTrimmedInTheEnd());
}

TEST_P(InACaptureScope, WhatIsStillInUseIsAnOrdinaryBlockAfterTheRelease)
{
    CaptureScope scope(pool_, freed_);
    CaptureAll(freed_, false);
    scope.End();
    scope.Release();
    ASSERT_TRUE(pool_.ServesNothing(next_));
    Hold hold(freed_);
    pool_.Free(freed_);
    EXPECT_TRUE(pool_.ServesNothing(next_));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

// It may be the first of the capture that asks.
TEST_P(InACaptureScope, StreamsThatJoinTheCaptureAreServed)
{
    CaptureScope scope(pool_, freed_);
    Capture capture(freed_);
    Join(next_, freed_);
    TakeAll(next_);
    ASSERT_EQ(pool_.FreeLast(next_), MOIETY_OK);
    EXPECT_TRUE(pool_.ServesNothing(freed_));
    EXPECT_TRUE(pool_.ServesAtOnce(next_));
    Join(freed_, next_);
}

// A capture that began on freed_ and that next_ joined, which has an open scope of
// its own. The driver does not say on which of the two it began.
class InTwoScopes : public InACaptureScope
{
  protected:
    void Begin(moiety_stream first, moiety_stream second)
    {
        scopes_.emplace(first, new CaptureScope(pool_, first));
        scopes_.emplace(second, new CaptureScope(pool_, second));
    }

    void TakeAllInTheCapture(bool is_freed)
    {
        Capture capture(freed_);
        Join(next_, freed_);
        TakeAll(next_);
        if (is_freed)
            pool_.Free(next_);
        Join(freed_, next_);
    }

    // No guard is left then, which would keep what is released.
    void EndBoth()
    {
        for (auto &scope : scopes_)
            scope.second->End();
    }

    void Release(moiety_stream stream)
    {
        scopes_[stream]->Release();
    }

    void ExpectKeptUntilBothAreReleased(moiety_stream first,
                                        moiety_stream second)
    {
        EndBoth();
        Release(first);
        EXPECT_TRUE(pool_.ServesNothing(next_));
        EXPECT_TRUE(pool_.ServesNothing(MOIETY_STREAM_ANY));
        Release(second);
        EXPECT_TRUE(pool_.ServesInTheEnd(next_));
    }

    std::map<moiety_stream, std::unique_ptr<CaptureScope>> scopes_;
};
FOR_EACH_LOAD(InTwoScopes);

TEST_P(InTwoScopes, WhatTheGraphFreedStaysWithItsScope)
{
    Begin(next_, freed_);
    TakeAllInTheCapture(true);
    ExpectKeptUntilBothAreReleased(next_, freed_);
}

TEST_P(InTwoScopes, WhatTheGraphFreedStaysWithAnEarlierScope)
{
    Begin(freed_, next_);
    TakeAllInTheCapture(true);
    ExpectKeptUntilBothAreReleased(next_, freed_);
}

TEST_P(InTwoScopes, WhatTheGraphFreedStaysWithTheOtherScope)
{
    Begin(next_, freed_);
    TakeAllInTheCapture(true);
    ExpectKeptUntilBothAreReleased(freed_, next_);
}

TEST_P(InTwoScopes, WhatIsFreedAfterOneReleaseStaysToo)
{
    Begin(freed_, next_);
    TakeAllInTheCapture(false);
    EndBoth();
    Release(next_);
    pool_.Free(next_);
    EXPECT_TRUE(pool_.ServesNothing(next_));
    Release(freed_);
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

TEST_P(InTwoScopes, TheStreamsOwnCaptureHasItsOwn)
{
    Begin(freed_, next_);
    TakeAllInTheCapture(true);
    scopes_[freed_]->End();
    Release(freed_);
    Capture capture(next_);
    EXPECT_TRUE(pool_.ServesNothing(next_));
    EXPECT_EQ(capture.End(), CUDA_SUCCESS);
    scopes_[next_]->End();
    Release(next_);
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

// It may have work pending that the graph does not come after.
TEST_P(InACaptureScope, AnOrdinaryBlockThatTheCaptureFreesIsKept)
{
    TakeAll(freed_);
    Hold hold(freed_);
    CaptureScope scope(pool_, freed_);
    {
        Capture capture(freed_);
        pool_.Free(freed_);
        EXPECT_TRUE(pool_.ServesNothing(freed_));
    }
    hold.Release();
    scope.End();
    EXPECT_TRUE(pool_.ServesNothing(freed_));
    EXPECT_TRUE(pool_.ServesNothing(next_));
    scope.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

// Another stream of the graph may still use it.
TEST_P(InACaptureScope, ABlockWithARecordedUseIsNotReused)
{
    CaptureScope scope(pool_, freed_);
    Capture capture(freed_);
    TakeAll(freed_);
    Join(next_, freed_);
    pool_.RecordUse(next_);
    pool_.Free(freed_);
    EXPECT_TRUE(pool_.ServesNothing(freed_));
    EXPECT_TRUE(pool_.ServesNothing(next_));
    Join(freed_, next_);
    EXPECT_EQ(capture.End(), CUDA_SUCCESS);
    scope.End();
    scope.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

// Both graphs may use it.
TEST_P(InACaptureScope, WhatAnotherCaptureFreesWaitsForBothReleases)
{
    CaptureScope first(pool_, freed_);
    CaptureScope second(pool_, next_);
    CaptureAll(freed_, false);
    {
        Capture capture(next_);
        pool_.Free(next_);
        EXPECT_TRUE(pool_.ServesNothing(next_));
    }
    first.End();
    second.End();
    first.Release();
    EXPECT_TRUE(pool_.ServesNothing(freed_));
    EXPECT_TRUE(pool_.ServesNothing(next_));
    second.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(freed_));
}

} // namespace streams_test
