/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Device and streams of a subject that is replayed on (bench/base/device.h).
 */
#ifndef BINADE_BENCH_SUBJECTS_REPLAY_STREAMS_H_
#define BINADE_BENCH_SUBJECTS_REPLAY_STREAMS_H_

#include "bench/subjects/replay_subject.h"

/* NULL, or why the device cannot be used, or has too few streams; then
 * bench_device_stop() is not called. */
const char *replay_streams_start(const struct replay_setup *setup);

#endif
