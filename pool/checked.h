/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pools whose every call takes a path of its own: checked ones, and those that
 * pass all through to their source. The attention word keeps them from having
 * hits, and the facade asks here where it would ask the caches.
 * docs/checked-mode.md explains it.
 */
#ifndef BINADE_POOL_CHECKED_H_
#define BINADE_POOL_CHECKED_H_

#include "binade/pool.h"
#include "binade/stats.h"
#include "pool/alloc.h"
#include "pool/cache/cache.h"

struct binadei_checked;
struct binadei_pool_body;
struct binadei_private_ref;

/* For a pool that is whole but for this; `source` is what it reserves from.
 * BINADE_OK, BINADE_E_NO_HOST_MEMORY, or what the driver said. */
BINADE_MUST_USE binade_status binadei_checked_create(
    struct binadei_pool_body *body, const binade_source *source);
/* After the engine was drained. Looks at what was freed and, where
 * `is_at_rest`, at the bounds of what was not, which goes to `leaks`. */
void binadei_checked_end(struct binadei_checked *checked, bool is_at_rest,
                         binade_leaks *leaks);
/* NULL does nothing. BINADE_OK, or what the source said first. */
binade_status binadei_checked_destroy(struct binadei_checked *checked);

/* binadei_call_begin(), but a stream that is dead is recognised first. */
BINADE_MUST_USE binade_status binadei_checked_begin(struct binade_pool *pool,
                                                    binade_stream stream,
                                                    struct binadei_call *out);
/* These do what their namesakes of the facade do, inside a call. */
BINADE_MUST_USE binade_status
binadei_checked_alloc(struct binadei_call *call,
                      const struct binadei_wish *wish, binade_devptr *out);
/* The same for a private arena, which is charged. */
BINADE_MUST_USE binade_status binadei_checked_alloc_private(
    struct binadei_call *call, const struct binadei_private_ref *home,
    const struct binadei_wish *wish, binade_devptr *out);
/* `size_bytes` 0: not said. `event` NULL: behind the call's stream. */
BINADE_MUST_USE binade_status binadei_checked_free(struct binadei_call *call,
                                                   binade_devptr address,
                                                   size_t size_bytes,
                                                   CUevent event);
/* What a capture scope kept is freed as with ANY. BINADE_OK, or why it is still
 * the scope's. */
BINADE_MUST_USE binade_status binadei_checked_release(struct binadei_call *call,
                                                      binade_devptr address);
/* A call for DONE goes on as one for the stream that the block at `address` was
 * allocated for, if one is there. BINADE_OK, BINADE_E_INVALID (that stream is
 * dead), BINADE_E_NO_HOST_MEMORY, or what the driver said. */
BINADE_MUST_USE binade_status binadei_checked_turn(struct binadei_call *call,
                                                   binade_devptr address);
BINADE_MUST_USE binade_status binadei_checked_use(struct binadei_call *call,
                                                  binade_devptr address,
                                                  binade_stream stream);
BINADE_MUST_USE binade_status binadei_checked_size(struct binadei_call *call,
                                                   binade_devptr address,
                                                   size_t *out);
/* What a stream was known by. */
void binadei_checked_forget(struct binadei_checked *checked,
                            binade_stream stream);
/* Lets go of every freed block whose work is over. Returns the bytes that went
 * back to the source by that. */
uint64_t binadei_checked_sweep(struct binadei_call *call);
/* What the caches cannot know. */
void binadei_checked_fill(struct binadei_checked *checked, binade_stats *stats);

#endif
