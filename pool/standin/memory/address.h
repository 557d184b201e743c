/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which addresses mean something to the driver: sorted tables of ranges. One
 * table has the memory that is live; another has the address reservations of
 * the VMM calls, within which live mappings lie.
 *
 * All functions: lock held.
 */
#ifndef MOIETY_POOL_STANDIN_MEMORY_ADDRESS_H_
#define MOIETY_POOL_STANDIN_MEMORY_ADDRESS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/standin/base/context.h"

struct physical; /* vmm.h */
struct import;   /* ipc.c */

enum address_kind {
    ADDRESS_DEVICE,      /* cuMemAlloc */
    ADDRESS_POOL,        /* cuMemAllocAsync */
    ADDRESS_MAPPING,     /* cuMemMap */
    ADDRESS_IMPORTED,    /* cuIpcOpenMemHandle */
    ADDRESS_PINNED,      /* cuMemHostAlloc */
    ADDRESS_REGISTERED,  /* cuMemHostRegister */
    ADDRESS_MANAGED,     /* cuMemAllocManaged */
    ADDRESS_RESERVATION, /* cuMemAddressReserve; in address_reserved only */
};

struct address_range {
    uint64_t base;
    size_t size_bytes; /* as the user asked for it */
    enum address_kind kind;
    unsigned flags;           /* of the call that made it */
    uint64_t id;              /* never used again; what BUFFER_ID answers */
    unsigned char *shadow;    /* where the stand-in reads and writes it */
    struct device *device;    /* that has the memory; NULL for host memory */
    struct CUctx_st *context; /* that owns it; NULL for VMM ranges */
    bool is_freeing;          /* a free waits for its turn: no second one */
    bool has_sync_memops;
    bool is_exported;      /* by cuIpcGetMemHandle, at least once */
    unsigned handle_types; /* that its memory can be passed on as */
    /* Gives back what it has beside its entry in the table; NULL: nothing. */
    void (*end)(struct address_range *range);
    CUmemoryPool pool;         /* ADDRESS_POOL only */
    struct import *import;     /* ADDRESS_IMPORTED only */
    struct physical *physical; /* ADDRESS_MAPPING only, with */
    CUmemAccess_flags access[STANDIN_DEVICE_MAX]; /* rights per device */
    CUmemAccess_flags host_access;                /* and of the CPU */
};

struct address_slot {
    uint64_t base;
    struct address_range *range;
};

struct address_table {
    struct address_slot *slots; /* sorted by base, disjoint */
    size_t count;
    size_t capacity;
};

extern struct address_table address_live;
extern struct address_table address_reserved;

/* Copies `range` into the table under a fresh id; it overlaps nothing there.
 * NULL when host memory ran out. */
struct address_range *address_add(struct address_table *table,
                                  const struct address_range *range);

/* Takes `range` out and frees it. */
void address_remove(struct address_table *table, struct address_range *range);

/* The range that `address` is in; NULL when none. */
struct address_range *address_find(const struct address_table *table,
                                   uint64_t address);

/* Index of the first range that ends after `address`; count when none. */
size_t address_index(const struct address_table *table, uint64_t address);

bool address_overlaps(const struct address_table *table, uint64_t base,
                      size_t size_bytes);

static inline uint64_t address_end(const struct address_range *range)
{
    return range->base + range->size_bytes;
}

/* Addresses that no CPU may touch, with a mapping of their own for the
 * stand-in when `out_shadow` is asked for (it is without access at first).
 * `hint` 0 leaves the place to the kernel. 0 when there is no room. */
uint64_t address_reserve(size_t size_bytes, size_t alignment, uint64_t hint,
                         unsigned char **out_shadow);

/* Ends what address_reserve() made. Work that is still queued may hold the
 * shadow's address: for a while yet it finds memory there that is nobody's,
 * and the addresses still count as a device's. */
void address_retire(uint64_t base, size_t size_bytes, unsigned char *shadow);

/* Puts memory that is nobody's in the place of a shadow. */
void address_make_scratch(unsigned char *shadow, size_t size_bytes);

/* Whether address_retire() still keeps `address` back. */
bool address_is_retired(uint64_t address);

#endif
