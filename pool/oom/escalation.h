/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * One allocation on its way out of memory, as the files of this folder pass it
 * on. It lives on the stack of the allocating thread.
 */
#ifndef BINADE_POOL_OOM_ESCALATION_H_
#define BINADE_POOL_OOM_ESCALATION_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "binade/history.h"
#include "pool/core/body.h"

struct binadei_escalation {
    struct binadei_call *call;
    struct binadei_pool_body *body;
    const struct binadei_request *request;
    bool may_wait;
    binade_devptr address;     /* of the block, once there is one */
    binade_status refusal;     /* what growing said last */
    uint64_t refused_at_bytes; /* what was reserved then */
    bool is_driver_short;      /* not the limit refused it, but the source */
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

typedef enum binadei_verdict
binadei_step_fn(struct binadei_escalation *escalation);

/* escalation.c: another look, which sets `address`; the second form leaves
 * nothing out. */
bool binadei_escalation_take(struct binadei_escalation *escalation);
bool binadei_escalation_take_last(struct binadei_escalation *escalation);
/* escalation.c: runs a step; counts it, and what it gave to the buddy. */
enum binadei_verdict
binadei_escalation_run(struct binadei_escalation *escalation, unsigned step,
                       binadei_step_fn *function);
bool binadei_escalation_is_found(struct binadei_escalation *escalation,
                                 unsigned step, binadei_step_fn *function);
/* escalation.c: in the history. */
void binadei_escalation_note(const struct binadei_escalation *escalation,
                             binade_history_kind kind, binade_status status,
                             uint64_t bytes);
uint64_t binadei_escalation_bytes(const struct binadei_escalation *escalation);

/* escalation.c: asks for memory until the source refuses: others may take what
 * was added. */
enum binadei_verdict
binadei_escalation_grow(struct binadei_escalation *escalation);
/* escalation.c: whether something was released since growing was refused last,
 * or it was not refused; and asks for more memory then. True: a block was
 * found. */
bool binadei_may_grow(const struct binadei_escalation *escalation);
bool binadei_grow_again(struct binadei_escalation *escalation);

/* final_scan.c: searches with all other allocations held back, and fills the
 * report with what it saw. Waits for other threads' slow paths, but not for
 * long. */
enum binadei_verdict binadei_final_scan(struct binadei_escalation *escalation);

/* callbacks.c: whether there are any to call; calls them until one frees
 * enough. */
bool binadei_has_callbacks(const struct binadei_escalation *escalation);
enum binadei_verdict binadei_call_back(struct binadei_escalation *escalation);

/* oom.c: the pool's sums, without calling the driver; and at the end, with no
 * gate closed, the rest: the whole becomes the thread's last report. The latter
 * returns `status`. */
void binadei_oom_look(struct binadei_escalation *escalation);
binade_status binadei_oom_report(struct binadei_escalation *escalation,
                                 binade_status status);

/* Of version 0.1.0. */
#define BINADEI_OOM_REPORT_BYTES_MIN offsetof(binade_oom_report, source_name)

/* oom_text.c: why the allocation failed, in one line without its end; cut where
 * there is no room. */
#define BINADEI_OOM_REASON_BYTES 200U
void binadei_oom_reason(const binade_oom_report *report,
                        char buffer[BINADEI_OOM_REASON_BYTES]);

#endif
