/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Numbers by numbers, for the writer of a trace: what is live, which threads
 * and streams have a name. Open addressing; for one thread at a time.
 */
#ifndef MOIETY_POOL_OBSERVE_TRACE_TRACE_MAP_H_
#define MOIETY_POOL_OBSERVE_TRACE_TRACE_MAP_H_

#include <stdbool.h>
#include <stdint.h>

struct moietyi_trace_place {
    uint64_t key;
    uint32_t value;
    bool is_used;
};

/* All zeroes: it is empty. */
struct moietyi_trace_map {
    struct moietyi_trace_place *places; /* 2 to the `order`, half are free */
    uint32_t order;
    uint64_t count;
};

/* NULL: the key is not there. */
uint32_t *moietyi_trace_map_find(const struct moietyi_trace_map *map,
                                 uint64_t key);
/* A key that is not there. False: no memory, and nothing has changed. */
bool moietyi_trace_map_add(struct moietyi_trace_map *map, uint64_t key,
                           uint32_t value);
/* A key that is there. */
void moietyi_trace_map_remove(struct moietyi_trace_map *map, uint64_t key);
void moietyi_trace_map_fini(struct moietyi_trace_map *map);

#endif
