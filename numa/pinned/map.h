/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Address space for a region, out of the kind of pages that was asked for, and
 * where its memory shall come from. No page is there before the first touch, so
 * binding needs no privilege.
 */
#ifndef MOIETY_NUMA_PINNED_MAP_H_
#define MOIETY_NUMA_PINNED_MAP_H_

#include "numa/pinned/region.h"

/* The size of pages of a kind; for the smallest kind it asks the system. */
size_t moietyi_page_bytes(enum moietyi_pages pages);

/* A child of a fork has no such memory, but others may be at its addresses. */
void moietyi_unmap(struct moietyi_region *region);

/* Sets whether children of a fork have these pages, which are whole ones. A
 * refusal of the kernel changes nothing. */
void moietyi_keep_from_children(void *base, size_t size_bytes);
void moietyi_let_children_have(void *base, size_t size_bytes);

/* Maps `region->size_bytes` of `region->pages`, aligned to 2 MiB and to the page, keeps
 * them from children and binds them; those of a place that is not strict may stay
 * unbound. If the kernel has no transparent huge pages, `pages` becomes SMALL.
 * Otherwise it is not mapped: MOIETY_E_NO_HOST_MEMORY for address space,
 * MOIETY_E_NO_PINNED_MEMORY for huge pages, MOIETY_E_UNSUPPORTED for binding. */
MOIETY_MUST_USE moiety_status moietyi_map_region(
    struct moietyi_region *region, const struct moietyi_place *place);

/* Adds the time since `since` to a stage of the region, and moves it to now. */
void moietyi_end_stage(struct moietyi_region *region, int stage,
                       uint64_t *since);
/* Notes bits of what is done without, and the last failure's words as the reason. */
void moietyi_fall_back(struct moietyi_region *region, uint32_t bits);

/* Binds pages that the calling thread touches first, until
 * moietyi_unbind_thread(). */
struct moietyi_thread_binding {
    hwloc_nodeset_t nodes; /* NULL: nothing to restore */
    hwloc_membind_policy_t policy;
};
MOIETY_MUST_USE moiety_status moietyi_bind_thread(
    const struct moietyi_place *place, struct moietyi_thread_binding *out);
void moietyi_unbind_thread(const struct moietyi_place *place,
                           struct moietyi_thread_binding *binding);

/* "0" or "0-1,3", for messages. */
struct moietyi_nodes_text {
    char text[64];
};
struct moietyi_nodes_text moietyi_nodes_text(const struct moietyi_place *place);

/* The text of an errno, likewise: strerror() is not thread-safe. */
struct moietyi_error_text {
    char text[96];
};
struct moietyi_error_text moietyi_error_text(int code);

#endif
