// SPDX-License-Identifier: Apache-2.0
//
// Devices that may access mapped memory: all that there is and all that comes, or
// nothing.
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/segment/mapped_under_test.h"

namespace
{

using namespace segment_test;

constexpr uint64_t kFirst = UINT64_C(1) << 1;
constexpr uint64_t kLast = UINT64_C(1) << 63;

uint64_t PeersAt(MappedSegments &segments, uint64_t page)
{
    return segments.mapper.PeersAt(segments.mapper.Base() + page * kPage);
}

// Handles at pages 0, 4 and 5.
void MakeThree(MappedSegments &segments)
{
    segments.ExtendAndTake(0, 4);
    segments.ExtendAndTake(4, 1);
    segments.ExtendAndTake(5, 2);
}

void ExpectPeers(MappedSegments &segments, uint64_t peers)
{
    for (uint64_t page : {0, 4, 5})
        EXPECT_EQ(peers, PeersAt(segments, page)) << page;
}

TEST(Peer, OfTheOptionsHasAllThatIsMapped)
{
    segment_probe_options options = WithCapacity(64);
    options.peers = kFirst | kLast;
    MappedSegments segments(options);
    MakeThree(segments);
    ExpectPeers(segments, kFirst | kLast);
    EXPECT_EQ(0u, segments.mapper.Calls(FakeMapper::kGrant));
}

TEST(Peer, ThatIsAddedHasAllThatIsMappedAndWillBe)
{
    MappedSegments segments(WithCapacity(64));
    EXPECT_EQ(MOIETY_OK, segment_probe_add_peer(segments.own, 63));
    MakeThree(segments);
    ExpectPeers(segments, kLast);
    EXPECT_EQ(MOIETY_OK, segment_probe_add_peer(segments.own, 1));
    ExpectPeers(segments, kFirst | kLast);
    EXPECT_EQ(MOIETY_OK, segments.Extend(8));
    EXPECT_EQ(kFirst | kLast, PeersAt(segments, 7));
    EXPECT_EQ(3u, segments.mapper.Calls(FakeMapper::kGrant));
    EXPECT_EQ(MOIETY_OK, segment_probe_add_peer(segments.own, 1));
    EXPECT_EQ(3u, segments.mapper.Calls(FakeMapper::kGrant)) << "it has it";
}

TEST(Peer, HasWhatMoves)
{
    MappedSegments segments(WithCapacity(64));
    MakeThree(segments);
    EXPECT_EQ(MOIETY_OK, segment_probe_add_peer(segments.own, 1));
    segments.Give(0, 4);
    EXPECT_EQ(MOIETY_OK, segments.Extend(6));
    EXPECT_EQ(1u, segments.Stats().move_count);
    EXPECT_EQ(kFirst, PeersAt(segments, 7));
}

TEST(Peer, HasNothingWhereOneCallFails)
{
    for (uint64_t n = 1; n <= 3; n++) {
        SCOPED_TRACE(n);
        MappedSegments segments(WithCapacity(64));
        MakeThree(segments);
        segments.mapper.Fail(FakeMapper::kGrant, n);
        EXPECT_EQ(MOIETY_E_DRIVER, segment_probe_add_peer(segments.own, 1));
        ExpectPeers(segments, 0);
        EXPECT_EQ(MOIETY_OK, segments.Extend(8));
        EXPECT_EQ(0u, PeersAt(segments, 7)) << "nor what comes";
        EXPECT_EQ(MOIETY_OK, segment_probe_add_peer(segments.own, 1));
        ExpectPeers(segments, kFirst);
        segments.ExpectSound();
    }
}

} // namespace
