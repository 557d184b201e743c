/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * One allocation that escalates, as the files of this folder share it. It lies
 * on the stack of the allocating thread.
 */
#ifndef MOIETY_POOL_OOM_ESCALATION_H_
#define MOIETY_POOL_OOM_ESCALATION_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "moiety/history.h"
#include "pool/core/body.h"
#include "pool/oom/others.h"

struct moietyi_escalation {
    struct moietyi_call *call;
    struct moietyi_pool_body *body;
    const struct moietyi_request *request;
    bool may_wait;
    moiety_devptr address;     /* of the block, once there is one */
    moiety_status refusal;     /* the last result of growing */
    uint64_t refused_at_bytes; /* what was reserved then */
    bool is_driver_short;      /* the source refused, not the limit */
    bool is_held_up;           /* whole segments stay while the device works */
    struct moietyi_others others;
    uint64_t begin_ns;        /* when growing was refused */
    uint64_t wait_end_ns;     /* for events */
    uint64_t others_end_ns;   /* for other threads' next calls */
    moiety_oom_report report; /* filled as it goes on */
};

/* The result of a step. */
enum moietyi_verdict {
    MOIETYI_FOUND,     /* `address` is a block */
    MOIETYI_EXHAUSTED, /* nothing was there, and nothing was on its way */
    MOIETYI_UNDECIDED, /* nothing was seen, but others were at work */
    MOIETYI_BROKEN     /* the call cannot go on; `refusal` says why */
};

typedef enum moietyi_verdict
moietyi_step_fn(struct moietyi_escalation *escalation);

/* escalation.c: another look, which sets `address`; the second form looks
 * everywhere. */
bool moietyi_escalation_take(struct moietyi_escalation *escalation);
bool moietyi_escalation_take_last(struct moietyi_escalation *escalation);
/* escalation.c: runs a step; counts it, and the memory that it freed. */
enum moietyi_verdict
moietyi_escalation_run(struct moietyi_escalation *escalation, unsigned step,
                       moietyi_step_fn *function);
bool moietyi_escalation_is_found(struct moietyi_escalation *escalation,
                                 unsigned step, moietyi_step_fn *function);
/* escalation.c: adds an entry to the history. */
void moietyi_escalation_note(const struct moietyi_escalation *escalation,
                             moiety_history_kind kind, moiety_status status,
                             uint64_t bytes);
uint64_t moietyi_escalation_bytes(const struct moietyi_escalation *escalation);

/* escalation.c: asks for memory until the source refuses: others may take what
 * was added. */
enum moietyi_verdict
moietyi_escalation_grow(struct moietyi_escalation *escalation);
/* escalation.c: whether something was released since the last refusal, or
 * growing was not refused; the second function then asks for more memory. True:
 * a block was found. */
bool moietyi_may_grow(const struct moietyi_escalation *escalation);
bool moietyi_grow_again(struct moietyi_escalation *escalation);

/* escalation.c: whether a segment is wholly free that the device's work does
 * not hold up, so that it can go back and be asked for again. */
bool moietyi_may_regrow(const struct moietyi_escalation *escalation);

/* final_scan.c: searches while all other allocations are held back, and fills
 * the report with what it saw. Waits for other threads' slow paths, but not for
 * long. */
enum moietyi_verdict moietyi_final_scan(struct moietyi_escalation *escalation);

/* callbacks.c: whether there are any to call; calls them until they have freed
 * enough, or free no more. */
bool moietyi_has_callbacks(const struct moietyi_escalation *escalation);
enum moietyi_verdict moietyi_call_back(struct moietyi_escalation *escalation);

/* oom.c: the pool's sums, without calling the driver; and at the end, with no
 * gate closed, the rest: the whole becomes the thread's last report. The latter
 * returns `status`. */
void moietyi_oom_look(struct moietyi_escalation *escalation);
moiety_status moietyi_oom_report(struct moietyi_escalation *escalation,
                                 moiety_status status);

/* Of version 0.1.0. */
#define MOIETYI_OOM_REPORT_BYTES_MIN offsetof(moiety_oom_report, source_name)

/* oom_text.c: why the allocation failed, in one line without its end; cut where
 * there is no room. */
#define MOIETYI_OOM_REASON_BYTES 256U
void moietyi_oom_reason(const moiety_oom_report *report,
                        char buffer[MOIETYI_OOM_REASON_BYTES]);

#endif
