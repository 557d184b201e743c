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
static_assert(offsetof(moiety_pool_stats, struct_size) == 0, "moved");
static_assert(offsetof(moiety_pool_stats, segment_current) == 4, "moved");
static_assert(offsetof(moiety_pool_stats, allocation_current) == 8, "moved");

// A snapshot in which every 32-bit word of the struct says where it is.
moiety_pool_stats Numbered()
{
    moiety_pool_stats stats;
    uint32_t words[sizeof(stats) / 4];
    for (uint32_t i = 0; i < sizeof(stats) / 4; i++)
        words[i] = i;
    std::memcpy(&stats, words, sizeof(stats));
    stats.struct_size = sizeof(stats);
    return stats;
}

std::map<std::string, uint64_t> Listed(const moiety_pool_stats &stats)
{
    std::map<std::string, uint64_t> listed;
    uint64_t value = 0;
    for (uint32_t i = 0;
         const char *key = moiety_pool_stats_entry(&stats, i, &value); i++)
        EXPECT_TRUE(listed.emplace(key, value).second) << key << " again";
    return listed;
}

using Numbers = std::map<std::string, uint64_t>;

// Those that PyTorch has as well.
Numbers NumbersOfBlocks(const moiety_pool_stats &stats)
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

Numbers NumbersOfCaches(const moiety_pool_stats &stats)
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
        {"ages_closed", stats.ages_closed},
        {"events_recorded", stats.events_recorded},
        {"context_events_recorded", stats.context_events_recorded},
        {"stream_waits", stats.stream_waits},
        {"ages_guarded", stats.ages_guarded},
        {"captures_disturbed", stats.captures_disturbed},
        {"oom.done", stats.oom_steps[MOIETY_OOM_DONE]},
        {"oom.grow", stats.oom_steps[MOIETY_OOM_GROW]},
        {"oom.own_cache", stats.oom_steps[MOIETY_OOM_OWN_CACHE]},
        {"oom.orphans", stats.oom_steps[MOIETY_OOM_ORPHANS]},
        {"oom.idle_threads", stats.oom_steps[MOIETY_OOM_IDLE_THREADS]},
        {"oom.trim", stats.oom_steps[MOIETY_OOM_TRIM]},
        {"oom.hand_over", stats.oom_steps[MOIETY_OOM_HAND_OVER]},
        {"oom.wait", stats.oom_steps[MOIETY_OOM_WAIT]},
        {"threads", stats.threads},
        {"streams", stats.streams},
        {"double_frees_found", stats.double_frees_found},
        {"oom.callbacks", stats.oom_steps[MOIETY_OOM_CALLBACKS]},
        {"oom.last_look", stats.oom_steps[MOIETY_OOM_LAST_LOOK]},
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
    moiety_pool_stats stats = Numbered();
    Numbers expected = NumbersOfBlocks(stats);
    expected.merge(NumbersOfCaches(stats));
    EXPECT_EQ(expected, Listed(stats));
}

TEST(StatsEntry, EndsWhereAnOlderStructEnds)
{
    moiety_pool_stats stats = Numbered();
    stats.struct_size = offsetof(moiety_pool_stats, reserved_bytes_peak);
    auto listed = Listed(stats);
    EXPECT_EQ(9u, listed.size());
    EXPECT_EQ(1u, listed.count("reserved_bytes.all.current"));
}

TEST(StatsEntry, DoesNotListAFieldThatIsThereInPart)
{
    moiety_pool_stats stats = Numbered();
    stats.struct_size = offsetof(moiety_pool_stats, reserved_bytes_peak) + 7;
    EXPECT_EQ(9u, Listed(stats).size());
    stats.struct_size = 4;
    EXPECT_EQ(0u, Listed(stats).size());
}

TEST(StatsEntry, ListsNoMoreOfALaterStruct)
{
    moiety_pool_stats stats = Numbered();
    size_t now = Listed(stats).size();
    stats.struct_size = sizeof(stats) + 80;
    EXPECT_EQ(now, Listed(stats).size());
}

TEST(StatsEntry, IsNullWithoutAPlaceForIt)
{
    moiety_pool_stats stats = Numbered();
    uint64_t value = 77;
    EXPECT_EQ(nullptr, moiety_pool_stats_entry(nullptr, 0, &value));
    EXPECT_EQ(nullptr, moiety_pool_stats_entry(&stats, 0, nullptr));
    EXPECT_EQ(nullptr, moiety_pool_stats_entry(&stats, UINT32_MAX, &value));
    EXPECT_EQ(77u, value);
}

} // namespace
