/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the subjects on a device share: device 0, its primary context, and the
 * streams that they are measured on. One subject uses it in a process.
 */
#ifndef MOIETY_BENCH_BASE_DEVICE_H_
#define MOIETY_BENCH_BASE_DEVICE_H_

#include <stdbool.h>

#include <moiety/types.h>

#define BENCH_THREADS_MAX 256U
#define BENCH_STREAMS_MAX 1024U

/* Opens the driver and makes so many streams, which wait for no other. NULL, or
 * why that is not possible; then bench_device_stop() is not called. */
const char *bench_device_start(unsigned stream_count);

/* Makes the context current in the calling thread. */
bool bench_device_attach(unsigned thread);

/* Reading one is a part of what is measured, so it is no call. */
extern moiety_stream bench_device_streams[BENCH_STREAMS_MAX];

/* Waits for all work, and takes down what was put up. */
void bench_device_stop(void);

#endif
