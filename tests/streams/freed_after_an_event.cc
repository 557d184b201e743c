// SPDX-License-Identifier: Apache-2.0
//
// Row: freed by free_after(event), next allocation for N.
#include <memory>

#include <gtest/gtest.h>

#include "tests/streams/device.h"
#include "tests/streams/pool_under_test.h"

namespace streams_test
{

using FreedAfterAnEvent = RuleTest;
FOR_EACH_LOAD(FreedAfterAnEvent);

TEST_P(FreedAfterAnEvent, ServesAStreamOnlyWhenItIsOver)
{
    Event event;
    Hold hold(other_);
    pool_.WriteAll(other_, kOld);
    MUST(cu.EventRecord(event, other_));
    pool_.FreeAfter(event);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    ASSERT_TRUE(pool_.ServesNothing(MOIETY_STREAM_ANY));
    hold.Release();
    ASSERT_TRUE(pool_.ServesInTheEnd(next_));
    Write(next_, pool_.last(), pool_.size_bytes(), kNew);
    EXPECT_TRUE(pool_.AllHold(next_, kNew));
}

// What the event stood for at the call is what counts.
TEST_P(FreedAfterAnEvent, LetsTheEventBeRecordedAgain)
{
    Event event;
    Hold hold(other_);
    MUST(cu.EventRecord(event, other_));
    pool_.FreeAfter(event);
    MUST(cu.EventRecord(event, freed_));
    ASSERT_TRUE(pool_.ServesNothing(next_));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

TEST_P(FreedAfterAnEvent, LetsTheEventBeDestroyed)
{
    std::unique_ptr<Event> event(new Event);
    Hold hold(other_);
    MUST(cu.EventRecord(*event, other_));
    pool_.FreeAfter(*event);
    event.reset();
    ASSERT_TRUE(pool_.ServesNothing(next_));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

// It names no stream that it would be free for.
TEST_P(FreedAfterAnEvent, DoesNotServeItsStreamsNeighbours)
{
    Event event;
    Hold hold(other_);
    MUST(cu.EventRecord(event, other_));
    pool_.FreeAfter(event);
    ASSERT_TRUE(pool_.ServesNothing(MOIETY_STREAM_PER_THREAD));
    ASSERT_TRUE(pool_.ServesNothing(nullptr));
}

TEST_P(FreedAfterAnEvent, HonoursRecordedUses)
{
    Event event;
    MUST(cu.EventRecord(event, freed_));
    Hold hold(other_);
    pool_.RecordUse(other_);
    pool_.FreeAfter(event);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

} // namespace streams_test
