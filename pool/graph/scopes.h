/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A pool's capture scopes, for the facade: which scope a capture belongs to, and
 * the blocks that scopes keep. All under one lock for each pool; a thread that
 * captures no graph takes it only for a block that has the SPECIAL bit, and
 * only while scopes keep any.
 */
#ifndef MOIETY_POOL_GRAPH_SCOPES_H_
#define MOIETY_POOL_GRAPH_SCOPES_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "moiety/scope.h"
#include "pool/base/handles.h"
#include "pool/cache/cache.h"
#include "pool/ipc/exports.h"

/* A stream as scopes compare it. */
struct moietyi_scope_stream {
    moiety_stream handle;
    const struct moietyi_thread *thread; /* of PER_THREAD, else NULL */
};

struct moietyi_private;

struct moietyi_scope_block {
    struct moietyi_scope_block *next; /* in its bucket */
    /* In one of its scope's lists. */
    struct moietyi_scope_block *previous_listed;
    struct moietyi_scope_block *next_listed;
    moiety_devptr address;
    uint64_t bytes; /* 0: unknown, and never reused */
    struct moietyi_scope *scope;
    moiety_scope
        also; /* a second one, in whose capture it was freed; or NULL */
    bool is_freed;
    bool is_reusable; /* by the stream that freed it, in the scope's capture */
    struct moietyi_scope_stream freed_on;
};

/* All but what is constant is under the pool's lock of scopes. */
struct moietyi_scope {
    struct moietyi_scope *next; /* of the pool */
    moiety_scope number;
    struct moietyi_scope_stream
        stream;                    /* of an automatic one: the first stream */
    struct moietyi_private *arena; /* whose memory it is; NULL: the pool's */
    bool is_automatic;
    bool is_open;      /* holds a capture guard */
    bool is_releasing; /* somebody does */
    bool has_capture;
    bool is_shared;      /* the capture may as well be another scope's */
    uint64_t capture_id; /* if it has one */
    /* Of the capture that its stream was in when it was asked last; or 0. */
    uint64_t asked_id;
    struct moietyi_scope_block *live;
    struct moietyi_scope_block *freed; /* newest first */
};

struct moietyi_scopes {
    pthread_mutex_t lock;
    /* Under the lock. */
    struct moietyi_scope *first;
    struct moietyi_scope_block **buckets;
    size_t bucket_count; /* a power of two, or 0 */
    /* Edge: none; relaxed: a thread with a block's address knows that it was
     * counted. Changed under the lock. */
    atomic_size_t block_count;
};

void moietyi_scopes_init(struct moietyi_scopes *scopes);
/* Forgets everything; no call is under way. */
void moietyi_scopes_fini(struct moietyi_scopes *scopes);

/* scope.c: whether a scope may be opened for it. */
bool moietyi_scope_may_capture(moiety_stream stream);

/* --- scopes.c --- */

struct moietyi_scope_stream
moietyi_scope_stream_of(const struct moietyi_call *call);
bool moietyi_scope_stream_is(const struct moietyi_scope_stream *one,
                             const struct moietyi_scope_stream *other);
/* By the order of their numbers. */
static inline bool moietyi_scope_is_newer(moiety_scope one, moiety_scope other)
{
    return moietyi_number_of_scope(one) > moietyi_number_of_scope(other);
}

/* Lock held. NULL: there is none. */
struct moietyi_scope *moietyi_scope_find(const struct moietyi_scopes *scopes,
                                         moiety_scope number);
/* For the call's stream, of a private arena or NULL. MOIETY_OK, MOIETY_E_INVALID
 * (the stream has one), or MOIETY_E_NO_HOST_MEMORY. */
MOIETY_MUST_USE moiety_status moietyi_scope_open(struct moietyi_call *call,
                                                 struct moietyi_private *arena,
                                                 moiety_scope *out);
/* Lock held. Another scope that may have the same capture; NULL: none. */
struct moietyi_scope *moietyi_scope_partner(const struct moietyi_scopes *scopes,
                                            const struct moietyi_scope *scope);
/* The private arena of a scope; NULL: it has none, or is gone. */
struct moietyi_private *moietyi_scope_arena(struct moietyi_scopes *scopes,
                                            moiety_scope number);
/* A scope of this arena; NULL: there is none. */
moiety_scope moietyi_scope_of_arena(struct moietyi_scopes *scopes,
                                    const struct moietyi_private *arena);
/* MOIETY_OK, or MOIETY_E_INVALID. */
MOIETY_MUST_USE moiety_status moietyi_scope_close(struct moietyi_scopes *scopes,
                                                  moiety_scope number);
/* The scope that the capture of the call's stream belongs to. It is opened where
 * the pool does that by itself. 0: there is none. MOIETY_OK, or
 * MOIETY_E_NO_HOST_MEMORY. */
MOIETY_MUST_USE moiety_status moietyi_scope_of(struct moietyi_call *call,
                                               moiety_scope *out);
bool moietyi_scopes_are_open(struct moietyi_scopes *scopes);
/* Before the call's pool forgets a stream. MOIETY_OK, or MOIETY_E_IN_USE (a scope
 * is open for it). */
