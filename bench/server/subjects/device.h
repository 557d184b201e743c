/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The device that the server runs on: its primary context, and a stream for
 * each worker thread.
 */
#ifndef MOIETY_BENCH_SERVER_SUBJECTS_DEVICE_H_
#define MOIETY_BENCH_SERVER_SUBJECTS_DEVICE_H_

#include <stddef.h>

#include "pool/driver/driver_table.h"

#define SERVER_THREADS_MAX 64U

struct server_device {
    const struct moietyi_driver *driver;
    CUdevice id;
    int index;         /* what `id` was made from */
    CUcontext context; /* retained; current in the thread that opened */
    CUstream streams[SERVER_THREADS_MAX];
    unsigned stream_count;
};

/* After a failure, too, the device is to be closed. */
MOIETY_MUST_USE moiety_status server_device_open(int index,
                                                 unsigned stream_count,
                                                 struct server_device *out);

/* Called by the thread that opened; no work is under way. */
void server_device_close(struct server_device *device);

#endif
