/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a checked pool keeps. One lock guards all of it, but for a block that is
 * BINADEI_BLOCK_MOVING: that is the mover's alone, so that no lock is held
 * while the driver or the source works.
 */
#ifndef BINADE_POOL_CHECKED_STATE_H_
#define BINADE_POOL_CHECKED_STATE_H_

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "binade/checked.h"
#include "binade/tenant.h"
#include "pool/cache/uses.h"
#include "pool/checked/checked.h"
#include "pool/core/body.h"
#include "pool/graph/privates.h"
#include "pool/graph/scopes.h"

#define BINADEI_BLOCK_RECORD_BUCKETS 65536U
#define BINADEI_STREAM_BUCKETS 256U
#define BINADEI_CALL_SITE_FRAMES 16
/* Of blocks that are gone, so many are remembered. */
#define BINADEI_HISTORY_BLOCKS 4096U

/* What lies before and after a block. */
#define BINADEI_BOUND_BYTES 512U
#define BINADEI_BOUND_BYTE 0xfdU
#define BINADEI_FREED_BYTE 0xddU
#define BINADEI_FRESH_BYTE 0xcdU

/* Where in the program something happened. */
struct binadei_call_site {
    binade_stream stream;
    int thread; /* as the kernel numbers it */
    int frame_count;
    void *frames[BINADEI_CALL_SITE_FRAMES];
};

enum binadei_block_record_state {
    BINADEI_BLOCK_LIVE,   /* the program's */
    BINADEI_BLOCK_MOVING, /* one thread's, which takes it elsewhere */
    BINADEI_BLOCK_HELD,   /* freed; on one of the queues, or a scope's */
    BINADEI_BLOCK_GONE    /* its memory may be another's; in the history */
};

/* A block. */
struct binadei_block_record {
    struct binadei_block_record *next_in_bucket;
    struct binadei_block_record *next; /* in its queue */
    struct binadei_block_record *previous;
    enum binadei_block_record_state state;
    bool is_freed;
    bool is_shared;    /* uses were noted */
    bool is_filled;    /* with the pattern of what was freed */
    bool is_looked_at; /* and only its memory is still to go back */
    bool is_unissued;  /* never given out, and not in the table */
    bool is_replaced;  /* no longer in the table; under the lock */
    binade_devptr address;
    uint64_t size_bytes; /* that were asked for */
    binade_devptr base;  /* as the pool or the source gave it */
    uint64_t base_bytes; /* as they were asked for it */
    /* The tenant that is charged for it; NULL: none, or none any more. The name
     * stays: the tenant may be gone when something is found. */
    struct binadei_tenant *tenant;
    char tenant_name[BINADE_TENANT_NAME_BYTES];
    /* The private arena that is charged for it; or none, or none any more. */
    struct binadei_private_ref arena_ref;
    uint32_t note; /* of the stream that it was allocated for */
    uint64_t sequence;
    uint64_t free_sequence;
    struct binadei_call_site allocated;
    struct binadei_call_site freed;
    struct binadei_wait wait; /* of a freed block */
};

/* Oldest first. */
struct binadei_block_record_queue {
    struct binadei_block_record *first;
    struct binadei_block_record *last;
    uint64_t count;
    uint64_t bytes;
};

struct binadei_stream_name {
    struct binadei_stream_name *next;
    CUstream stream;
    unsigned long long id;
};

struct binadei_checked {
    struct binadei_pool_body *body; /* constant, like the next five */
    binade_source source;
    bool is_checked;
    bool is_passing;
    bool is_own_device; /* the source takes any size */
    CUstream stream;    /* for patterns, and for looking at them; or NULL */
    struct binadei_checked *next; /* of all; the list's lock */

    pthread_mutex_t lock;
    uint64_t sequence;
    struct binadei_block_record *buckets[BINADEI_BLOCK_RECORD_BUCKETS];
    struct binadei_stream_name *streams[BINADEI_STREAM_BUCKETS];
    /* Freed blocks: those whose work may not be over, and those whose is. */
    struct binadei_block_record_queue waiting;
    struct binadei_block_record_queue held;
    struct binadei_block_record_queue kept; /* by capture scopes */
    struct binadei_block_record_queue history;
    uint64_t moving_count; /* freed blocks that are on no queue just now */
    binade_checked_counts counts;
    /* Of the program's own view, for binade_stats. */
    uint64_t alloc_count;
    uint64_t alloc_bytes;
    uint64_t free_count;
    uint64_t free_bytes;
    uint64_t live_peak_bytes;
    binade_status end_status; /* what the source refused at the end */
    /* From the source: where all is passed through. */
    uint64_t reserved_bytes;
    uint64_t peak_bytes;
    uint64_t reserve_count;
    uint64_t release_count;
    bool is_asked; /* a source of the program's, by one thread */
    pthread_cond_t answered;
};

