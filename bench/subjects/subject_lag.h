/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A subject of the workloads beside a device that lags (bench/lag).
 */
#ifndef BINADE_BENCH_SUBJECTS_SUBJECT_LAG_H_
#define BINADE_BENCH_SUBJECTS_SUBJECT_LAG_H_

#include "bench/lag/plan.h"
#include "bench/subjects/subject.h"

/* The subject itself where the device idles. Else one that is valid until the
 * next call, which does not start where the subject keeps no order of streams.
 * An allocation that fails while streams are held lets them go on once. */
const struct subject *subject_lagging(const struct subject *subject,
                                      const struct lag_plan *plan);

#endif
