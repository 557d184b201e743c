/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The segments of other processes that this one has open: a list, the one used
 * last in front. Pure book-keeping under one lock; the driver is called
 * elsewhere, with no lock held: meanwhile a state says what is under way, and
 * others wait on a condition.
 */
#ifndef BINADE_POOL_IPC_OPENINGS_H_
#define BINADE_POOL_IPC_OPENINGS_H_

#include <stdbool.h>
#include <stdint.h>

#include "binade/ipc.h"
#include "pool/driver/cuda_abi.h"
#include "pool/ipc/process.h"

/* No padding: compared as bytes. */
struct binadei_opening_key {
    uint64_t segment_id;
    uint64_t context_id;
    uint64_t run; /* of mapped memory, the sum of its pieces; otherwise 0 */
    struct binadei_process exporter;
};

enum binadei_opening_state {
    BINADEI_OPENING, /* one thread asks the driver; then `address` is set */
    BINADEI_OPEN,
    BINADEI_CLOSING /* one thread gives it back */
};

/* The context that an import is for. */
struct binadei_importer {
    CUcontext context;
    uint64_t id;      /* tells it from one that had the same handle before */
    bool has_primary; /* it was retained, as the primary one of the device */
    CUdevice device;
};

struct binadei_opening {
    /* Constant once listed. */
    struct binadei_opening_key key;
    uint8_t driver_handle[sizeof(((binade_ipc_handle *)NULL)->driver_handle)];
    uint64_t segment_bytes;
    /* Under the lock. */
    struct binadei_opening *next;
    enum binadei_opening_state state;
    binade_devptr address;
    struct binadei_importer importer; /* of which has_primary may change */
    uint64_t generation;              /* the latest that was seen */
    uint64_t import_count;            /* not closed */
    uint64_t closing_count; /* closed; the work behind it may not be over */
};

/* What an import finds. */
enum binadei_opening_found {
    BINADEI_OPENING_HIT,     /* counted in: `*out_address` is the segment's */
    BINADEI_OPENING_FRESH,   /* the caller must open `*out`, and end that by
                              binadei_opening_end() */
    BINADEI_OPENING_OLD,     /* the caller must give `*out` back first, and end
                              that by binadei_opening_gave() */
    BINADEI_OPENING_STALE,   /* a later generation has been seen */
    BINADEI_OPENING_CORRUPT, /* it contradicts what is open */
    BINADEI_OPENING_IN_USE,  /* the same driver's handle is open as another
                               segment, and that is in use */
    BINADEI_OPENING_NO_MEMORY
};

/* Waits while another thread opens or closes the segment. A hit takes over the
 * primary context that the importer retained, unless it has it already. */
enum binadei_opening_found
binadei_opening_find(const struct binadei_opening_key *key,
                     const binade_ipc_handle *handle,
                     struct binadei_importer *importer,
                     struct binadei_opening **out, binade_devptr *out_address);
/* 0: it was refused, and the record ends. Otherwise it is imported once, and
 * takes over the primary context. */
void binadei_opening_end(struct binadei_opening *opening,
                         struct binadei_importer *importer,
                         binade_devptr address);

/* The idle one that was used longest ago, if more than `keep_count` are; for
 * the caller to give back. NULL: there is none. */
struct binadei_opening *binadei_opening_take_idle(uint32_t keep_count);
/* The record ends; or, where the driver refused, it is idle again. */
void binadei_opening_gave(struct binadei_opening *opening, bool is_closed);

/* An import of the segment that has `address` becomes a close whose work is not
 * over. BINADE_OK, BINADE_E_FOREIGN or BINADE_E_INVALID, without a message. */
BINADE_MUST_USE binade_status binadei_opening_begin_close(
    binade_devptr address, struct binadei_opening **out);
/* Takes that back. */
void binadei_opening_undo_close(struct binadei_opening *opening);
/* Its work is over. */
void binadei_opening_end_close(struct binadei_opening *opening);

uint32_t binadei_opening_count(void);

#endif
