/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Watchers of segments that are added and removed
 * (docs/dev/adr/0030-events-of-segments.md). Only the grower notifies, so a
 * watcher gets one notice at a time; a trim is a grower too while there is a
 * watcher. The lock is not held meanwhile.
 */
#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/segment/state.h"

struct moietyi_watcher {
    struct moietyi_watcher *next;
    uint64_t id;
    struct moietyi_watch watch;
};

static void watch_tell(const struct moietyi_watcher *watcher,
                       const struct moietyi_segment *segment,
                       uint64_t hold_count)
{
    watcher->watch.tell(&watcher->watch, &segment->info, hold_count,
                        segment->is_told);
}

static void watch_tell_all(const struct moietyi_segments *segments,
                           const struct moietyi_segment *segment)
{
    /* No thread can change the count: either it is on no list, or it is
     * away. */
    for (const struct moietyi_watcher *at = segments->watchers; at;
         at = at->next)
        watch_tell(at, segment, segment->hold_count);
}

void moietyi_segment_announce(struct moietyi_segments *segments,
                              struct moietyi_segment *segment)
{
    pthread_mutex_lock(&segments->lock);
    segment->info.id = segments->next_id++;
    pthread_mutex_unlock(&segments->lock);
    segment->is_told = true;
    watch_tell_all(segments, segment);
}

void moietyi_segment_retract(struct moietyi_segments *segments,
                             struct moietyi_segment *segment)
{
    if (!segment->is_told)
        return;
    segment->is_told = false;
    watch_tell_all(segments, segment);
}

/* By the grower, who alone changes the list. */
static void watch_tell_present(struct moietyi_segments *segments,
                               const struct moietyi_watcher *watcher)
{
    for (const struct moietyi_segment *at = segments->listed; at;
         at = at->next) {
        pthread_mutex_lock(&segments->lock);
        uint64_t hold_count = at->hold_count;
        pthread_mutex_unlock(&segments->lock);
        if (at->is_told)
            watch_tell(watcher, at, hold_count);
    }
}

/* Makes the caller the grower, and trims of others growers. */
static void watch_begin(struct moietyi_segments *segments,
                        struct moietyi_watcher *watcher)
{
    pthread_mutex_lock(&segments->lock);
    segments->watch_count++;
    moietyi_await_grower(segments);
    segments->is_growing = true;
    while (segments->trim_running)
        pthread_cond_wait(&segments->grown, &segments->lock);
    watcher->id = ++segments->last_watch;
    pthread_mutex_unlock(&segments->lock);
    struct moietyi_watcher **last = &segments->watchers;
    while (*last)
        last = &(*last)->next;
    *last = watcher;
}

moiety_status moietyi_segments_watch(struct moietyi_segments *segments,
                                     const struct moietyi_watch *watch,
                                     uint64_t *out_id)
{
    struct moietyi_watcher *watcher = calloc(1, sizeof(*watcher));
    if (!watcher)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory for a watcher of segments");
    watcher->watch = *watch;
    watch_begin(segments, watcher);
    watch_tell_present(segments, watcher);
    *out_id = watcher->id;
    moietyi_grower_end(segments);
    return MOIETY_OK;
}

/* By the grower. NULL: there is none. */
static struct moietyi_watcher *watch_remove(struct moietyi_segments *segments,
                                            uint64_t id)
{
    struct moietyi_watcher **at = &segments->watchers;
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    struct moietyi_watcher *watcher = *at;
    if (!watcher)
        return NULL;
    *at = watcher->next;
    pthread_mutex_lock(&segments->lock);
    segments->watch_count--;
    pthread_mutex_unlock(&segments->lock);
    return watcher;
}

moiety_status moietyi_segments_unwatch(struct moietyi_segments *segments,
                                       uint64_t id)
{
    moietyi_grower_begin(segments);
    struct moietyi_watcher *watcher = watch_remove(segments, id);
    /* Only a grower gives ids. */
    bool is_known = id && id <= segments->last_watch;
    moietyi_grower_end(segments);
    if (!watcher) {
        return is_known
                   ? moietyi_fail(MOIETY_E_DESTROYED,
                                  "the watch of this id has ended")
                   : moietyi_fail(MOIETY_E_INVALID,
                                  "nobody watches the pool's segments by this "
                                  "id");
    }
    free(watcher);
    return MOIETY_OK;
}

void moietyi_watchers_free(struct moietyi_segments *segments)
{
    while (segments->watchers) {
        struct moietyi_watcher *watcher = segments->watchers;
        segments->watchers = watcher->next;
        free(watcher);
    }
}
