// SPDX-License-Identifier: Apache-2.0
//
// Every n-th request for host memory of a call fails once. Nothing is lost and
// nothing is set then, and the next call works.
#include <gtest/gtest.h>

#include <string>

#include "tests/buddy/maps/map_under_test.h"
#include "tests/support/tools/failing_memory.h"

namespace
{

constexpr unsigned kTooMany = 20; // requests that no call below makes

TEST(MapCreateFault, WithoutMemoryThereAreNoMaps)
{
    MapsUnderTest test(1);
    failing_memory_arm(1);
    struct moietyi_maps *maps = map_probe_create(test.buddy());
    EXPECT_FALSE(failing_memory_disarm());
    EXPECT_EQ(maps, nullptr);
    map_probe_destroy(maps);
}

// Over two groups, with grains at both ends: leaf, groups, and two pages' parts.
TEST(MapGiveFault, WithoutMemoryNothingIsSet)
{
    unsigned failures = 0;
    bool is_exhausted = false;
    for (unsigned n = 1; n < kTooMany && !is_exhausted; n++) {
        MapsUnderTest test(66);
        failing_memory_arm(n);
        map_probe_given given = test.Give(63 * kPage + 1, kPage);
        is_exhausted = failing_memory_disarm();
        failures += given == PROBE_NO_MEMORY;
        EXPECT_EQ(given == PROBE_GIVEN, is_exhausted) << n;
        EXPECT_EQ(test.fresh(), is_exhausted ? kPage : 0) << n;
        if (!is_exhausted)
            given = test.Give(63 * kPage + 1, kPage);
        EXPECT_EQ(given, PROBE_GIVEN) << n;
        EXPECT_EQ(test.Picture(63 * kPage, 2 * kPage), ".1 f4096 .4095") << n;
    }
    EXPECT_TRUE(is_exhausted);
    EXPECT_EQ(failures, 5U);
}

TEST(MapGiveFault, NeedsMemoryOnceForAPage)
{
    MapsUnderTest test(1);
    ASSERT_EQ(test.Give(1, 1), PROBE_GIVEN);
    failing_memory_arm(1);
    EXPECT_EQ(test.Give(3, kPage - 3), PROBE_GIVEN);
    EXPECT_EQ(test.Give(2, 1), PROBE_GIVEN);
    map_probe_close(test.maps());
    map_probe_drain(test.maps(), PROBE_AGEING);
    EXPECT_TRUE(failing_memory_disarm());
}

// What the other stream has no memory for stays here, as fresh.
TEST(MapHandFault, WithoutMemoryNothingIsLost)
{
    unsigned failures = 0;
    bool is_exhausted = false;
    for (unsigned n = 1; n < kTooMany && !is_exhausted; n++) {
        MapsUnderTest test(66);
        test.Age(63 * kPage + 1, kPage);
        failing_memory_arm(n);
        map_probe_hand(test.maps(0), PROBE_AGEING, test.maps(1));
        is_exhausted = failing_memory_disarm();
        failures += test.fresh(0) != 0;
        EXPECT_EQ(test.fresh(0) + test.fresh(1), kPage) << n;
        EXPECT_EQ(test.ageing(0), 0U) << n;
        EXPECT_EQ(test.Check(), "") << n;
        EXPECT_EQ(map_probe_hand(test.maps(0), PROBE_FRESH, test.maps(1)),
                  test.fresh(0))
            << n;
    }
    EXPECT_TRUE(is_exhausted);
    EXPECT_EQ(failures, 5U);
}

// A page of the stream's is to be cut, and there are no words for its grains.
TEST(ViewTakeFault, WithoutMemoryForTheRestNothingIsTaken)
{
    MapsUnderTest test(1);
    ASSERT_EQ(test.Give(0, kPage), PROBE_GIVEN);
    failing_memory_arm(1);
    EXPECT_FALSE(test.Claim(test.Union(), 0, 100));
    EXPECT_FALSE(failing_memory_disarm());
    EXPECT_EQ(test.Picture(), "f4096");
    EXPECT_EQ(test.Take(test.Union(), 100), 0U);
}

TEST(ViewTakeFault, NeedsNoMemoryForWhatIsDone)
{
    MapsUnderTest test(1);
    ASSERT_TRUE(test.Finish(0, kPage));
    failing_memory_arm(1);
    EXPECT_EQ(test.Take(test.Union(), 100), 0U);
    EXPECT_TRUE(failing_memory_disarm());
}

// Runs of single grains from two maps in turn: each is a piece to be noted.
TEST(ViewClaimFault, WithoutMemoryForItsNotesPutsAllBack)
{
    MapsUnderTest test(1);
    for (uint64_t at = 0; at < 600; at += 2) {
        ASSERT_TRUE(test.Finish(at, 1));
        ASSERT_EQ(test.Give(at + 1, 1), PROBE_GIVEN);
    }
    const std::string before = test.Picture();
    unsigned failures = 0;
    bool is_exhausted = false;
    for (unsigned n = 1; n < kTooMany && !is_exhausted; n++) {
        failing_memory_arm(n);
        bool is_claimed = test.Claim(test.Union(), 0, 600);
        is_exhausted = failing_memory_disarm();
        failures += !is_claimed;
        EXPECT_EQ(is_claimed, is_exhausted) << n;
        EXPECT_EQ(test.Picture(), is_claimed ? ".4096" : before) << n;
    }
    EXPECT_TRUE(is_exhausted);
    EXPECT_EQ(failures, 5U); // for 64, 128, 256, 512 and 1024 pieces
}

} // namespace
