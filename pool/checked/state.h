/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a checked pool keeps. One lock guards all of it, but for a block that is
 * MOIETYI_BLOCK_MOVING: that is the mover's alone, so that no lock is held
 * while the driver or the source works.
 */
#ifndef MOIETY_POOL_CHECKED_STATE_H_
#define MOIETY_POOL_CHECKED_STATE_H_

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "moiety/checked.h"
#include "moiety/tenant.h"
#include "pool/cache/uses.h"
#include "pool/checked/checked.h"
#include "pool/core/body.h"
#include "pool/graph/privates.h"
#include "pool/graph/scopes.h"

#define MOIETYI_BLOCK_RECORD_BUCKETS 65536U
#define MOIETYI_STREAM_BUCKETS 256U
#define MOIETYI_CALL_SITE_FRAMES 16
/* Of blocks that are gone, so many are remembered. */
#define MOIETYI_HISTORY_BLOCKS 4096U

/* The bytes before and after a block. */
#define MOIETYI_BOUND_BYTES 512U
#define MOIETYI_BOUND_BYTE 0xfdU
#define MOIETYI_FREED_BYTE 0xddU
#define MOIETYI_FRESH_BYTE 0xcdU

/* Where in the program something happened. */
struct moietyi_call_site {
    moiety_stream stream;
    int thread; /* as the kernel numbers it */
    int frame_count;
    void *frames[MOIETYI_CALL_SITE_FRAMES];
};

enum moietyi_block_record_state {
    MOIETYI_BLOCK_LIVE,   /* the program's */
    MOIETYI_BLOCK_MOVING, /* one thread's, which takes it elsewhere */
    MOIETYI_BLOCK_HELD,   /* freed; on one of the queues, or a scope's */
    MOIETYI_BLOCK_GONE    /* its memory may be another's; in the history */
};

/* A block. */
struct moietyi_block_record {
    struct moietyi_block_record *next_in_bucket;
    struct moietyi_block_record *next; /* in its queue */
    struct moietyi_block_record *previous;
    enum moietyi_block_record_state state;
    bool is_freed;
    bool is_shared;    /* uses were noted */
    bool is_filled;    /* with the pattern of what was freed */
    bool is_looked_at; /* and only its memory is still to go back */
    bool is_unissued;  /* never given out, and not in the table */
    bool is_replaced;  /* no longer in the table; under the lock */
    moiety_devptr address;
    uint64_t size_bytes; /* that were asked for */
    moiety_devptr base;  /* as the pool or the source gave it */
    uint64_t base_bytes; /* as they were asked for it */
    /* The tenant that is charged for it; NULL: none, or none any more. The name
     * stays: the tenant may be gone when something is found. */
    struct moietyi_tenant *tenant;
    char tenant_name[MOIETY_TENANT_NAME_BYTES];
    /* The private arena that is charged for it; or none, or none any more. */
    struct moietyi_private_ref arena_ref;
    uint32_t note; /* of the stream that it was allocated for */
    uint64_t sequence;
    uint64_t free_sequence;
    struct moietyi_call_site allocated;
    struct moietyi_call_site freed;
    struct moietyi_wait wait; /* of a freed block */
};

/* Oldest first. */
struct moietyi_block_record_queue {
    struct moietyi_block_record *first;
    struct moietyi_block_record *last;
    uint64_t count;
    uint64_t bytes;
};

struct moietyi_stream_name {
    struct moietyi_stream_name *next;
    CUstream stream;
    unsigned long long id;
};

struct moietyi_checked {
    struct moietyi_pool_body *body; /* constant, like the next five */
    moiety_source source;
    bool is_checked;
    bool is_passing;
    bool is_own_device; /* the source takes any size */
    CUstream stream;    /* for patterns, and for looking at them; or NULL */
    struct moietyi_checked *next; /* of all; the list's lock */

