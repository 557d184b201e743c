/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The server: worker threads, each with a stream of its own, that live as long
 * as it does and serve one subject's requests in each phase.
 */
#ifndef MOIETY_BENCH_SERVER_SERVER_H_
#define MOIETY_BENCH_SERVER_SERVER_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/server/options.h"
#include "bench/server/staging.h"
#include "bench/server/subjects/device.h"
#include "bench/server/subjects/subject.h"
#include "bench/server/tally.h"

struct server;

#define SERVER_MAILBOX_BLOCKS 64U

struct server_block {
    CUdeviceptr address; /* 0: none */
    size_t size_bytes;   /* as asked for */
    unsigned stream;     /* whose queued work uses it last */
};

/* Blocks that one thread leaves for another to free, on the stream that used
 * them. */
struct server_mailbox {
    pthread_mutex_t lock;
    unsigned count;                                    /* under the lock */
    struct server_block blocks[SERVER_MAILBOX_BLOCKS]; /* under the lock */
};

/* One thread. What is not said to be under the lock is its own. */
struct server_worker {
    struct server *server;
    pthread_t thread;
    unsigned index; /* of its stream, too */
    CUevent arrival;
    struct server_counts counts; /* not yet in the tally */
    /* Of the phase; for others to read when it is over. */
    struct server_calls calls;
    uint64_t end_ns; /* when it had nothing more to serve */
    struct server_mailbox mailbox;
    pthread_mutex_t lock;
    struct server_tally tally; /* of the phase; under the lock */
};

struct server {
    const struct server_options *options;
    const struct server_device *device;
    const struct server_staging *staging;
    unsigned char *pattern; /* where inputs come from, as from a client */
    uint64_t clock_ns;      /* what reading the clock costs */
    struct server_worker *workers;
    unsigned worker_count;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* one of the three below */
    uint64_t phase;         /* under the lock */
    unsigned busy_count;    /* under the lock */
    bool is_over;           /* under the lock */

    /* Of the phase; written while no worker is busy. */
    const struct server_subject *subject;
    uint64_t deadline_ns;
    uint64_t request_end; /* the first number that is not to be served */
    /* No edge: takes numbers, publishes nothing. */
    _Atomic(uint64_t) next_request;
    /* No edge: stops the others soon; who reads it after them reads it at
     * rest. */
    atomic_bool has_failed;
};

#endif
