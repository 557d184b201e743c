/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where subjects that have no driver calls of their own get segments: from
 * cuMemAlloc(), within a limit.
 */
#ifndef BINADE_BENCH_SUBJECTS_REPLAY_SEGMENTS_H_
#define BINADE_BENCH_SUBJECTS_REPLAY_SEGMENTS_H_

#include "bench/subjects/replay_subject.h"

/* NULL, or why not; then replay_segments_stop() is not called. */
const char *replay_segments_start(const struct replay_setup *setup);
/* The limit, or all memory of the device where that is less. */
uint64_t replay_segments_bytes_max(void);
/* 0: beyond the limit, or the driver refused. */
uint64_t replay_segments_take(uint64_t size_bytes);
void replay_segments_give(uint64_t address, uint64_t size_bytes);
/* What there is, of which so much is handed out. */
struct replay_memory replay_segments_memory(uint64_t handed_bytes);
void replay_segments_stop(void);

#endif
