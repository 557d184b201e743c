/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The fault plan: which calls fail, with what code, and how late work and
 * events complete. The text form is described in standin.h.
 */
#ifndef MOIETY_POOL_STANDIN_SETTINGS_FAULT_H_
#define MOIETY_POOL_STANDIN_SETTINGS_FAULT_H_

#include <stdbool.h>
#include <stddef.h>

#include "pool/standin/base/names.h"

/* Replaces the plan. False when a word is unknown: then the old plan stays and
 * fault_error() says which word and what is accepted. */
bool fault_set_plan(const char *text);
/* Why the calling thread's last fault_set_plan() failed. */
const char *fault_error(void);

/* What this call of `entry` must return; CUDA_SUCCESS to go on. Counts. */
CUresult fault_take(enum standin_entry entry);

/* What a call returns, without an effect, that would wait for queued work; or
 * CUDA_SUCCESS: it waits. Any thread, no lock needed. */
CUresult fault_wait_code(void);

/* Events complete this much after their work, and every piece of stream work
 * takes this much longer. Any thread, no lock needed. */
long fault_event_late_us(void);
long fault_stream_delay_us(void);
/* Puts what cuMemGetInfo() is to say in the place of what is so. NULL is OK. */
void fault_claim_memory(size_t *out_free, size_t *out_total);

#endif
