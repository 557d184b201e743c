/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How a worker gets blocks, and what it expects of them.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/tools/pools.h"
#include "tests/truth/kit.h"
#include "tests/truth/worker.h"

#define BATCH_MAX 8
#define GREED_BYTES 32768
#define GREED_ODDS 1024
#define ALIGNED_BYTES ((size_t)512)
#define PAGE_BYTES ((size_t)2 << 20)
#define LARGE_BYTES ((size_t)1 << 20)
#define LARGEST_BYTES ((size_t)32 << 20)
/* Of what is to move: some whole handles. */
#define MOVED_BLOCKS 4U
#define MOVED_BYTES ((uint32_t)8 << 20)

/* A few sizes again and again, so that blocks fit the next request, and any. */
static size_t choose_size(struct worker *worker)
{
    static const size_t often[] = {512,   1024,  4096,   4100,
                                   10000, 32768, 100000, 262144};
    uint64_t *random = &worker->random;
    if (random_below(random, 100) < worker->world->options->large)
        return PAGE_BYTES + random_below(random, (uint32_t)LARGEST_BYTES -
                                                     (uint32_t)PAGE_BYTES);
    if (random_below(random, 2))
        return often[random_below(random, 8)];
    uint32_t order = 9 + random_below(random, 8); /* up to 128 KiB */
    if (random_once_in(random, 32))
        order = 17 + random_below(random, 6); /* up to 8 MiB */
    size_t size_bytes =
        ((size_t)1 << order) + random_below(random, (uint32_t)1 << order);
    return size_bytes >> random_below(random, 2);
}

/* What was got from the pool for `asked` on `on`. */
struct request {
    size_t size_bytes;
    size_t alignment_bytes; /* 0: what the size gives */
    size_t count;
    moiety_stream on;
    bool may_be_busy; /* who will not wait may be told so */
    CUdeviceptr address[BATCH_MAX];
};

static moiety_status allocate(struct worker *worker, struct request *request)
{
    moiety_pool *pool = worker->world->pool;
    moiety_status status;
    request->count = 1;
    switch (random_below(&worker->random, 16)) {
    case 0:
        request->alignment_bytes = ALIGNED_BYTES
                                   << random_below(&worker->random, 8);
        return alloc_aligned(pool, request->size_bytes,
                             request->alignment_bytes, request->on,
                             request->address);
    case 1:
        request->may_be_busy = true;
        return alloc_no_wait(pool, request->size_bytes, request->on,
                             request->address);
    case 2:
        if (request->size_bytes > LARGE_BYTES / BATCH_MAX)
            request->size_bytes = LARGE_BYTES / BATCH_MAX;
        request->count = 2 + random_below(&worker->random, BATCH_MAX - 1);
        if (request->count > WORKER_HAND - worker->hand_count)
            request->count = WORKER_HAND - worker->hand_count;
        return moiety_alloc_batch(pool, request->size_bytes, request->on,
                                  request->count, request->address);
    case 3:
    case 4:
        status = alloc_no_call(pool, request->size_bytes, request->on,
                               request->address);
        if (status != MOIETY_E_WOULD_BLOCK)
            return status;
        /* fallthrough */
    default:
        return moiety_alloc(pool, request->size_bytes, request->on,
                            request->address);
    }
}

/* Every byte that may be used, sometimes, else those that were asked for. */
static size_t bytes_to_fill(struct worker *worker, const struct block *block)
{
    size_t size_bytes = block->size_bytes;
    if (random_once_in(&worker->random, 8)) {
        if (moiety_usable_size(worker->world->pool, block->address,
                               &size_bytes) != MOIETY_OK ||
            size_bytes < block->size_bytes)
            world_fail(worker->world, "moiety_usable_size");
    }
    return size_bytes & ~(sizeof(block->word) - 1);
}

static size_t alignment_of(const struct request *request)
{
    return request->alignment_bytes ? request->alignment_bytes : ALIGNED_BYTES;
}

static void fill(struct worker *worker, const struct request *request,
                 CUdeviceptr address, struct worker_place place)
{
    struct block *block = &worker->hand[worker->hand_count++];
    uint64_t number = atomic_fetch_add(&worker->allocated, 1);
    *block = (struct block){
        .address = address,
        .size_bytes = request->size_bytes,
        .stream = place.stream,
        .place = place.place,
        .word = (uint32_t)(number * worker->world->options->threads +
                           worker->index),
    };
    if (address % alignment_of(request))
        world_fail(worker->world, "the alignment of a block");
    block->filled_bytes = bytes_to_fill(worker, block);
    MUST(cu.cuMemsetD32Async(address, block->word,
                             block->filled_bytes / sizeof(block->word),
                             place.stream));
    worker_note(worker, block, place.stream,
                request->on == place.stream ? "filled"
                                            : "allocated for any, filled");
}

