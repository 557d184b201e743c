/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds all streams of a subject: each waits for a word of host memory that is
 * written when it is to go on. Nothing but that one wait is queued, so that
 * the room that a real stream has, about a thousand operations, is left to the
 * subject's own events.
 *
 * A hold never hangs a program. A thread whose call fails while streams are
 * held gives way: they go on until their work is over, it tries again, and they
 * are held again. A thread whose call does not return, because the driver waits
 * for held work or a stream has no room, is given way by a watchdog.
 */
#ifndef MOIETY_BENCH_LAG_HOLD_H_
#define MOIETY_BENCH_LAG_HOLD_H_

#include <stdint.h>

/* Holds so many of `bench_device_streams`, in the current context, which the
 * watchdog makes its own. Threads are numbered below `thread_count`. NULL, or
 * why that is not possible; then there is nothing to stop. */
const char *lag_hold_start(unsigned thread_count, unsigned stream_count);

/* Around each call of the subject, by the thread that makes it. */
void lag_hold_enter(unsigned thread);
void lag_hold_leave(unsigned thread);

/* Lets the streams go on, and waits until nothing is queued on them. */
void lag_hold_give_way(void);
/* Holds them again once nobody else has them go on. */
void lag_hold_resume(void);

/* How often they went on since the start, however long. */
uint64_t lag_hold_releases(void);

/* Lets them go on for good. */
void lag_hold_stop(void);

#endif
