/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Address space for a region, out of the kind of pages that was asked for, and
 * where its memory shall come from. No page is there before the first touch, so
 * binding needs no privilege.
 */
#ifndef BINADE_NUMA_PINNED_MAP_H_
#define BINADE_NUMA_PINNED_MAP_H_

#include "numa/pinned/region.h"

/* What the pages of a kind are multiples of; a kind of one's own asks the
 * system. */
size_t binadei_page_bytes(enum binadei_pages pages);

/* Maps `region->size_bytes` of `region->pages`, aligned to 2 MiB and to the
 * page. BINADE_OK, BINADE_E_NO_HOST_MEMORY for address space, or
 * BINADE_E_NO_PINNED_MEMORY for huge pages. Where the kernel has no transparent
 * huge pages, `pages` becomes SMALL. */
BINADE_MUST_USE binade_status binadei_map(struct binadei_region *region);
void binadei_unmap(struct binadei_region *region);

/* Binds what was mapped. `is_exact`: the kernel must not take pages elsewhere.
 * BINADE_OK, or BINADE_E_UNSUPPORTED when the system refuses. */
BINADE_MUST_USE binade_status binadei_bind(const struct binadei_region *region,
                                           const struct binadei_place *place,
                                           bool is_exact);

/* Binds what the calling thread touches first, until binadei_unbind_thread(). */
struct binadei_thread_binding {
    hwloc_nodeset_t nodes; /* NULL: nothing to restore */
    hwloc_membind_policy_t policy;
};
BINADE_MUST_USE binade_status binadei_bind_thread(
    const struct binadei_place *place, struct binadei_thread_binding *out);
void binadei_unbind_thread(const struct binadei_place *place,
                           struct binadei_thread_binding *binding);

/* "0" or "0-1,3", for messages. */
struct binadei_nodes_text {
    char text[64];
};
struct binadei_nodes_text binadei_nodes_text(const struct binadei_place *place);

/* What an errno means, likewise: strerror() is not for threads. */
struct binadei_error_text {
    char text[96];
};
struct binadei_error_text binadei_error_text(int code);

#endif
