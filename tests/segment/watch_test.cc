// SPDX-License-Identifier: Apache-2.0
//
// What is told of segments that come and go, and when: growth, trims, moves,
// memory that is away, the end, and each of them that fails halfway.
#include <gtest/gtest.h>

#include "tests/segment/ledger.h"
#include "tests/segment/mapped_under_test.h"
#include "tests/segment/segments_under_test.h"

namespace
{

using namespace segment_test;

class Watcher
{
  public:
    explicit Watcher(moietyi_segments *segments) : segments_(segments)
    {
        EXPECT_EQ(MOIETY_OK, segment_probe_watch(segments, &own_, &id));
    }

    void End()
    {
        EXPECT_EQ(MOIETY_OK, segment_probe_unwatch(segments_, id));
    }

    Ledger told;
    uint64_t id = 0;
    // Asked of the source at each event.
    FakeSource *source = nullptr;

  private:
    static void Tell(void *self, const segment_probe_info *info, bool is_added)
    {
        auto *own = static_cast<Watcher *>(self);
        if (own->source && !own->source->Live().count(info->memory))
            own->told.Complain("told of memory that is not there:", info->id);
        if (is_added)
            own->told.Add(info->id, info->memory, info->memory_bytes);
        else
            own->told.Release(info->id, info->memory, info->memory_bytes);
    }

    segment_probe_watcher own_ = {this, Tell};
    moietyi_segments *segments_;
};

class WatchedSegments : public ::testing::Test
{
  protected:
    ~WatchedSegments() override
    {
        EXPECT_EQ("", source.Complaint());
    }

