/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Larson's server: a thread replaces blocks at random in an array of 1000, and
 * after 10 000 of these leaves the array to another thread and goes on with one
 * that somebody else left. Most frees are thus of another thread's blocks. The
 * original makes a new thread each time and uses 7 to 8 bytes; here threads
 * stay, and sizes are from --size / 8 to --size. It imitates connections that
 * outlive the thread that opened them. It does not show the start and the exit
 * of threads.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "bench/workloads/workload.h"

#define BLOCK_COUNT 1000U
#define ROUND_OPS 10000U
#define BATCH_OPS 50U

struct block {
    uint64_t address;
    uint32_t size_bytes;
};

/* In the hands of one thread, or in the mailbox. */
struct connections {
    unsigned stream; /* of all its blocks */
    struct block block[BLOCK_COUNT];
};

/* Edge BL: leaving an array in the box (release) -> taking it out (acquire)
 * hands over all its blocks. */
struct mailbox {
    _Atomic(struct connections *) connections;
};

struct server {
    struct connections *connections;
    uint32_t ops; /* of this round */
};

static void *begin(unsigned thread_count)
{
    (void)thread_count;
    struct mailbox *box = malloc(sizeof(*box));
    if (box)
        atomic_init(&box->connections, NULL);
    return box;
}

static void end(void *shared)
{
    free(shared);
}

static void replace(struct worker *worker, struct connections *connections,
                    struct block *block)
{
    uint32_t least_bytes = (uint32_t)(worker->size_bytes / 8 + 1);
    uint32_t more_bytes = (uint32_t)worker->size_bytes - least_bytes + 1;
    worker_free(worker, block->address, block->size_bytes, connections->stream);
    block->size_bytes = least_bytes + random_below(&worker->random, more_bytes);
    block->address =
        worker_alloc(worker, block->size_bytes, connections->stream);
}

static struct connections *open_all(struct worker *worker)
{
    struct connections *all = calloc(1, sizeof(*all));
    if (!all)
        return NULL;
    all->stream = worker->stream;
    for (uint32_t i = 0; i < BLOCK_COUNT && !worker->is_out_of_memory; i++)
        replace(worker, all, &all->block[i]);
    return all;
}

static void close_all(struct worker *worker, struct connections *all)
{
    for (uint32_t i = 0; all && i < BLOCK_COUNT; i++)
        worker_free(worker, all->block[i].address, all->block[i].size_bytes,
                    all->stream);
    free(all);
}

/* One array a thread, and one of the first thread's in the box. */
static bool start(struct worker *worker)
{
    struct mailbox *box = worker->shared;
    struct server *server = calloc(1, sizeof(*server));
    worker->state = server;
    if (!server)
        return false;
    server->connections = open_all(worker);
    if (worker->index != 0)
        return server->connections && !worker->is_out_of_memory;
    struct connections *spare = open_all(worker);
    /* BL.release. */
    atomic_store_explicit(&box->connections, spare, memory_order_release);
    return server->connections && spare && !worker->is_out_of_memory;
}

static uint32_t batch(struct worker *worker)
{
    struct mailbox *box = worker->shared;
    struct server *server = worker->state;
    struct connections *all = server->connections;
    for (uint32_t i = 0; i < BATCH_OPS; i++)
        replace(worker, all,
                &all->block[random_below(&worker->random, BLOCK_COUNT)]);
    server->ops += BATCH_OPS;
    if (server->ops >= ROUND_OPS) {
        server->ops = 0;
        /* BL, both ends. */
        server->connections = atomic_exchange_explicit(&box->connections, all,
                                                       memory_order_acq_rel);
    }
    return BATCH_OPS;
}

static void finish(struct worker *worker)
{
    struct mailbox *box = worker->shared;
    struct server *server = worker->state;
    if (server)
        close_all(worker, server->connections);
    if (worker->index == 0) /* BL.acquire. */
        close_all(worker, atomic_load_explicit(&box->connections,
                                               memory_order_acquire));
    free(server);
}

const struct workload workload_larson = {
    .name = "larson",
    .description = "1000 blocks a thread up to --size, handed on to others",
    .block_count = BLOCK_COUNT,
    .begin = begin,
    .end = end,
    .start = start,
    .batch = batch,
    .finish = finish,
};
