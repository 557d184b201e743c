/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The buddy as a subject of progress.h: few pages, so that all threads meet in
 * the same words.
 */
#ifndef MOIETY_TESTS_PROGRESS_BUDDY_SUBJECT_H_
#define MOIETY_TESTS_PROGRESS_BUDDY_SUBJECT_H_

#include "tests/progress/progress.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct progress_subject buddy_subject;

#ifdef __cplusplus
}
#endif

#endif