    FakeSource source;
};

TEST_F(WatchedSegments, AreToldOfAsTheyGrowAndGo)
{
    Segments segments(source.Table());
    Watcher watcher(segments.own);
    watcher.source = &source;
    EXPECT_EQ(MOIETY_OK, segments.Grow(40 * kMiB));
    EXPECT_EQ(MOIETY_OK, segments.GrowAnew(100 * kMiB));
    EXPECT_EQ(2u, watcher.told.AddedCount());
    EXPECT_EQ(segments.Stats().reserved_bytes, watcher.told.LiveBytes());
    segments.GiveAll();
    segments.Trim();
    EXPECT_EQ(2u, watcher.told.ReleasedCount());
    EXPECT_EQ("", watcher.told.Complaint());
}

TEST_F(WatchedSegments, ThatAreThereAreToldOfWhenTheWatchBegins)
{
    Segments segments(source.Table());
    EXPECT_EQ(MOIETY_OK, segments.Grow(40 * kMiB));
    Watcher first(segments.own);
    Watcher second(segments.own);
    EXPECT_NE(first.id, second.id);
    EXPECT_EQ(40 * kMiB, first.told.LiveBytes());
    EXPECT_EQ(40 * kMiB, second.told.LiveBytes());
    first.End();
    segments.Trim();
    EXPECT_EQ(40 * kMiB, first.told.LiveBytes()) << "it is told nothing more";
    EXPECT_EQ(0u, second.told.LiveBytes());
}

TEST_F(WatchedSegments, AreUnwatchedOnce)
{
    Segments segments(source.Table());
    Watcher watcher(segments.own);
    watcher.End();
    EXPECT_EQ(MOIETY_E_DESTROYED,
              segment_probe_unwatch(segments.own, watcher.id));
    EXPECT_EQ(MOIETY_E_INVALID, segment_probe_unwatch(segments.own, 0));
}

TEST_F(WatchedSegments, AreReleasedAtTheEnd)
{
    Segments segments(source.Table());
    EXPECT_EQ(MOIETY_OK, segments.Grow(40 * kMiB));
    Watcher watcher(segments.own);
    watcher.source = &source;
    EXPECT_EQ(MOIETY_OK, segments.End());
    EXPECT_EQ(1u, watcher.told.ReleasedCount());
    EXPECT_EQ("", watcher.told.Complaint());
}

// What the source does not take back is asked for again, and told of once.
TEST_F(WatchedSegments, ThatTheSourceRefusesAreReleasedOnce)
{
    Segments segments(source.Table());
    Watcher watcher(segments.own);
    uint64_t bytes = 0;
    EXPECT_EQ(MOIETY_OK, segments.Grow(40 * kMiB));
    source.failing_release = 1;
    EXPECT_EQ(MOIETY_E_DRIVER, segment_probe_trim(segments.own, 0, &bytes));
    EXPECT_EQ(1u, watcher.told.ReleasedCount());
    EXPECT_EQ(40 * kMiB, segments.Trim());
    EXPECT_EQ(1u, watcher.told.ReleasedCount());
    EXPECT_EQ("", watcher.told.Complaint());
}

TEST_F(WatchedSegments, AreNotThereWhereGrowthFails)
{
    Segments segments(source.Table());
    Watcher watcher(segments.own);
    source.failing_reserve = 1;
    EXPECT_EQ(MOIETY_E_DRIVER, segments.Grow(40 * kMiB));
    EXPECT_EQ(0u, watcher.told.LiveBytes());
    EXPECT_EQ("", watcher.told.Complaint());
}

// A ledger is kept by all tests of mapped memory; here is what it says.

TEST(WatchedMapped, PiecesHaveAnotherIdWhereTheyMove)
{
    MappedSegments segments;
    segments.ExtendAndTake(0, 4);
    segments.ExtendAndTake(4, 1);
    uint64_t before = segments.told.IdAt(segments.Address(0));
    ASSERT_NE(UINT64_MAX, before);
    segments.Give(0, 4);
    EXPECT_EQ(MOIETY_OK, segments.Extend(6));
    EXPECT_EQ(1u, segments.Stats().move_count);
    EXPECT_EQ(1u, segments.told.ReleasedCount());
    EXPECT_EQ(UINT64_MAX, segments.told.IdAt(segments.Address(0)));
    EXPECT_LT(before, segments.told.IdAt(segments.Address(5)));
}

// Its place is the old one, but it was told that this is over.
TEST(WatchedMapped, PiecesThatCannotMoveAreAddedAgain)
{
    MappedSegments segments;
    segments.ExtendAndTake(0, 4);
    segments.ExtendAndTake(4, 1);
    uint64_t before = segments.told.IdAt(segments.Address(0));
    segments.Give(0, 4);
    segments.mapper.Fail(FakeMapper::kMap, 1);
    (void)segments.Extend(6);
    EXPECT_EQ(0u, segments.Stats().move_count);
    EXPECT_EQ(1u, segments.told.ReleasedCount());
    EXPECT_LT(before, segments.told.IdAt(segments.Address(0)));
}

TEST(WatchedMapped, PiecesThatCannotGoAreAddedAgain)
{
    MappedSegments segments;
    EXPECT_EQ(MOIETY_OK, segments.Extend(4));
    uint64_t before = segments.told.IdAt(segments.Address(0));
    uint64_t bytes = 0;
    segments.mapper.Fail(FakeMapper::kUnmap, 1);
    EXPECT_EQ(MOIETY_E_DRIVER, segment_probe_trim(segments.own, 0, &bytes));
    EXPECT_EQ(1u, segments.told.ReleasedCount());
    EXPECT_LT(before, segments.told.IdAt(segments.Address(0)));
    segments.ExpectSound();
    EXPECT_EQ(4u, segments.Trim());
    EXPECT_EQ(0u, segments.told.LiveBytes());
}

uint32_t Hold(MappedSegments &segments, uint32_t page_count)
{
    uint32_t first = 0;
    EXPECT_EQ(MOIETY_OK, segment_probe_hold(segments.own, page_count, &first))
        << segment_probe_message();
    return first;
}

TEST(WatchedMapped, MemoryThatIsAwayIsReleased)
{
    MappedSegments segments;
    uint32_t first = Hold(segments, 4);
    uint64_t before = segments.told.IdAt(segments.Address(first));
    bool is_away = false;
    EXPECT_EQ(MOIETY_OK, segment_probe_vacate(segments.own, first, &is_away));
    EXPECT_EQ(0u, segments.told.LiveBytes());
    EXPECT_EQ(MOIETY_OK, segment_probe_refill(segments.own, first));
    EXPECT_LT(before, segments.told.IdAt(segments.Address(first)));
}

TEST(WatchedMapped, MemoryThatIsAwayIsToldOfToNobody)
{
    MappedSegments segments;
    uint32_t first = Hold(segments, 4);
    bool is_away = false;
    EXPECT_EQ(MOIETY_OK, segment_probe_vacate(segments.own, first, &is_away));
    Watcher late(segments.own);
    EXPECT_EQ(0u, late.told.AddedCount());
    segment_probe_drop(segments.own, first);
    EXPECT_EQ(0u, late.told.ReleasedCount());
    EXPECT_EQ(1u, segments.told.ReleasedCount());
}

TEST(WatchedMapped, MemoryThatCannotGoAwayIsAddedAgain)
{
    MappedSegments segments;
    uint32_t first = Hold(segments, 4);
    uint64_t before = segments.told.IdAt(segments.Address(first));
    bool is_away = true;
    segments.mapper.Fail(FakeMapper::kUnmap, 1);
    EXPECT_NE(MOIETY_OK, segment_probe_vacate(segments.own, first, &is_away));
    EXPECT_FALSE(is_away);
    EXPECT_LT(before, segments.told.IdAt(segments.Address(first)));
}

TEST(WatchedMapped, MemoryThatCannotComeBackIsNotThere)
{
    MappedSegments segments;
    uint32_t first = Hold(segments, 4);
    bool is_away = false;
    EXPECT_EQ(MOIETY_OK, segment_probe_vacate(segments.own, first, &is_away));
    segments.mapper.Fail(FakeMapper::kMap, 1);
    EXPECT_NE(MOIETY_OK, segment_probe_refill(segments.own, first));
    EXPECT_EQ(1u, segments.told.AddedCount());
    EXPECT_EQ(MOIETY_OK, segment_probe_refill(segments.own, first));
    EXPECT_EQ(4 * kPage, segments.told.LiveBytes());
}

} // namespace
