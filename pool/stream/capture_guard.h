/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Capture guards: while one is held, no pool of the process records a context
 * event.
 */
#ifndef BINADE_POOL_STREAM_CAPTURE_GUARD_H_
#define BINADE_POOL_STREAM_CAPTURE_GUARD_H_

#include <stdbool.h>

#include "binade/status.h"

struct binadei_streams;

/* A pool's streams take part in guards, between these two. */
void binadei_capture_guard_join(struct binadei_streams *streams);
void binadei_capture_guard_leave(struct binadei_streams *streams);

void binadei_capture_guard_begin(void);
BINADE_MUST_USE binade_status binadei_capture_guard_end(void);
bool binadei_capture_guard_is_held(void);

/* Around the recording of a context event; false: a guard is held, do not
 * record, and there is nothing to end. */
bool binadei_capture_guard_recorder_begin(void);
void binadei_capture_guard_recorder_end(void);

#endif
