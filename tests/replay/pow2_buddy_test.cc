// SPDX-License-Identifier: Apache-2.0
//
// The textbook's buddy.
#include "tests/replay/model_under_test.h"

namespace replay_test
{
namespace
{

TEST_F(Pow2Buddy, RoundsToPowersOfTwo)
{
    EXPECT_EQ(HandedFor(1025), 2048u);
    EXPECT_EQ(HandedFor(5 * kMiB), 8 * kMiB);
}

TEST_F(Pow2Buddy, GrowsByItsSegmentOrByWhatIsAskedFor)
{
    Alloc(1);
    Alloc(kBuddySegmentBytes / 2);
    Alloc(kBuddySegmentBytes + 1);
    EXPECT_EQ(ledger_.taken, std::vector<uint64_t>(
                                 {kBuddySegmentBytes, 2 * kBuddySegmentBytes}));
}

TEST_F(Pow2Buddy, MergesTwoHalvesOfOneBlockOnly)
{
    const uint64_t first = Alloc(kBuddySegmentBytes / 4);
    const uint64_t second = Alloc(kBuddySegmentBytes / 4);
    const uint64_t third = Alloc(kBuddySegmentBytes / 4);
    Alloc(kBuddySegmentBytes / 4);
    Free(second);
    Free(third);
    // Neighbours, but of different blocks: half a segment is free, and no half.
    EXPECT_EQ(Alloc(kBuddySegmentBytes / 2), first + kBuddySegmentBytes);
    Free(first);
    EXPECT_EQ(Alloc(kBuddySegmentBytes / 2), first);
}

TEST_F(Pow2Buddy, NeverMergesAcrossSegments)
{
    const uint64_t first = Alloc(kBuddySegmentBytes);
    const uint64_t second = Alloc(kBuddySegmentBytes);
    ASSERT_EQ(second, first + kBuddySegmentBytes);
    Free(second);
    Free(first);
    EXPECT_EQ(Alloc(2 * kBuddySegmentBytes), second + kBuddySegmentBytes);
}

TEST_F(Pow2Buddy, FailsAndGoesOn)
{
    ledger_.limit_bytes = kBuddySegmentBytes;
    const uint64_t block = Alloc(kBuddySegmentBytes / 2);
    EXPECT_EQ(Alloc(kBuddySegmentBytes), 0u);
    EXPECT_EQ(Alloc(kBuddySegmentBytes / 2), block + kBuddySegmentBytes / 2);
    EXPECT_EQ(Alloc(1), 0u);
    EXPECT_EQ(Handed(), kBuddySegmentBytes);
}

} // namespace
} // namespace replay_test
