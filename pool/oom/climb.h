/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * One allocation on its way out of memory, as the files of this folder pass it
 * on. It lives on the stack of the allocating thread.
 */
#ifndef BINADE_POOL_OOM_CLIMB_H_
#define BINADE_POOL_OOM_CLIMB_H_

#include <stdbool.h>
#include <stdint.h>

#include "binade/history.h"
#include "pool/core/body.h"

struct binadei_climb {
    struct binadei_call *call;
    struct binadei_pool_body *body;
    const struct binadei_request *request;
    bool may_wait;
    binade_devptr address;     /* of the block, once there is one */
    binade_status refusal;     /* what growing said last */
    uint64_t refused_at_bytes; /* what was reserved then */
    uint64_t begin_ns;         /* when growing was refused */
    uint64_t wait_end_ns;      /* for events */
    uint64_t others_end_ns;    /* for other threads' next calls */
    binade_oom_report report;  /* filled as it goes on */
};

/* What a step found out. */
enum binadei_verdict {
    BINADEI_FOUND,     /* `address` is a block */
    BINADEI_EXHAUSTED, /* nothing was there, and nothing was on its way */
    BINADEI_UNDECIDED, /* nothing was seen, but others were at work */
    BINADEI_BROKEN     /* the call cannot go on; `refusal` says why */
};

typedef enum binadei_verdict binadei_step_fn(struct binadei_climb *climb);

/* climb.c: another look, which sets `address`; the second form leaves nothing
 * out. */
bool binadei_climb_take(struct binadei_climb *climb);
bool binadei_climb_take_last(struct binadei_climb *climb);
/* climb.c: runs a step; counts it, and what it gave to the buddy. */
enum binadei_verdict binadei_climb_run(struct binadei_climb *climb,
                                       unsigned step,
                                       binadei_step_fn *function);
bool binadei_climb_is_found(struct binadei_climb *climb, unsigned step,
                            binadei_step_fn *function);
/* climb.c: in the history. */
void binadei_climb_note(const struct binadei_climb *climb,
                        binade_history_kind kind, binade_status status,
                        uint64_t bytes);
uint64_t binadei_climb_bytes(const struct binadei_climb *climb);

/* climb.c: asks for memory until the source refuses: others may take what was
 * added. */
enum binadei_verdict binadei_climb_grow(struct binadei_climb *climb);
/* climb.c: whether something was released since growing was refused last, or it
 * was not refused; and asks for more memory then. True: a block was found. */
bool binadei_may_grow(const struct binadei_climb *climb);
bool binadei_grow_again(struct binadei_climb *climb);

/* last_look.c: searches with all other allocations held back, and fills the
 * report with what it saw. Waits for other threads' operations, but not for
 * long. */
enum binadei_verdict binadei_last_look(struct binadei_climb *climb);

/* callbacks.c: whether there are any to call; calls them until one frees
 * enough. */
bool binadei_has_callbacks(const struct binadei_climb *climb);
enum binadei_verdict binadei_call_back(struct binadei_climb *climb);

/* oom.c: the pool's sums, without calling the driver; and at the end, with no
 * gate closed, the rest: the whole becomes the thread's last report. The latter
 * returns `status`. */
void binadei_oom_look(struct binadei_climb *climb);
binade_status binadei_oom_report(struct binadei_climb *climb,
                                 binade_status status);

/* oom_text.c: why the allocation failed, in one line without its end; cut where
 * there is no room. */
#define BINADEI_OOM_REASON_BYTES 200U
void binadei_oom_reason(const binade_oom_report *report,
                        char buffer[BINADEI_OOM_REASON_BYTES]);

#endif
