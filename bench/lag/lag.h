/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A device that lags behind the host, beside a subject: to be prepared before
 * the subject starts, begun when its streams are there, and ended before it
 * stops. One at a time.
 */
#ifndef MOIETY_BENCH_LAG_LAG_H_
#define MOIETY_BENCH_LAG_LAG_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/lag/plan.h"

/* NULL, or why the device cannot lag so; then nothing else is called. */
const char *lag_prepare(const struct lag_plan *plan);
/* With so many threads, and so many of `bench_device_streams`. NULL, or why
 * not; then lag_end() is not called, lag_drop() is. */
const char *lag_begin(unsigned thread_count, unsigned stream_count);

/* Around each call of the subject, by the thread that makes it. */
void lag_enter(unsigned thread);
void lag_leave(unsigned thread);

/* An allocation has failed. True: streams were held, and have done all that was
 * queued; it is to be tried again, and lag_resume() to be called then. */
bool lag_give_way(void);
void lag_resume(void);

/* Queues work behind a call that named the stream with this number; `address`
 * 0: behind a free. The primary context of device 0 is current. */
void lag_follow(unsigned thread, unsigned stream, uint64_t address,
                size_t size_bytes);

/* How often held streams had to go on so that the subject could. */
uint64_t lag_releases(void);

/* Lets everything go on and waits for it. */
void lag_end(void);
/* Undoes lag_prepare(). */
void lag_drop(void);

#endif
