/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The blocks that were exported, by address, and which of them were freed since.
 * A plain hash table; its owner has the lock.
 */
#ifndef BINADE_POOL_IPC_HELD_H_
#define BINADE_POOL_IPC_HELD_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "binade/types.h"

struct binadei_held {
    struct binadei_held *next;
    binade_devptr address; /* of the block */
    bool is_freed;         /* by the program; not in circulation */
};

/* Zeroed memory is empty. */
struct binadei_held_table {
    struct binadei_held **buckets;
    size_t bucket_count; /* a power of two, or 0 */
    size_t count;
};

void binadei_held_fini(struct binadei_held_table *table);

struct binadei_held *binadei_held_find(const struct binadei_held_table *table,
                                       binade_devptr address);
/* False: no memory. It was not there. */
bool binadei_held_add(struct binadei_held_table *table, binade_devptr address);

/* Takes out the freed ones from `first` to `end`: a chain, and the caller's. */
struct binadei_held *binadei_held_take_freed(struct binadei_held_table *table,
                                             binade_devptr first,
                                             binade_devptr end);
/* Puts what is left of such a chain back. */
void binadei_held_return(struct binadei_held_table *table,
                         struct binadei_held *chain);
/* Forgets all from `first` to `end`. */
void binadei_held_forget(struct binadei_held_table *table, binade_devptr first,
                         binade_devptr end);

#endif
