/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The keys of moiety_pool_stats, in the order of its fields: so an older and shorter
 * struct has the same keys under the same indices, and then ends.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "moiety/stats.h"

/* KEY(field, key): all but struct_size. Those that mean the same as in
 * torch.cuda.memory_stats() bear its keys. */
#define KEYS(KEY)                                                              \
    KEY(segment_current, "segment.all.current")                                \
    KEY(allocation_current, "allocation.all.current")                          \
    KEY(allocation_allocated, "allocation.all.allocated")                      \
    KEY(allocation_freed, "allocation.all.freed")                              \
    KEY(allocated_bytes_current, "allocated_bytes.all.current")                \
    KEY(allocated_bytes_allocated, "allocated_bytes.all.allocated")            \
    KEY(allocated_bytes_freed, "allocated_bytes.all.freed")                    \
    KEY(requested_bytes_allocated, "requested_bytes.all.allocated")            \
    KEY(reserved_bytes_current, "reserved_bytes.all.current")                  \
    KEY(reserved_bytes_peak, "reserved_bytes.all.peak")                        \
    KEY(segment_allocated, "segment.all.allocated")                            \
    KEY(segment_freed, "segment.all.freed")                                    \
    KEY(alloc_retries, "num_alloc_retries")                                    \
    KEY(ooms, "num_ooms")                                                      \
    KEY(cached_bytes, "cached_bytes")                                          \
    KEY(retiring_bytes, "retiring_bytes")                                      \
    KEY(free_bytes, "free_bytes")                                              \
    KEY(longest_run_bytes, "longest_run_bytes")                                \
    KEY(limit_bytes, "limit_bytes")                                            \
    KEY(unreleased_bytes, "unreleased_bytes")                                  \
    KEY(cache_hits, "cache_hits")                                              \
    KEY(cache_misses, "cache_misses")                                          \
    KEY(ages_closed, "ages_closed")                                            \
    KEY(events_recorded, "events_recorded")                                    \
    KEY(context_events_recorded, "context_events_recorded")                    \
    KEY(stream_waits, "stream_waits")                                          \
    KEY(ages_guarded, "ages_guarded")                                          \
    KEY(captures_disturbed, "captures_disturbed")                              \
    KEY(oom_steps[MOIETY_OOM_DONE], "oom.done")                                \
    KEY(oom_steps[MOIETY_OOM_GROW], "oom.grow")                                \
    KEY(oom_steps[MOIETY_OOM_OWN_CACHE], "oom.own_cache")                      \
    KEY(oom_steps[MOIETY_OOM_ORPHANS], "oom.orphans")                          \
    KEY(oom_steps[MOIETY_OOM_IDLE_THREADS], "oom.idle_threads")                \
    KEY(oom_steps[MOIETY_OOM_TRIM], "oom.trim")                                \
    KEY(oom_steps[MOIETY_OOM_HAND_OVER], "oom.hand_over")                      \
    KEY(oom_steps[MOIETY_OOM_CALLBACKS], "oom.callbacks")                      \
    KEY(oom_steps[MOIETY_OOM_WAIT], "oom.wait")                                \
    KEY(oom_steps[MOIETY_OOM_LAST_LOOK], "oom.last_look")                      \
    KEY(threads, "threads")                                                    \
    KEY(streams, "streams")                                                    \
    KEY(double_frees_found, "double_frees_found")                              \
    KEY(cache_bound_bytes, "cache_bound_bytes")                                \
    KEY(cache_bound_halvings, "cache_bound_halvings")                          \
    KEY(mapped_moves, "mapped.moves")                                          \
    KEY(mapped_moved_bytes, "mapped.moved_bytes")                              \
    KEY(mapped_left_bytes, "mapped.left_bytes")                                \
    KEY(mapped_paused_bytes, "mapped.paused_bytes")                            \
    KEY(others_asked, "others.asked")                                          \
    KEY(others_got_bytes, "others.got_bytes")                                  \
    KEY(others_given_bytes, "others.given_bytes")                              \
    KEY(allocated_bytes_peak, "allocated_bytes.all.peak")

struct entry {
    const char *key;
    size_t offset_bytes;
    size_t width_bytes; /* 4 or 8 */
};

#define WIDTH(field) sizeof(((moiety_pool_stats *)NULL)->field)

static const struct entry entries[] = {
#define ENTRY(field, key)                                                      \
    {key, offsetof(moiety_pool_stats, field), WIDTH(field)},
    KEYS(ENTRY)
#undef ENTRY
};

/* The struct has no gaps, so a field without a key shows as a difference. */
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a term of a sum. */
#define PLUS_WIDTH(field, key) +WIDTH(field)
_Static_assert(WIDTH(struct_size) KEYS(PLUS_WIDTH) == sizeof(moiety_pool_stats),
               "a field of moiety_pool_stats has no key");

const char *moiety_pool_stats_entry(const moiety_pool_stats *stats,
                                    uint32_t index, uint64_t *out_value)
{
    if (!stats || !out_value || index >= sizeof(entries) / sizeof(entries[0]))
        return NULL;
    const struct entry *entry = &entries[index];
    if (entry->offset_bytes + entry->width_bytes > stats->struct_size)
        return NULL;
    const char *at = (const char *)stats + entry->offset_bytes;
    uint32_t narrow;
    if (entry->width_bytes == sizeof(narrow)) {
        memcpy(&narrow, at, sizeof(narrow));
        *out_value = narrow;
    } else {
        memcpy(out_value, at, sizeof(*out_value));
    }
    return entry->key;
}