MOIETY_MUST_USE moiety_status
moietyi_scopes_retire(const struct moietyi_call *call, moiety_stream stream);

/* --- scope_names.c --- */

/* Which pool a scope is of, or a private arena, whose numbers are of the same
 * row, for all of the process. False: no memory. */
bool moietyi_scope_name(uint64_t number, struct moiety_pool *pool);
void moietyi_scope_unname(uint64_t number);
uint64_t moietyi_scope_next_number(void);
/* MOIETY_OK, or MOIETY_E_INVALID: there is none (for the message: no such `what`);
 * or as moietyi_thread_enter(). The pool may have been destroyed since. */
MOIETY_MUST_USE moiety_status moietyi_scope_pool(uint64_t number,
                                                 const char *what,
                                                 struct moiety_pool **out);

/* --- scope_table.c --- */

/* Lock held. The bucket's link that leads to the block, or to NULL. */
struct moietyi_scope_block **
moietyi_scope_block_at(const struct moietyi_scopes *scopes,
                       moiety_devptr address);
/* Lock held. Puts a block that is nowhere into its scope's list, and the table;
 * takes it out. */
void moietyi_scope_block_add(struct moietyi_scopes *scopes,
                             struct moietyi_scope *scope,
                             struct moietyi_scope_block *block);
void moietyi_scope_block_remove(struct moietyi_scopes *scopes,
                                struct moietyi_scope *scope,
                                struct moietyi_scope_block *block);
/* Lock held. Moves it to the other list of its scope. */
void moietyi_scope_block_set_freed(struct moietyi_scope_block *block,
                                   bool is_freed);
/* Lock held. All that `scope` keeps becomes the other's. */
void moietyi_scope_hand_all(struct moietyi_scopes *scopes,
                            struct moietyi_scope *scope,
                            struct moietyi_scope *other);
/* Lock held. False: no memory. */
bool moietyi_scopes_reserve(struct moietyi_scopes *scopes);
/* The blocks that scopes keep, freed or not, after those that `out` has. */
void moietyi_scopes_list(struct moietyi_scopes *scopes,
                         struct moietyi_exported_list *out);

/* --- scope_blocks.c --- */

/* An allocation for a stream that captures. As moiety_alloc(). */
MOIETY_MUST_USE moiety_status moietyi_scopes_alloc(
    struct moietyi_call *call, const struct moietyi_request *request,
    bool may_wait, moiety_devptr *out);
/* A free: of a block that a scope keeps, or on a stream that captures. `block`
 * is NULL where the pool has no hits, and knows its blocks by address alone.
 * `out_is_kept`: the block is a scope's now, and the free is over. */
MOIETY_MUST_USE moiety_status moietyi_scopes_free(
    struct moietyi_call *call, const struct moietyi_block *block,
    moiety_devptr address, bool *out_is_kept);
/* Before a free behind an event. MOIETY_OK, or MOIETY_E_IN_USE (a scope keeps the
 * block). */
MOIETY_MUST_USE moiety_status moietyi_scopes_check_after(
    struct moietyi_scopes *scopes, moiety_devptr address);
/* Whether a scope keeps this block. */
bool moietyi_scopes_has(struct moietyi_scopes *scopes, moiety_devptr address);
/* Whether scopes may keep blocks. */
bool moietyi_scopes_keep_any(const struct moietyi_scopes *scopes);

/* The steps of moietyi_scopes_alloc(), for others. */

/* What would serve. */
struct moietyi_scope_want {
    uint64_t bytes;
    uint64_t most_bytes;
    uint64_t alignment_bytes;
};

/* Takes memory that the call's stream freed in the scope's capture: it is in
 * use again. 0: none fits. */
moiety_devptr moietyi_scope_reuse(struct moietyi_call *call,
                                  moiety_scope number,
                                  const struct moietyi_scope_want *want);
/* A block that nothing is pending on becomes the scope's; `block` as above.
 * False: the scope is gone, `note` still the caller's. */
bool moietyi_scope_keep(struct moietyi_call *call, moiety_scope number,
                        struct moietyi_scope_block *note,
                        const struct moietyi_block *block);
/* The scope that the call's capture must have. MOIETY_OK, MOIETY_E_CAPTURING
 * (there is none), or MOIETY_E_NO_HOST_MEMORY. */
MOIETY_MUST_USE moiety_status moietyi_scope_require(struct moietyi_call *call,
                                                    moiety_scope *out);
/* MOIETY_E_CAPTURING: the call's capture has no scope. */
moiety_status moietyi_scope_refuse(void);
/* MOIETY_E_NO_HOST_MEMORY. */
moiety_status moietyi_scope_no_memory(void);

/* --- scope_release.c --- */

/* `call` is for MOIETY_STREAM_ANY. As moiety_scope_release(). */
MOIETY_MUST_USE moiety_status moietyi_scope_release(struct moietyi_call *call,
                                                    moiety_scope number);
MOIETY_MUST_USE moiety_status moietyi_scopes_release(struct moietyi_call *call);
/* Gives what was freed to the space: after the engine was drained, with no call
 * under way. */
void moietyi_scopes_drain(struct moietyi_scopes *scopes,
                          struct moietyi_engine *engine);

#endif
