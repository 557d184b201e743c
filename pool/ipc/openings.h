/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The segments of other processes that this one has open: a list, the one used
 * last in front. Pure book-keeping under one lock; the driver is called
 * elsewhere, with no lock held: meanwhile a state says what is under way, and
 * others wait on a condition.
 */
#ifndef MOIETY_POOL_IPC_OPENINGS_H_
#define MOIETY_POOL_IPC_OPENINGS_H_

#include <stdbool.h>
#include <stdint.h>

#include "moiety/ipc.h"
#include "pool/driver/cuda_abi.h"
#include "pool/ipc/process.h"

/* No padding: compared as bytes. */
struct moietyi_opening_key {
    uint64_t segment_id;
    uint64_t context_id;
    uint64_t run; /* of mapped memory, the sum of its pieces; otherwise 0 */
    struct moietyi_process exporter;
};

enum moietyi_opening_state {
    MOIETYI_OPENING, /* one thread asks the driver; then `address` is set */
    MOIETYI_OPEN,
    MOIETYI_CLOSING /* one thread gives it back */
};

/* The context that an import is for. */
struct moietyi_importer {
    CUcontext context;
    uint64_t id;      /* tells it from one that had the same handle before */
    bool has_primary; /* it was retained, as the primary one of the device */
    CUdevice device;
};

struct moietyi_opening {
    /* Constant once listed. */
    struct moietyi_opening_key key;
    uint8_t driver_handle[sizeof(((moiety_ipc_handle *)NULL)->driver_handle)];
    uint64_t segment_bytes;
    /* Under the lock. */
    struct moietyi_opening *next;
    enum moietyi_opening_state state;
    moiety_devptr address;
    struct moietyi_importer importer; /* of which has_primary may change */
    uint64_t generation;              /* the latest that was seen */
    uint64_t import_count;            /* not closed */
    uint64_t closing_count; /* closed; the work behind it may not be over */
};

/* The result of an import. */
enum moietyi_opening_found {
    MOIETYI_OPENING_HIT,     /* counted in: `*out_address` is the segment's */
    MOIETYI_OPENING_FRESH,   /* the caller must open `*out`, and end that by
                              moietyi_opening_end() */
    MOIETYI_OPENING_OLD,     /* the caller must give `*out` back first, and end
                              that by moietyi_opening_gave() */
    MOIETYI_OPENING_STALE,   /* a later generation has been seen */
    MOIETYI_OPENING_CORRUPT, /* it contradicts what is open */
    MOIETYI_OPENING_IN_USE,  /* the same driver's handle is open as another
                               segment, and that is in use */
    MOIETYI_OPENING_NO_MEMORY
};

/* Waits while another thread opens or closes the segment. A hit takes over the
 * primary context that the importer retained, unless it has it already. */
enum moietyi_opening_found
moietyi_opening_find(const struct moietyi_opening_key *key,
                     const moiety_ipc_handle *handle,
                     struct moietyi_importer *importer,
                     struct moietyi_opening **out, moiety_devptr *out_address);
/* 0: it was refused, and the record ends. Otherwise it is imported once, and
 * takes over the primary context. */
void moietyi_opening_end(struct moietyi_opening *opening,
                         struct moietyi_importer *importer,
                         moiety_devptr address);

/* The idle one that was used longest ago, if more than `keep_count` are; for
 * the caller to give back. NULL: there is none. */
struct moietyi_opening *moietyi_opening_take_idle(uint32_t keep_count);
/* The record ends; or, where the driver refused, it is idle again. */
void moietyi_opening_gave(struct moietyi_opening *opening, bool is_closed);

/* An import of the segment that has `address` becomes a close whose work is not
 * over. MOIETY_OK, MOIETY_E_FOREIGN or MOIETY_E_INVALID, without a message. */
MOIETY_MUST_USE moiety_status moietyi_opening_begin_close(
    moiety_devptr address, struct moietyi_opening **out);
/* Takes that back. */
void moietyi_opening_undo_close(struct moietyi_opening *opening);
/* Its work is over. */
void moietyi_opening_end_close(struct moietyi_opening *opening);

uint32_t moietyi_opening_count(void);

#endif
