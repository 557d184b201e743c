// SPDX-License-Identifier: Apache-2.0
//
// Every number of a snapshot is listed once, under its key.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <string>

#include "moiety/stats.h"

namespace
{

// Version 0.1.0 of the struct; fields may only be appended.
static_assert(offsetof(moiety_stats, struct_size) == 0, "moved");
static_assert(offsetof(moiety_stats, segment_current) == 4, "moved");
static_assert(offsetof(moiety_stats, allocation_current) == 8, "moved");

// A snapshot in which every 32-bit word of the struct says where it is.
moiety_stats Numbered()
{
    moiety_stats stats;
    uint32_t words[sizeof(stats) / 4];
    for (uint32_t i = 0; i < sizeof(stats) / 4; i++)
        words[i] = i;
    std::memcpy(&stats, words, sizeof(stats));
    stats.struct_size = sizeof(stats);
    return stats;
}

std::map<std::string, uint64_t> Listed(const moiety_stats &stats)
{
    std::map<std::string, uint64_t> listed;
    uint64_t value = 0;
    for (uint32_t i = 0;
         const char *key = moiety_stats_entry(&stats, i, &value); i++)
        EXPECT_TRUE(listed.emplace(key, value).second) << key << " again";
    return listed;
}

using Numbers = std::map<std::string, uint64_t>;

// Those that PyTorch has as well.
Numbers NumbersOfBlocks(const moiety_stats &stats)
{
    return {
        {"segment.all.current", stats.segment_current},
        {"allocation.all.current", stats.allocation_current},
        {"allocation.all.allocated", stats.allocation_allocated},
        {"allocation.all.freed", stats.allocation_freed},
        {"allocated_bytes.all.current", stats.allocated_bytes_current},
        {"allocated_bytes.all.allocated", stats.allocated_bytes_allocated},
        {"allocated_bytes.all.freed", stats.allocated_bytes_freed},
        {"requested_bytes.all.allocated", stats.requested_bytes_allocated},
        {"reserved_bytes.all.current", stats.reserved_bytes_current},
        {"reserved_bytes.all.peak", stats.reserved_bytes_peak},
        {"segment.all.allocated", stats.segment_allocated},
        {"segment.all.freed", stats.segment_freed},
        {"num_alloc_retries", stats.alloc_retries},
        {"num_ooms", stats.ooms},
    };
}

Numbers NumbersOfCaches(const moiety_stats &stats)
{
    return {
        {"cached_bytes", stats.cached_bytes},
        {"retiring_bytes", stats.retiring_bytes},
        {"free_bytes", stats.free_bytes},
        {"longest_run_bytes", stats.longest_run_bytes},
        {"limit_bytes", stats.limit_bytes},
        {"unreleased_bytes", stats.unreleased_bytes},
        {"cache_hits", stats.cache_hits},
        {"cache_misses", stats.cache_misses},
        {"batches_retired", stats.batches_retired},
        {"events_recorded", stats.events_recorded},
        {"context_events_recorded", stats.context_events_recorded},
        {"events_queried", stats.events_queried},
        {"stream_waits", stats.stream_waits},
        {"batches_guarded", stats.batches_guarded},
        {"captures_disturbed", stats.captures_disturbed},
        {"ladder.finished_batches", stats.ladder_finished_batches},
        {"ladder.grow", stats.ladder_grow},
        {"ladder.own_cache", stats.ladder_own_cache},
        {"ladder.orphans", stats.ladder_orphans},
        {"ladder.idle_threads", stats.ladder_idle_threads},
        {"ladder.trim", stats.ladder_trim},
        {"ladder.hand_over", stats.ladder_hand_over},
        {"ladder.wait", stats.ladder_wait},
        {"ladder.failed", stats.ladder_failed},
        {"threads", stats.threads},
        {"streams", stats.streams},
        {"double_frees_found", stats.double_frees_found},
        {"ladder.callbacks", stats.ladder_callbacks},
        {"ladder.last_look", stats.ladder_last_look},
        {"cache_bound_bytes", stats.cache_bound_bytes},
        {"cache_bound_halvings", stats.cache_bound_halvings},
        {"mapped.moves", stats.mapped_moves},
        {"mapped.moved_bytes", stats.mapped_moved_bytes},
        {"mapped.left_bytes", stats.mapped_left_bytes},
        {"mapped.paused_bytes", stats.mapped_paused_bytes},
        {"others.asked", stats.others_asked},
        {"others.got_bytes", stats.others_got_bytes},
        {"others.given_bytes", stats.others_given_bytes},
        {"allocated_bytes.all.peak", stats.allocated_bytes_peak},
    };
}

TEST(StatsEntry, ListsEveryFieldUnderItsKey)
{
    moiety_stats stats = Numbered();
    Numbers expected = NumbersOfBlocks(stats);
    expected.merge(NumbersOfCaches(stats));
    EXPECT_EQ(expected, Listed(stats));
}

TEST(StatsEntry, EndsWhereAnOlderStructEnds)
{
    moiety_stats stats = Numbered();
    stats.struct_size = offsetof(moiety_stats, reserved_bytes_peak);
    auto listed = Listed(stats);
    EXPECT_EQ(9u, listed.size());
    EXPECT_EQ(1u, listed.count("reserved_bytes.all.current"));
}

TEST(StatsEntry, DoesNotListAFieldThatIsThereInPart)
{
    moiety_stats stats = Numbered();
    stats.struct_size = offsetof(moiety_stats, reserved_bytes_peak) + 7;
    EXPECT_EQ(9u, Listed(stats).size());
    stats.struct_size = 4;
    EXPECT_EQ(0u, Listed(stats).size());
}

TEST(StatsEntry, ListsNoMoreOfALaterStruct)
{
    moiety_stats stats = Numbered();
    size_t now = Listed(stats).size();
    stats.struct_size = sizeof(stats) + 80;
    EXPECT_EQ(now, Listed(stats).size());
}

TEST(StatsEntry, IsNullWithoutAPlaceForIt)
{
    moiety_stats stats = Numbered();
    uint64_t value = 77;
    EXPECT_EQ(nullptr, moiety_stats_entry(nullptr, 0, &value));
    EXPECT_EQ(nullptr, moiety_stats_entry(&stats, 0, nullptr));
    EXPECT_EQ(nullptr, moiety_stats_entry(&stats, UINT32_MAX, &value));
    EXPECT_EQ(77u, value);
}

} // namespace
