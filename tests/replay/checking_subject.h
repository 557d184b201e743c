/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A subject that keeps account of how it is called. It aborts where its
 * contract is broken: a free of what is not live, a size or thread that does
 * not fit, a limit it was not told.
 */
#ifndef MOIETY_TESTS_REPLAY_CHECKING_SUBJECT_H_
#define MOIETY_TESTS_REPLAY_CHECKING_SUBJECT_H_

#include "bench/subjects/subject.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of all since checking_reset(). */
struct checking_account {
    uint64_t starts;
    uint64_t allocs;
    uint64_t frees;
    uint64_t refused;       /* allocations beyond the limit */
    uint64_t live_at_stop;  /* blocks */
    uint64_t foreign_frees; /* by another thread than the allocation's */
    uint64_t frees_any;
    uint64_t frees_done;
    uint32_t threads_seen; /* one more than the highest number */
    uint32_t callers_seen; /* threads of the process that called */
    uint32_t streams_seen; /* one more than the highest number */
};

extern const struct subject checking_subject;

void checking_reset(void);
struct checking_account checking_account_now(void);
/* Limits from `low_bytes` to below `high_bytes` have room for nothing, as where blocks
 * happen to lie badly; until checking_reset(). */
void checking_set_gap(uint64_t low_bytes, uint64_t high_bytes);
/* What each block takes beyond its size, which is handed out and never cached:
 * something for footprints to see. */
#define CHECKING_EXTRA_BYTES 256U

#ifdef __cplusplus
}
#endif

#endif
