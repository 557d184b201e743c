/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A subject beside a device that lags: the same subject, behind whose calls
 * work is queued, or whose streams are held.
 */
#ifndef MOIETY_BENCH_SUBJECTS_LAGGING_H_
#define MOIETY_BENCH_SUBJECTS_LAGGING_H_

#include "bench/lag/plan.h"
#include "bench/subjects/subject.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The subject itself where the device idles. Else one that is valid until the
 * next call; an allocation of it that fails while streams are held lets them go
 * on once, and is tried again. */
const struct subject *subject_lagging(const struct subject *subject,
                                      const struct lag_plan *plan);

/* How often streams that were held had to go on, in the last run of what
 * subject_lagging() made. */
uint64_t subject_lag_releases(void);

#ifdef __cplusplus
}
#endif

#endif
