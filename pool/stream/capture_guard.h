/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Capture guards: while one is held, no pool of the process records a context
 * event.
 */
#ifndef MOIETY_POOL_STREAM_CAPTURE_GUARD_H_
#define MOIETY_POOL_STREAM_CAPTURE_GUARD_H_

#include <stdbool.h>
#include <stdint.h>

#include "moiety/status.h"

struct moietyi_streams;

/* A pool's streams take part in guards, between these two. */
void moietyi_capture_guard_join(struct moietyi_streams *streams);
void moietyi_capture_guard_leave(struct moietyi_streams *streams);

void moietyi_capture_guard_begin(void);
MOIETY_MUST_USE moiety_status moietyi_capture_guard_end(void);
bool moietyi_capture_guard_is_held(void);

/* A pool met a capture. Noted only while no guard is held. */
void moietyi_capture_seen(void);
/* Nanoseconds since the last one that was noted; UINT64_MAX: there was none. */
uint64_t moietyi_capture_age_ns(void);
/* A guard is held, or a capture was noted less than two seconds ago. */
bool moietyi_capture_is_near(void);

/* Around the recording of a context event. False: a guard is held; do not
 * record, and do not call the end. */
bool moietyi_capture_guard_recorder_begin(void);
void moietyi_capture_guard_recorder_end(void);

#endif
