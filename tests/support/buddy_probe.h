/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lets tests in C++ work a buddy and the maps of streams (pool/heap), whose
 * headers are C only. Units are plain numbers here: grains of 512 B, chunks of
 * 64 grains, pages of 64 chunks. Calls and reads; asserts nothing.
 */
#ifndef MOIETY_TESTS_SUPPORT_BUDDY_PROBE_H_
#define MOIETY_TESTS_SUPPORT_BUDDY_PROBE_H_

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PROBE_PAGE_GRAINS 4096U

/* The buddy's own, opaque here. */
struct moietyi_buddy;
struct moietyi_maps;

/* The moiety_status of creation. */
int buddy_probe_create(uint32_t page_capacity, struct moietyi_buddy **out);
void buddy_probe_destroy(struct moietyi_buddy *buddy);

/* One interval of at most 1 MiB. */
bool buddy_probe_take(struct moietyi_buddy *buddy, uint32_t grains,
                      uint64_t *out_start);
/* A good fit that starts on a page. */
bool buddy_probe_take_pages(struct moietyi_buddy *buddy, uint64_t pages,
                            uint64_t *out_start);
bool buddy_probe_give(struct moietyi_buddy *buddy, uint64_t start,
                      uint64_t grains);
uint64_t buddy_probe_free_from(const struct moietyi_buddy *buddy,
                               uint64_t start, uint64_t end);
uint32_t buddy_probe_longest_page_run(const struct moietyi_buddy *buddy);

/* The verifier. NULL, or which invariant is broken, and at which grain. */
const char *buddy_probe_check(const struct moietyi_buddy *buddy,
                              uint64_t *out_at);

struct map_probe_view {
    struct moietyi_buddy *buddy;
    struct moietyi_maps *maps; /* NULL: done memory only */
    bool is_own_only;
};

/* NULL: no memory. */
struct moietyi_maps *map_probe_create(struct moietyi_buddy *buddy);
void map_probe_destroy(struct moietyi_maps *maps);

bool map_probe_give(struct moietyi_maps *maps, uint64_t start, uint64_t grains);
void map_probe_close(struct moietyi_maps *maps);
/* What was closed is done. */
void map_probe_drain(struct moietyi_maps *maps);
uint64_t map_probe_free_from(const struct moietyi_maps *maps, uint64_t start,
                             uint64_t end);

/* The best fit, of all that there is. */
bool map_probe_view_take(const struct map_probe_view *view, uint64_t grains,
                         uint64_t *out_start);
bool map_probe_view_claim(const struct map_probe_view *view, uint64_t start,
                          uint64_t grains);

/* As buddy_probe_check(), of these maps. */
const char *map_probe_check(const struct moietyi_maps *const *maps,
                            uint32_t count, uint64_t *out_at);

#ifdef __cplusplus
}
#endif

#endif
