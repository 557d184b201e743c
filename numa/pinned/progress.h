/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How far a growth is, and whether it is to go on: the program is called at least
 * every 20 ms while a growth waits, and may stop it.
 */
#ifndef MOIETY_NUMA_PINNED_PROGRESS_H_
#define MOIETY_NUMA_PINNED_PROGRESS_H_

#include <stdbool.h>
#include <stdint.h>

#include "moiety/host.h"
#include "moiety/status.h"
#include "pool/base/atomics.h"

/* The longest between two ticks of a wait. */
#define MOIETYI_TICK_NS UINT64_C(20000000)

/* Of one call, by its thread; another one may begin it. */
struct moietyi_progress {
    moiety_host_progress_fn *report; /* NULL: none */
    void *user_data;
    uint64_t done_bytes;   /* of this call's earlier regions */
    uint64_t total_bytes;  /* of this call */
    uint32_t thread_count; /* that touch; 0: as many as the arena has */
    bool is_reserve;       /* the thread's interrupt function ends it, too */
    bool is_exact; /* reports what is pinned alone, not what is touched */
    /* Edge: none; relaxed, numbers that order nothing. The arena's cancels and the
     * call's own, NULL for none, and how many there were when the call began. */
    const moietyi_atomic_word *cancels;
    const moietyi_atomic_word *own_cancels;
    uint64_t seen_cancels;
    /* The last report. */
    uint64_t told_bytes;
    uint64_t told_ns;
    bool is_telling; /* a function of the program runs, which may call us */
};

/* Counts from now on. */
void moietyi_progress_begin(struct moietyi_progress *progress,
                            const moietyi_atomic_word *cancels);
/* Reports `more_bytes` beyond the done ones, if that is new or the last report is
 * too long ago, and asks the thread's interrupt function. No lock held. */
void moietyi_progress_tick(struct moietyi_progress *progress,
                           uint64_t more_bytes);
/* Also in a child that a function of the program forked. */
bool moietyi_progress_is_over(const struct moietyi_progress *progress);
/* MOIETY_E_INTERRUPTED or, in a child, MOIETY_E_FORKED, and its message. */
MOIETY_MUST_USE moiety_status
moietyi_progress_refuse(const struct moietyi_progress *progress);

#endif
