/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The fault plan: which calls fail, with what code, and how late work and
 * events complete. The text form is described in standin.h.
 */
#ifndef BINADE_POOL_STANDIN_FAULTS_FAULT_H_
#define BINADE_POOL_STANDIN_FAULTS_FAULT_H_

#include <stdbool.h>

#include "pool/standin/entries/entry.h"

/* Replaces the plan. False when a word is unknown: then the old plan stays and
 * fault_error() says which word and what is accepted. */
bool fault_set_plan(const char *text);
/* Why the calling thread's last fault_set_plan() failed. */
const char *fault_error(void);

/* What this call of `entry` must return; CUDA_SUCCESS to go on. Counts. */
CUresult fault_take(enum standin_entry entry);

#endif
