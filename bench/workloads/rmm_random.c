/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The random benchmark of RAPIDS' memory manager: sizes uniform up to 4 MiB,
 * 73 allocations to 27 frees until 10 000 were made, then frees only, and so
 * on from the beginning; at most 16 000 MiB live among all threads, beyond
 * which a turn to allocate becomes one to free. A block to free is any of the
 * live ones. It imitates data frames: large blocks, large working set. Two
 * turns are one operation. It does not show their sequence of numbers, which
 * depends on the C++ library; theirs has one thread. On a device with less
 * memory a failed allocation becomes a free, as theirs does, and is paid for.
 * size_bytes is the largest size.
 */
#include <stdlib.h>

#include "bench/workloads/workload.h"

#define BLOCK_COUNT 10000U
#define SIZE_BYTES ((size_t)4 << 20)
#define LIVE_BYTES_MAX ((uint64_t)16000 << 20)
#define ALLOC_PERCENT 73U
#define BATCH_OPS 32U

struct block {
    uint64_t address;
    uint32_t size_bytes;
};

struct frames {
    uint64_t live_bytes;
    uint32_t live_count;
    uint32_t made; /* since the beginning of this iteration */
    struct block live[BLOCK_COUNT + 1];
};

/* What is held grows with time; nothing is set up. */
static bool start(struct worker *worker)
{
    worker->state = calloc(1, sizeof(struct frames));
    return worker->state != NULL;
}

static void free_one(struct worker *worker, struct frames *frames)
{
    uint32_t at = random_below(&worker->random, frames->live_count);
    struct block block = frames->live[at];
    frames->live[at] = frames->live[--frames->live_count];
    frames->live_bytes -= block.size_bytes;
    worker_free(worker, block.address, block.size_bytes, worker->stream);
}

static bool wants_alloc(struct worker *worker, const struct frames *frames,
                        uint32_t size_bytes)
{
    return random_below(&worker->random, 100) < ALLOC_PERCENT &&
           frames->made < BLOCK_COUNT &&
           frames->live_bytes + size_bytes <
               LIVE_BYTES_MAX / worker->thread_count;
}

static void turn(struct worker *worker, struct frames *frames)
{
    uint32_t size_bytes =
        1 + random_below(&worker->random, (uint32_t)SIZE_BYTES);
    if (frames->live_count == 0 && frames->made >= BLOCK_COUNT)
        frames->made = 0;
    if (frames->live_count > 0 && !wants_alloc(worker, frames, size_bytes)) {
        free_one(worker, frames);
        return;
    }
    uint64_t address = worker_alloc(worker, size_bytes, worker->stream);
    if (address) {
        frames->live[frames->live_count++] =
            (struct block){address, size_bytes};
        frames->live_bytes += size_bytes;
        frames->made++;
    } else if (frames->live_count > 0) {
        worker->is_out_of_memory = false;
        free_one(worker, frames);
    }
}

static uint32_t batch(struct worker *worker)
{
    struct frames *frames = worker->state;
    for (uint32_t i = 0; i < 2 * BATCH_OPS && !worker->is_out_of_memory; i++)
        turn(worker, frames);
    return BATCH_OPS;
}

static void finish(struct worker *worker)
{
    struct frames *frames = worker->state;
    for (uint32_t i = 0; frames && i < frames->live_count; i++)
        worker_free(worker, frames->live[i].address, frames->live[i].size_bytes,
                    worker->stream);
    free(frames);
}

const struct workload workload_rmm_random = {
    .name = "rmm-random",
    .description = "up to 16000 MiB live, uniform sizes up to 4 MiB",
    .sizes_bytes = {SIZE_BYTES},
    .block_count = 1,
    .start = start,
    .batch = batch,
    .finish = finish,
};
