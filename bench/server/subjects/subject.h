/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The allocators that give the server its device memory: behind one small
 * table, so that the same requests are served with every one of them. Each is
 * started once and stopped once, by the main thread; all live side by side
 * while they take turns.
 *
 * Streams are named by their index in `server_device.streams`, which is that of
 * the thread that queues work on them.
 */
#ifndef MOIETY_BENCH_SERVER_SUBJECTS_SUBJECT_H_
#define MOIETY_BENCH_SERVER_SUBJECTS_SUBJECT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <moiety/status.h>

#include "bench/server/subjects/device.h"

/* No request takes more at once. */
#define SERVER_BLOCK_BYTES_MAX ((size_t)2 << 20)

struct server_subject {
    const char *name;
    const char *description;
    bool is_default; /* takes part unless others are named */

    /* `device` stays as it is until `stop`, and its context is current. */
    moiety_status (*start)(const struct server_device *device);
    /* Memory for work on `stream`; any thread, the context current. */
    moiety_status (*alloc)(size_t size_bytes, unsigned stream,
                           CUdeviceptr *out);
    /* The work that used it may still be queued on `stream`, and nowhere else;
     * any thread, the context current. */
    moiety_status (*free)(CUdeviceptr address, size_t size_bytes,
                          unsigned stream);
    /* Most bytes that it ever had from the driver; no work is under way. */
    uint64_t (*peak_bytes)(void);
    /* NULL, or one line of what else it has to tell; no work is under way. */
    void (*describe)(char *out, size_t size_bytes);
    /* Returns the bytes that were never freed; no work is under way. */
    uint64_t (*stop)(void);
};

/* In the order in which they are listed; NULL ends them. */
extern const struct server_subject *const server_subjects[];

extern const struct server_subject server_subject_moiety;
extern const struct server_subject server_subject_mutex;
extern const struct server_subject server_subject_driver;
extern const struct server_subject server_subject_planted;

#endif
