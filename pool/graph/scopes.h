/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A pool's capture scopes, for the facade: which scope a capture belongs to, and
 * the blocks that scopes keep. All under one lock for each pool; a thread that
 * captures no graph takes it only for a block that has the SPECIAL bit, and
 * only while scopes keep any.
 */
#ifndef BINADE_POOL_GRAPH_SCOPES_H_
#define BINADE_POOL_GRAPH_SCOPES_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "binade/scope.h"
#include "pool/cache/cache.h"
#include "pool/ipc/exports.h"

/* A stream as scopes compare it. */
struct binadei_scope_stream {
    binade_stream handle;
    const struct binadei_thread *thread; /* of PER_THREAD, else NULL */
};

struct binadei_private;

struct binadei_scope_block {
    struct binadei_scope_block *next; /* in its bucket */
    /* In one of its scope's lists. */
    struct binadei_scope_block *previous_listed;
    struct binadei_scope_block *next_listed;
    binade_devptr address;
    uint64_t bytes; /* 0: unknown, and never reused */
    struct binadei_scope *scope;
    binade_scope also; /* a second one, in whose capture it was freed; or 0 */
    bool is_freed;
    bool is_reusable; /* by the stream that freed it, in the scope's capture */
    struct binadei_scope_stream freed_on;
};

/* All but what is constant is under the pool's lock of scopes. */
struct binadei_scope {
    struct binadei_scope *next; /* of the pool */
    binade_scope number;
    struct binadei_scope_stream
        stream;                    /* of an automatic one: who came first */
    struct binadei_private *arena; /* whose memory it is; NULL: the pool's */
    bool is_automatic;
    bool is_open;      /* holds a capture guard */
    bool is_releasing; /* somebody does */
    bool has_capture;
    uint64_t capture_id; /* if it has one */
    struct binadei_scope_block *live;
    struct binadei_scope_block *freed; /* newest first */
};

struct binadei_scopes {
    pthread_mutex_t lock;
    /* Under the lock. */
    struct binadei_scope *first;
    struct binadei_scope_block **buckets;
    size_t bucket_count; /* a power of two, or 0 */
    /* Edge: none; relaxed: who has a block's address knows that it was counted.
     * Changed under the lock. */
    atomic_size_t block_count;
};

void binadei_scopes_init(struct binadei_scopes *scopes);
/* Forgets everything; no call is under way. */
void binadei_scopes_fini(struct binadei_scopes *scopes);

/* scope.c: whether a scope may be opened for it. */
bool binadei_scope_may_capture(binade_stream stream);

/* --- scopes.c --- */

struct binadei_scope_stream
binadei_scope_stream_of(const struct binadei_call *call);
bool binadei_scope_stream_is(const struct binadei_scope_stream *one,
                             const struct binadei_scope_stream *other);
/* Lock held. NULL: there is none. */
struct binadei_scope *binadei_scope_find(const struct binadei_scopes *scopes,
                                         binade_scope number);
/* For the call's stream, of a private arena or NULL. BINADE_OK, BINADE_E_INVALID
 * (the stream has one), or BINADE_E_NO_HOST_MEMORY. */
BINADE_MUST_USE binade_status binadei_scope_open(struct binadei_call *call,
                                                 struct binadei_private *arena,
                                                 binade_scope *out);
/* The private arena of a scope; NULL: it has none, or is gone. */
struct binadei_private *binadei_scope_arena(struct binadei_scopes *scopes,
                                            binade_scope number);
/* A scope of this arena; 0: there is none. */
binade_scope binadei_scope_of_arena(struct binadei_scopes *scopes,
                                    const struct binadei_private *arena);
/* BINADE_OK, or BINADE_E_INVALID. */
BINADE_MUST_USE binade_status binadei_scope_close(struct binadei_scopes *scopes,
                                                  binade_scope number);
/* The scope that the capture of the call's stream belongs to. It is opened where
 * the pool does that by itself. 0: there is none. BINADE_OK, or
 * BINADE_E_NO_HOST_MEMORY. */
BINADE_MUST_USE binade_status binadei_scope_of(struct binadei_call *call,
                                               binade_scope *out);
bool binadei_scopes_are_open(struct binadei_scopes *scopes);
/* Before the call's pool forgets a stream. BINADE_OK, or BINADE_E_BUSY (a scope
 * is open for it). */
BINADE_MUST_USE binade_status
binadei_scopes_retire(const struct binadei_call *call, binade_stream stream);