/* checked.c: another checked pool that has given this address out, by the
 * handle, or NULL. No lock held. */
const void *binadei_checked_owner(const struct binadei_checked *except,
                                  binade_devptr address);
/* checked.c: of the table of operations. */
uint64_t binadei_checked_sweep(struct binadei_call *call);
void binadei_checked_reset_peaks(struct binadei_pool_body *body);
void binadei_checked_fill(struct binadei_call *call, binade_stats *stats);
void binadei_checked_end(struct binadei_pool_body *body, bool is_at_rest,
                         binade_leaks *leaks);

/* free.c: of the table too; of a free, `event` NULL is behind the call's
 * stream. */
BINADE_MUST_USE binade_status binadei_checked_free(struct binadei_call *call,
                                                   binade_devptr address,
                                                   size_t size_bytes,
                                                   CUevent event);
BINADE_MUST_USE binade_status binadei_checked_turn(struct binadei_call *call,
                                                   binade_devptr address);
BINADE_MUST_USE binade_status binadei_checked_use(struct binadei_call *call,
                                                  binade_devptr address,
                                                  binade_stream stream);
BINADE_MUST_USE binade_status binadei_checked_size(struct binadei_call *call,
                                                   binade_devptr address,
                                                   size_t *out);
size_t binadei_checked_live_bytes(struct binadei_call *call,
                                  binade_devptr address);

/* table.c; the lock is held unless it says otherwise. */

/* The block that was given out at `address`, whatever became of it. */
struct binadei_block_record *
binadei_block_record_find(struct binadei_checked *checked,
                          binade_devptr address);
/* One whose memory `address` is in, best one that is not gone. */
struct binadei_block_record *
binadei_block_record_around(struct binadei_checked *checked,
                            binade_devptr address);
void binadei_block_record_insert(struct binadei_checked *checked,
                                 struct binadei_block_record *record);
void binadei_block_record_remember(struct binadei_checked *checked,
                                   struct binadei_block_record *record);
/* One that is MOVING, and LIVE before, is not the program's any more. */
void binadei_block_record_set_freed(struct binadei_checked *checked,
                                    struct binadei_block_record *record,
                                    const struct binadei_call_site *site);
/* It is the program's again. */
void binadei_block_record_unset_freed(struct binadei_checked *checked,
                                      struct binadei_block_record *record);
/* Its free is over, for the statistics too; still MOVING. */
void binadei_block_record_count_free(struct binadei_checked *checked,
                                     struct binadei_block_record *record);
/* What a message says of it: no more, for the rest of one that is MOVING is its
 * mover's. */
void binadei_block_record_show(const struct binadei_block_record *record,
                               struct binadei_block_record *out);
void binadei_queue_append(struct binadei_block_record_queue *queue,
                          struct binadei_block_record *record);
void binadei_queue_remove(struct binadei_block_record_queue *queue,
                          struct binadei_block_record *record);
/* Takes the lock: one that nobody ever had joins those that were freed. */
void binadei_quarantine_add_unissued(struct binadei_checked *checked,
                                     struct binadei_block_record *unissued);
/* No lock: nobody else is there. Frees all records. */
void binadei_block_record_clear(struct binadei_checked *checked);

/* pending.c: its tenant and arena are charged no more, if it has any. By its
 * mover; no lock held. */
void binadei_block_record_discharge(const struct binadei_call *call,
                                    struct binadei_block_record *record);

/* pending.c: lets one that is MOVING, and freed, wait for what a free on
 * the call's stream waits for, or behind `event`. BINADE_OK, or why it cannot;
 * then nothing has changed. */
BINADE_MUST_USE binade_status binadei_block_record_set_pending(
    struct binadei_call *call, struct binadei_block_record *record,
    CUevent event);

/* alloc.c: a block; with `note` the scope `number` gets it before
 * anybody else does. The statuses of binade_alloc(). */
BINADE_MUST_USE binade_status binadei_block_record_alloc(
    struct binadei_call *call, const struct binadei_alloc_args *args,
    binade_scope number, struct binadei_scope_block *note, binade_devptr *out);
size_t binadei_block_record_alignment(const struct binadei_alloc_args *args);
void binadei_block_record_charge(struct binadei_block_record *record,
                                 const struct binadei_alloc_args *args);

/* scope.c; no lock held. */

/* An allocation for a stream that captures. */
BINADE_MUST_USE binade_status binadei_block_record_alloc_captured(
    struct binadei_call *call, const struct binadei_alloc_args *args,
    binade_devptr *out);
