/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The blocks that were exported, by address, and which of them were freed since.
 * A plain hash table; its owner has the lock.
 */
#ifndef MOIETY_POOL_IPC_HELD_H_
#define MOIETY_POOL_IPC_HELD_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "moiety/types.h"

struct moietyi_held {
    struct moietyi_held *next;
    moiety_devptr address; /* of the block */
    bool is_freed;         /* by the program; not in circulation */
};

/* Zeroed memory is empty. */
struct moietyi_held_table {
    struct moietyi_held **buckets;
    size_t bucket_count; /* a power of two, or 0 */
    size_t count;
};

void moietyi_held_fini(struct moietyi_held_table *table);

struct moietyi_held *moietyi_held_find(const struct moietyi_held_table *table,
                                       moiety_devptr address);
/* False: no memory. It was not there. */
bool moietyi_held_add(struct moietyi_held_table *table, moiety_devptr address);

/* Takes out the freed ones from `first` to `end`: a chain, and the caller's. */
struct moietyi_held *moietyi_held_take_freed(struct moietyi_held_table *table,
                                             moiety_devptr first,
                                             moiety_devptr end);
/* Puts what is left of such a chain back. */
void moietyi_held_return(struct moietyi_held_table *table,
                         struct moietyi_held *chain);
/* Forgets all from `first` to `end`. */
void moietyi_held_forget(struct moietyi_held_table *table, moiety_devptr first,
                         moiety_devptr end);

#endif