    pthread_mutex_t lock;
    uint64_t sequence;
    struct moietyi_block_record *buckets[MOIETYI_BLOCK_RECORD_BUCKETS];
    struct moietyi_stream_name *streams[MOIETYI_STREAM_BUCKETS];
    /* Freed blocks: those whose work may not be over, and those whose is. */
    struct moietyi_block_record_queue waiting;
    struct moietyi_block_record_queue held;
    struct moietyi_block_record_queue kept; /* by capture scopes */
    struct moietyi_block_record_queue history;
    uint64_t moving_count; /* freed blocks that are on no queue just now */
    moiety_checked_counts counts;
    /* Of the program's own view, for moiety_pool_stats. */
    uint64_t alloc_count;
    uint64_t alloc_bytes;
    uint64_t free_count;
    uint64_t free_bytes;
    uint64_t live_peak_bytes;
    moiety_status end_status; /* what the source refused at the end */
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
const void *moietyi_checked_owner(const struct moietyi_checked *except,
                                  moiety_devptr address);
/* checked.c: of the table of operations. */
uint64_t moietyi_checked_sweep(struct moietyi_call *call);
void moietyi_checked_reset_peaks(struct moietyi_pool_body *body);
void moietyi_checked_fill(struct moietyi_call *call, moiety_pool_stats *stats);
void moietyi_checked_end(struct moietyi_pool_body *body, bool is_at_rest,
                         moiety_leaks *leaks);

/* free.c: of the table too; of a free, `event` NULL is behind the call's
 * stream. */
MOIETY_MUST_USE moiety_status moietyi_checked_free(struct moietyi_call *call,
                                                   moiety_devptr address,
                                                   size_t size_bytes,
                                                   CUevent event);
MOIETY_MUST_USE moiety_status moietyi_checked_turn(struct moietyi_call *call,
                                                   moiety_devptr address);
MOIETY_MUST_USE moiety_status moietyi_checked_use(struct moietyi_call *call,
                                                  moiety_devptr address,
                                                  moiety_stream stream);
MOIETY_MUST_USE moiety_status moietyi_checked_size(struct moietyi_call *call,
                                                   moiety_devptr address,
                                                   size_t *out);
size_t moietyi_checked_live_bytes(struct moietyi_call *call,
                                  moiety_devptr address);

/* table.c; the lock is held unless it says otherwise. */

/* The block that was allocated at `address`, live or not. */
struct moietyi_block_record *
moietyi_block_record_find(struct moietyi_checked *checked,
                          moiety_devptr address);
/* One whose memory `address` is in, best one that is not gone. */
struct moietyi_block_record *
moietyi_block_record_around(struct moietyi_checked *checked,
                            moiety_devptr address);
void moietyi_block_record_insert(struct moietyi_checked *checked,
                                 struct moietyi_block_record *record);
void moietyi_block_record_remember(struct moietyi_checked *checked,
                                   struct moietyi_block_record *record);
/* One that is MOVING, and LIVE before, is not the program's any more. */
void moietyi_block_record_set_freed(struct moietyi_checked *checked,
                                    struct moietyi_block_record *record,
                                    const struct moietyi_call_site *site);
/* It is the program's again. */
void moietyi_block_record_unset_freed(struct moietyi_checked *checked,
                                      struct moietyi_block_record *record);
/* Its free is over, for the statistics too; still MOVING. */
void moietyi_block_record_count_free(struct moietyi_checked *checked,
                                     struct moietyi_block_record *record);
/* The part for a message: no more, because the rest of a MOVING record is its
 * mover's. */
void moietyi_block_record_show(const struct moietyi_block_record *record,
                               struct moietyi_block_record *out);
void moietyi_queue_append(struct moietyi_block_record_queue *queue,
                          struct moietyi_block_record *record);
void moietyi_queue_remove(struct moietyi_block_record_queue *queue,
                          struct moietyi_block_record *record);
/* Takes the lock: one that nobody ever had joins those that were freed. */
void moietyi_quarantine_add_unissued(struct moietyi_checked *checked,
                                     struct moietyi_block_record *unissued);
/* No lock: nobody else is there. Frees all records. */
void moietyi_block_record_clear(struct moietyi_checked *checked);

/* pending.c: its tenant and arena are charged no more, if it has any. By its
 * mover; no lock held. */
void moietyi_block_record_discharge(const struct moietyi_call *call,
                                    struct moietyi_block_record *record);

/* pending.c: lets one that is MOVING, and freed, wait for what a free on
 * the call's stream waits for, or behind `event`. MOIETY_OK, or why it cannot;
 * then nothing has changed. */
MOIETY_MUST_USE moiety_status moietyi_block_record_set_pending(
    struct moietyi_call *call, struct moietyi_block_record *record,
    CUevent event);

/* alloc.c: a block; with `note` the scope `number` gets it before
 * anybody else does. The statuses of moiety_alloc(). */
MOIETY_MUST_USE moiety_status moietyi_block_record_alloc(
    struct moietyi_call *call, const struct moietyi_alloc_args *args,
    moiety_scope number, struct moietyi_scope_block *note, moiety_devptr *out);
size_t moietyi_block_record_alignment(const struct moietyi_alloc_args *args);
void moietyi_block_record_charge(struct moietyi_block_record *record,
                                 const struct moietyi_alloc_args *args);

/* scope.c; no lock held. */

/* An allocation for a stream that captures. */
MOIETY_MUST_USE moiety_status moietyi_block_record_alloc_captured(
    struct moietyi_call *call, const struct moietyi_alloc_args *args,
    moiety_devptr *out);
/* Charges the arena of `arena_ref`, if there is one. In a capture of scope
 * `number`, or outside (0). */
MOIETY_MUST_USE moiety_status moietyi_block_record_alloc_for(
    struct moietyi_call *call, moiety_scope number,
    const struct moietyi_private_ref *arena_ref,
    const struct moietyi_alloc_args *args, moiety_devptr *out);
/* A free of a block that is MOVING: if a scope keeps it, that is all, and the
 * block is not the caller's any more. MOIETY_OK, or why the free is none. */
MOIETY_MUST_USE moiety_status moietyi_block_record_keep(
    struct moietyi_call *call, struct moietyi_block_record *record,
    const struct moietyi_call_site *site, bool *out_is_kept);

/* memory.c; no lock held. Each false: the driver refused. */

/* The bounds of a new block, and its fill. What the driver said. */
MOIETY_MUST_USE moiety_status moietyi_block_record_bound(
    struct moietyi_checked *checked, const struct moietyi_block_record *record);
/* Fills a block that was freed, on `stream`; in a section. */
bool moietyi_block_record_fill(const struct moietyi_checked *checked,
                               const struct moietyi_block_record *record,
                               CUstream stream);
/* Looks at the patterns of a block that nothing is pending on, and reports what
 * is wrong. In a section. */
void moietyi_block_record_look(struct moietyi_checked *checked,
                               const struct moietyi_block_record *record);

/* backing.c: the memory itself, no lock held. */

/* Takes `record->base_bytes`, or more where the source wants it, and sets
 * `base`, without waiting. The statuses of MOIETY_ALLOC_NO_WAIT. */
MOIETY_MUST_USE moiety_status moietyi_backing_take(
    struct moietyi_call *call, struct moietyi_block_record *record,
    size_t alignment_bytes);
/* Gives it back; nothing is pending on it. `call` is NULL at the end. */
MOIETY_MUST_USE moiety_status
moietyi_backing_give(struct moietyi_checked *checked, struct moietyi_call *call,
                     const struct moietyi_block_record *record);

/* quarantine.c: blocks that were freed; no lock held. */

/* Takes one that is MOVING in; older ones may be let go of. */
void moietyi_quarantine_add(struct moietyi_call *call,
                            struct moietyi_block_record *record);
/* Lets go of blocks whose work is over, oldest first, until `want_bytes` of
 * their memory went back. Returns how many did. */
uint64_t moietyi_quarantine_release(struct moietyi_call *call,
                                    uint64_t want_bytes);
/* Waits for all work if memory needs it: the only way of an old driver.
 * Blocks. */
void moietyi_quarantine_synchronise(struct moietyi_call *call);
/* Whether some may yet be let go of. */
bool moietyi_quarantine_is_any(struct moietyi_checked *checked);
/* All of them; no call is under way. The source's first error. */
moiety_status moietyi_quarantine_end(struct moietyi_checked *checked,
                                     bool is_at_rest);

/* report.c */

/* The text of a finding, for the message and for stderr. */
struct moietyi_text {
    size_t length;
    char bytes[1024];
};

void moietyi_call_site_set(const struct moietyi_checked *checked,
                           struct moietyi_call_site *site,
                           moiety_stream stream);
void moietyi_text_add(struct moietyi_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* "; block 3 of 100 bytes at 0x..., allocated by ..., freed by ..." */
void moietyi_text_block(struct moietyi_text *text,
                        const struct moietyi_block_record *record);
/* Prints a finding, with the stacks of `record` unless that is NULL, and ends
 * the process if that is asked for. No lock held; nobody changes `record`. */
void moietyi_finding(const struct moietyi_checked *checked,
                     const struct moietyi_text *text,
                     const struct moietyi_block_record *record);
/* Prints blocks that were not freed. */
void moietyi_finding_leak(const struct moietyi_checked *checked,
                          const struct moietyi_block_record *record);

/* stream.c: streams that are not what they seem. MOIETY_OK or
 * MOIETY_E_INVALID. */

/* Whether a created stream is still the one that was named before; outside of
 * sections, inside a call. */
MOIETY_MUST_USE moiety_status
moietyi_checked_stream(struct moietyi_checked *checked, moiety_stream stream);
/* Whether the call's stream is of a context that the pool knows. */
MOIETY_MUST_USE moiety_status
moietyi_checked_stranger(const struct moietyi_call *call);
/* Counts work of the stream that a block was allocated for, if that is still
 * there, when it is freed as done; in a section. */
void moietyi_checked_count_busy(struct moietyi_call *call,
                                const struct moietyi_block_record *record);
void moietyi_streams_clear(struct moietyi_checked *checked);
void moietyi_checked_forget(struct moietyi_call *call, moiety_stream stream);
/* scope.c: of the table of operations. */
MOIETY_MUST_USE moiety_status moietyi_checked_release(struct moietyi_call *call,
                                                      moiety_devptr address);

#endif
