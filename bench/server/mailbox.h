/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that one thread leaves for another to free, on the stream that used
 * them.
 */
#ifndef BINADE_BENCH_SERVER_MAILBOX_H_
#define BINADE_BENCH_SERVER_MAILBOX_H_

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "pool/driver/cuda_abi.h"

#define SERVER_MAILBOX_BLOCKS 64U

struct server_block {
    CUdeviceptr address; /* 0: none */
    size_t size_bytes;   /* as asked for */
    unsigned stream;     /* whose queued work uses it last */
};

struct server_mailbox {
    pthread_mutex_t lock;
    unsigned count;                                    /* under the lock */
    struct server_block blocks[SERVER_MAILBOX_BLOCKS]; /* under the lock */
};

/* False when it is full: the block stays the caller's. */
bool server_mailbox_post(struct server_mailbox *mailbox,
                         const struct server_block *block);

/* Takes everything out, into room for SERVER_MAILBOX_BLOCKS. */
unsigned server_mailbox_collect(struct server_mailbox *mailbox,
                                struct server_block *out);

#endif