/* Charges the arena of `arena_ref`, if there is one. In a capture of scope
 * `number`, or outside (0). */
BINADE_MUST_USE binade_status binadei_block_record_alloc_for(
    struct binadei_call *call, binade_scope number,
    const struct binadei_private_ref *arena_ref,
    const struct binadei_alloc_args *args, binade_devptr *out);
/* A free of a block that is MOVING: if a scope keeps it, that is all, and the
 * block is not the caller's any more. BINADE_OK, or why the free is none. */
BINADE_MUST_USE binade_status binadei_block_record_keep(
    struct binadei_call *call, struct binadei_block_record *record,
    const struct binadei_call_site *site, bool *out_is_kept);

/* memory.c; no lock held. Each false: the driver refused. */

/* The bounds of a new block, and its fill. What the driver said. */
BINADE_MUST_USE binade_status binadei_block_record_bound(
    struct binadei_checked *checked, const struct binadei_block_record *record);
/* Fills a block that was freed, on `stream`; in a section. */
bool binadei_block_record_fill(const struct binadei_checked *checked,
                               const struct binadei_block_record *record,
                               CUstream stream);
/* Looks at the patterns of a block that nothing is pending on, and reports what
 * is wrong. In a section. */
void binadei_block_record_look(struct binadei_checked *checked,
                               const struct binadei_block_record *record);

/* backing.c: the memory itself, no lock held. */

/* Takes `record->base_bytes`, or more where the source wants it, and sets
 * `base`, without waiting. The statuses of binade_try_alloc(). */
BINADE_MUST_USE binade_status binadei_backing_take(
    struct binadei_call *call, struct binadei_block_record *record,
    size_t alignment_bytes);
/* Gives it back; nothing is pending on it. `call` is NULL at the end. */
BINADE_MUST_USE binade_status
binadei_backing_give(struct binadei_checked *checked, struct binadei_call *call,
                     const struct binadei_block_record *record);

/* quarantine.c: blocks that were freed; no lock held. */

/* Takes one that is MOVING in; older ones may be let go of. */
void binadei_quarantine_add(struct binadei_call *call,
                            struct binadei_block_record *record);
/* Lets go of blocks whose work is over, oldest first, until `want_bytes` of
 * their memory went back. Returns how many did. */
uint64_t binadei_quarantine_release(struct binadei_call *call,
                                    uint64_t want_bytes);
/* Waits for all work if there is memory that nothing else tells to be done: an
 * old driver. Blocks. */
void binadei_quarantine_synchronise(struct binadei_call *call);
/* Whether some may yet be let go of. */
bool binadei_quarantine_is_any(struct binadei_checked *checked);
/* All of them; no call is under way. What the source said first. */
binade_status binadei_quarantine_end(struct binadei_checked *checked,
                                     bool is_at_rest);

/* report.c */

/* What is said of a finding, for the message and for stderr. */
struct binadei_text {
    size_t length;
    char bytes[1024];
};

void binadei_call_site_set(const struct binadei_checked *checked,
                           struct binadei_call_site *site,
                           binade_stream stream);
void binadei_text_add(struct binadei_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* "; block 3 of 100 bytes at 0x..., allocated by ..., freed by ..." */
void binadei_text_block(struct binadei_text *text,
                        const struct binadei_block_record *record);
/* Prints a finding, with the stacks of `record` unless that is NULL, and ends
 * the process if that is asked for. No lock held; nobody changes `record`. */
void binadei_finding(const struct binadei_checked *checked,
                     const struct binadei_text *text,
                     const struct binadei_block_record *record);
/* Prints blocks that were not freed. */
void binadei_finding_leak(const struct binadei_checked *checked,
                          const struct binadei_block_record *record);

/* stream.c: streams that are not what they seem. BINADE_OK or
 * BINADE_E_INVALID. */

/* Whether a created stream is still the one that was named before; outside of
 * sections, inside a call. */
BINADE_MUST_USE binade_status
binadei_checked_stream(struct binadei_checked *checked, binade_stream stream);
/* Whether the call's stream is of a context that the pool knows. */
BINADE_MUST_USE binade_status
binadei_checked_stranger(const struct binadei_call *call);
/* Counts work of the stream that a block was allocated for, if that is still
 * there, when it is freed as done; in a section. */
void binadei_checked_count_busy(struct binadei_call *call,
                                const struct binadei_block_record *record);
void binadei_streams_clear(struct binadei_checked *checked);
void binadei_checked_forget(struct binadei_call *call, binade_stream stream);
/* scope.c: of the table of operations. */
BINADE_MUST_USE binade_status binadei_checked_release(struct binadei_call *call,
                                                      binade_devptr address);

#endif