/* All that the limit has, which is not to be had while anybody holds a block.
 * What was taken for it was the stream's own, and may be in use there when it
 * goes back. */
static void ask_for_too_much(struct worker *worker)
{
    struct world *world = worker->world;
    moiety_stream stream = world->shared[worker->favourite[0]];
    size_t count = world->limit_bytes / GREED_BYTES;
    CUdeviceptr *address = malloc(count * sizeof(*address));
    kit_require(address != NULL, "malloc");
    moiety_status status =
        moiety_alloc_batch(world->pool, GREED_BYTES, stream, count, address);
    if (status == MOIETY_OK)
        status = moiety_free_batch(world->pool, address, count, stream, NULL);
    else if (status == MOIETY_E_NO_DEVICE_MEMORY)
        status = MOIETY_OK;
    if (status != MOIETY_OK)
        world_fail(world, "a batch of all that the limit has");
    free(address);
}

/* Everyone's memory is short, so what this worker has goes first. */
static void make_room(struct worker *worker)
{
    atomic_fetch_add(&worker->denied, 1);
    while (worker->hand_count)
        worker_finish_block(worker, worker->hand_count - 1);
    worker_settle(worker);
}

static bool is_want_of_memory(moiety_status status)
{
    return status == MOIETY_E_NO_DEVICE_MEMORY ||
           status == MOIETY_E_WOULD_BLOCK;
}

/* For the pool to move what is free, as nothing else is left to it: more than there is
 * while anybody holds a block. */
static void ask_for_all(struct worker *worker, moiety_stream stream)
{
    struct world *world = worker->world;
    CUdeviceptr address;
    const moiety_alloc_options no_wait = {.struct_size = sizeof no_wait,
                                          .flags = MOIETY_ALLOC_NO_WAIT};
    moiety_status status = moiety_alloc_with(world->pool, world->limit_bytes,
                                             stream, &no_wait, &address);
    if (status == MOIETY_OK)
        status = moiety_free(world->pool, address, stream);
    if (status != MOIETY_OK && !is_want_of_memory(status))
        world_fail(world, "an allocation of all that the limit has");
}

/* What is freed here has its readers behind the hold when it moves. Whoever gets it
 * at its new place before they have run spoils what they read. */
void worker_force_moves(struct worker *worker)
{
    struct world *world = worker->world;
    uint32_t own = random_below(&worker->random, WORKER_OWN);
    struct worker_place place = {worker->own[own], PLACE_OWN};
    for (uint32_t i = 0; i < MOVED_BLOCKS && worker->hand_count < WORKER_HAND;
         i++) {
        struct request request = {
            .size_bytes =
                MOVED_BYTES + random_below(&worker->random, MOVED_BYTES),
            .on = place.stream,
        };
        moiety_status status = moiety_alloc(world->pool, request.size_bytes,
                                            request.on, request.address);
        if (status == MOIETY_OK)
            fill(worker, &request, request.address[0], place);
        else if (!is_want_of_memory(status))
            world_fail(world, "an allocation of what is to move");
    }
    hold_stream(&world->holds, world_worker_hold(world, worker->index, own),
                place.stream, (uint32_t)world->options->held_us);
    worker_finish_stream(worker, place.stream);
    ask_for_all(worker, place.stream);
}

void worker_begin_block(struct worker *worker)
{
    if (random_once_in(&worker->random, GREED_ODDS))
        ask_for_too_much(worker);
    struct worker_place place = worker_choose_place(worker);
    struct request request = {
        .size_bytes = choose_size(worker),
        .on = place.stream,
    };
    /* A block for anybody has no work pending, so any stream may fill it. */
    if (random_once_in(&worker->random, 10))
        request.on = random_below(&worker->random, 2) ? MOIETY_STREAM_ANY
                                                      : MOIETY_STREAM_DONE;
    moiety_status status = allocate(worker, &request);
    if (status == MOIETY_OK)
        for (size_t i = 0; i < request.count; i++)
            fill(worker, &request, request.address[i], place);
    else if (status == MOIETY_E_NO_DEVICE_MEMORY ||
             (status == MOIETY_E_WOULD_BLOCK && request.may_be_busy))
        make_room(worker);
    else
        world_fail(worker->world, "an allocation");
}
