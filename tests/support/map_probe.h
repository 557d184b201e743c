/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lets tests in C++ work the maps of streams, whose headers are C only, and look
 * into their words. Units are plain numbers here, as in buddy_probe.h. Calls and
 * reads; asserts nothing.
 */
#ifndef MOIETY_TESTS_SUPPORT_MAP_PROBE_H_
#define MOIETY_TESTS_SUPPORT_MAP_PROBE_H_

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The buddy's own, opaque here. */
struct moietyi_buddy;
struct moietyi_maps;

enum map_probe_age { PROBE_FRESH, PROBE_AGEING, PROBE_AGES };

enum map_probe_given { PROBE_GIVEN, PROBE_NO_MEMORY, PROBE_TWICE };

/* Where in a map a grain is free: not at all, by itself, or with its whole chunk
 * or page. */
enum map_probe_level { PROBE_NOWHERE, PROBE_GRAIN, PROBE_CHUNK, PROBE_PAGE };

struct map_probe_view {
    struct moietyi_buddy *buddy;
    struct moietyi_maps *maps; /* NULL: done memory only */
    bool is_own_only;
    bool is_good_enough; /* a good fit, before the best is looked for */
};

/* NULL: no memory. */
struct moietyi_maps *map_probe_create(struct moietyi_buddy *buddy);
void map_probe_destroy(struct moietyi_maps *maps);

enum map_probe_given map_probe_give(struct moietyi_maps *maps, uint64_t start,
                                    uint64_t grains);
uint64_t map_probe_close(struct moietyi_maps *maps);
uint64_t map_probe_drain(struct moietyi_maps *maps, enum map_probe_age age);
uint64_t map_probe_hand(struct moietyi_maps *maps, enum map_probe_age age,
                        struct moietyi_maps *to);

uint64_t map_probe_grains(const struct moietyi_maps *maps,
                          enum map_probe_age age);
uint64_t map_probe_free_from(const struct moietyi_maps *maps, uint64_t start,
                             uint64_t end);

/* Up to 64 intervals. */
uint32_t map_probe_take(struct moietyi_maps *maps, uint32_t grains,
                        uint32_t count, uint32_t alignment,
                        uint64_t *out_starts);
/* Of pages alone that are somebody's affinity. */
uint32_t map_probe_take_gathered(struct moietyi_maps *maps, uint32_t grains,
                                 uint32_t count, uint64_t *out_starts);
bool map_probe_view_take(const struct map_probe_view *view, uint64_t grains,
                         uint32_t alignment, bool is_thorough,
                         uint64_t *out_start);
/* By the index alone. */
bool map_probe_good_fit(const struct map_probe_view *view, uint64_t grains,
                        uint32_t alignment, uint64_t *out_start);
bool map_probe_view_claim(const struct map_probe_view *view, uint64_t start,
                          uint64_t grains);

/* The verifier of these maps, all of one buddy. NULL, or which invariant is
 * broken, and at which grain. */
const char *map_probe_check(const struct moietyi_maps *const *maps,
                            uint32_t count, uint64_t *out_at);

/* Which grains of a chunk are free, whatever the level: a set bit each. In one
 * map; and in the buddy. */
uint64_t map_probe_chunk(const struct moietyi_maps *maps,
                         enum map_probe_age age, uint64_t chunk);
uint64_t map_probe_done_chunk(const struct moietyi_buddy *buddy,
                              uint64_t chunk);
enum map_probe_level map_probe_level_of(const struct moietyi_maps *maps,
                                        enum map_probe_age age, uint64_t grain);

/* Searches of views that have, or wait for, the run lock; and as if there were
 * one, or none. */
unsigned map_probe_contended(const struct moietyi_buddy *buddy);
void map_probe_contend(struct moietyi_buddy *buddy, bool is_contended);

/* What no code of the buddy does, so that the verifier can be seen to fail and a
 * thorough search be seen to need no hint. The words must be there. */
void map_probe_forget_hints(struct moietyi_maps *maps);
void map_probe_write_grains(struct moietyi_maps *maps, enum map_probe_age age,
                            uint64_t chunk, uint64_t word);
void map_probe_write_chunks(struct moietyi_maps *maps, enum map_probe_age age,
                            uint32_t page, uint64_t word);

#ifdef __cplusplus
}
#endif

#endif