/* --- scope_names.c --- */

/* Which pool a scope is of, or a private arena, whose numbers are of the same
 * row, for all of the process. False: no memory. */
bool binadei_scope_name(binade_scope number, struct binade_pool *pool);
void binadei_scope_unname(binade_scope number);
binade_scope binadei_scope_next_number(void);
/* NULL: there is no such scope. The pool may have been destroyed since. */
struct binade_pool *binadei_scope_pool(binade_scope number);

/* --- scope_table.c --- */

/* Lock held. The bucket's link that leads to the block, or to NULL. */
struct binadei_scope_block **
binadei_scope_block_at(const struct binadei_scopes *scopes,
                       binade_devptr address);
/* Lock held. Puts a block that is nowhere into its scope's list, and the table;
 * takes it out. */
void binadei_scope_block_add(struct binadei_scopes *scopes,
                             struct binadei_scope *scope,
                             struct binadei_scope_block *block);
void binadei_scope_block_remove(struct binadei_scopes *scopes,
                                struct binadei_scope *scope,
                                struct binadei_scope_block *block);
/* Lock held. Moves it to the other list of its scope. */
void binadei_scope_block_set_freed(struct binadei_scope_block *block,
                                   bool is_freed);
/* Lock held. False: no memory. */
bool binadei_scopes_reserve(struct binadei_scopes *scopes);
/* The blocks that scopes keep, freed or not, after those that `out` has. */
void binadei_scopes_list(struct binadei_scopes *scopes,
                         struct binadei_exported_list *out);

/* --- scope_blocks.c --- */

/* An allocation for a stream that captures. As binade_alloc(). */
BINADE_MUST_USE binade_status binadei_scopes_alloc(
    struct binadei_call *call, const struct binadei_request *request,
    bool may_wait, binade_devptr *out);
/* A free: of a block that a scope keeps, or on a stream that captures. `block`
 * is NULL where the pool has no hits, and knows its blocks by address alone.
 * `out_is_kept`: the block is a scope's now, and the free is over. */
BINADE_MUST_USE binade_status binadei_scopes_free(
    struct binadei_call *call, const struct binadei_block *block,
    binade_devptr address, bool *out_is_kept);
/* Before a free behind an event. BINADE_OK, or BINADE_E_BUSY (a scope keeps the
 * block). */
BINADE_MUST_USE binade_status binadei_scopes_check_after(
    struct binadei_scopes *scopes, binade_devptr address);
/* Whether a scope keeps this block. */
bool binadei_scopes_has(struct binadei_scopes *scopes, binade_devptr address);
/* Whether scopes may keep blocks. */
bool binadei_scopes_keep_any(const struct binadei_scopes *scopes);

/* What binadei_scopes_alloc() does, step by step, for others. */

/* What would serve. */
struct binadei_scope_want {
    uint64_t bytes;
    uint64_t most_bytes;
    uint64_t alignment_bytes;
};

/* What the call's stream freed in the scope's capture: it is in use again. 0:
 * nothing that would serve. */
binade_devptr binadei_scope_reuse(struct binadei_call *call,
                                  binade_scope number,
                                  const struct binadei_scope_want *want);
/* A block that nothing is pending on becomes the scope's; `block` as above.
 * False: the scope is gone, `note` still the caller's. */
bool binadei_scope_keep(struct binadei_call *call, binade_scope number,
                        struct binadei_scope_block *note,
                        const struct binadei_block *block);
/* The scope that the call's capture must have. BINADE_OK, BINADE_E_CAPTURING
 * (there is none), or BINADE_E_NO_HOST_MEMORY. */
BINADE_MUST_USE binade_status binadei_scope_require(struct binadei_call *call,
                                                    binade_scope *out);
/* BINADE_E_CAPTURING: the call's capture has no scope. */
binade_status binadei_scope_refuse(void);
/* BINADE_E_NO_HOST_MEMORY. */
binade_status binadei_scope_no_memory(void);

/* --- scope_release.c --- */

/* `call` is for BINADE_STREAM_ANY. As binade_scope_release(). */
BINADE_MUST_USE binade_status binadei_scope_release(struct binadei_call *call,
                                                    binade_scope number);
BINADE_MUST_USE binade_status binadei_scopes_release(struct binadei_call *call);
/* Gives what was freed to the buddy: after the engine was drained, with no call
 * under way. */
void binadei_scopes_drain(struct binadei_scopes *scopes,
                          struct binadei_engine *engine);

#endif
