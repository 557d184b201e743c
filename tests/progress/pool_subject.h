/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A pool on the stand-in driver as a subject of progress.h: two streams that
 * all threads use, caches that are always too small, memory enough that nobody
 * has to grow or to wait for the device.
 */
#ifndef MOIETY_TESTS_PROGRESS_POOL_SUBJECT_H_
#define MOIETY_TESTS_PROGRESS_POOL_SUBJECT_H_

#include "tests/progress/progress.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct progress_subject pool_subject;
/* Memory that is mapped, and moves where the roaming thread grows the pool. */
extern const struct progress_subject mapped_pool_subject;

#ifdef __cplusplus
}
#endif

#endif
