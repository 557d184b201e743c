/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The ways in which a block is read and freed. Each keeps to the contract of
 * moiety/pool.h and moiety/stream.h, so the pool must let nobody have the
 * memory before the read is over.
 */
#include "tests/truth/kit.h"
#include "tests/truth/worker.h"

#define BATCH_MAX 8

static void expect_ok(struct worker *worker, moiety_status status,
                      const char *call)
{
    if (status != MOIETY_OK)
        world_fail(worker->world, call);
}

/* Takes a block out of the hand. */
static struct block take_out(struct worker *worker, uint32_t index)
{
    struct block block = worker->hand[index];
    worker->hand[index] = worker->hand[--worker->hand_count];
    return block;
}

static struct round *read_on(struct worker *worker, const struct block *block,
                             CUstream stream)
{
    struct round *round = worker_round_for(worker, stream);
    round_read(round, block, stream, random_next(&worker->random));
    atomic_fetch_add(&worker->finished, 1);
    return round;
}

/* Reads on another stream that waits for the block's own. */
static CUstream read_elsewhere(struct worker *worker, const struct block *block)
{
    CUstream other = worker_choose_place(worker).stream;
    CUevent event = worker_take_event(worker);
    MUST(cu.cuEventRecord(event, block->stream));
    MUST(cu.cuStreamWaitEvent(other, event, 0));
    worker_spare_event(worker, event);
    (void)read_on(worker, block, other);
    return other;
}

static void free_on(struct worker *worker, const struct block *block,
                    CUstream stream, const char *what)
{
    moiety_pool *pool = worker->world->pool;
    uint32_t way = random_below(&worker->random, 4);
    moiety_status status = MOIETY_E_WOULD_BLOCK;
    worker_note(worker, block, stream, what);
    if (way < 2) {
        expect_ok(
            worker,
            moiety_free_sized(pool, block->address, block->size_bytes, stream),
            "moiety_free_sized");
        return;
    }
    if (way == 2)
        status = moiety_free_no_call(pool, block->address, stream);
    if (status == MOIETY_E_WOULD_BLOCK)
        status = moiety_free(pool, block->address, stream);
    expect_ok(worker, status, "moiety_free");
}

/* The pool knows for which stream it was allocated, or that it was for any. */
static void free_by_note(struct worker *worker, const struct block *block)
{
    worker_note(worker, block, block->stream, "read, freed by its note");
    expect_ok(worker,
              moiety_free_on_alloc_stream(worker->world->pool, block->address),
              "moiety_free_on_alloc_stream");
}

static void finish_here(struct worker *worker, uint32_t index)
{
    struct block block = take_out(worker, index);
    (void)read_on(worker, &block, block.stream);
    if (worker->world->options->is_noted && !block.has_moved &&
        random_below(&worker->random, 2))
        free_by_note(worker, &block);
    else
        free_on(worker, &block, block.stream, "read, freed on its stream");
}

/* Gives its end back while the fill may be pending there, or gets more behind it,
 * which is filled too. Where there is no room it stays as it is. */
static void resize(struct worker *worker, struct block *block)
{
    uint32_t most = (uint32_t)(2 * block->size_bytes - sizeof(block->word));
    size_t size_bytes =
        sizeof(block->word) + random_below(&worker->random, most);
    moiety_status status = moiety_resize(worker->world->pool, block->address,
                                         size_bytes, block->stream);
    size_t end_bytes = size_bytes & ~(sizeof(block->word) - 1);
    if (status == MOIETY_E_NO_ROOM && size_bytes > block->size_bytes)
        return;
    expect_ok(worker, status, "moiety_resize");
    if (end_bytes > block->filled_bytes)
        MUST(cu.cuMemsetD32Async(
            block->address + block->filled_bytes, block->word,
            (end_bytes - block->filled_bytes) / sizeof(block->word),
            block->stream));
    block->filled_bytes = end_bytes;
    block->size_bytes = size_bytes;
    worker_note(worker, block, block->stream, "resized");
}

static void finish_resized(struct worker *worker, uint32_t index)
{
    resize(worker, &worker->hand[index]);
    finish_here(worker, index);
}

static void finish_elsewhere(struct worker *worker, uint32_t index)
{
    struct block block = take_out(worker, index);
    CUstream other = read_elsewhere(worker, &block);
    free_on(worker, &block, other, "read and freed on another stream");
}

static void finish_recorded(struct worker *worker, uint32_t index)
{
    struct block block = take_out(worker, index);
    CUstream other = read_elsewhere(worker, &block);
    bool is_any = random_once_in(&worker->random, 4);
    expect_ok(worker,
              moiety_record_use(worker->world->pool, block.address,
                                is_any ? MOIETY_STREAM_ANY : other),
              "moiety_record_use");
    free_on(worker, &block, block.stream,
            is_any ? "read elsewhere, use recorded as any, freed on its stream"
                   : "read elsewhere, use recorded, freed on its stream");
}

static void finish_any(struct worker *worker, uint32_t index)
{
    struct block block = take_out(worker, index);
    if (random_below(&worker->random, 2))
        (void)read_elsewhere(worker, &block);
    else
        (void)read_on(worker, &block, block.stream);
    free_on(worker, &block, MOIETY_STREAM_ANY, "read, freed with ANY");
}

static void finish_done(struct worker *worker, uint32_t index)
{
    struct block block = take_out(worker, index);
    struct round *round = read_on(worker, &block, block.stream);
    round->done[round->done_count++] = block;
    worker_note(worker, &block, block.stream, "read, to be freed as DONE");
}

static void finish_after(struct worker *worker, uint32_t index)
{
    struct block block = take_out(worker, index);
    CUstream last = block.stream;
    CUevent event = worker_take_event(worker);
    if (random_below(&worker->random, 2))
        last = read_elsewhere(worker, &block);
    else
        (void)read_on(worker, &block, last);
    MUST(cu.cuEventRecord(event, last));
    worker_note(worker, &block, last, "read, freed after an event");
    expect_ok(worker,
              moiety_free_on_event(worker->world->pool, block.address, event),
              "moiety_free_on_event");
    worker_spare_event(worker, event);
}

/* All blocks of one stream in the hand, up to a few, freed together. */
static void finish_batch(struct worker *worker, uint32_t index)
{
    CUdeviceptr address[BATCH_MAX];
    CUstream stream = worker->hand[index].stream;
    size_t count = 0;
    size_t freed = 0;
    for (uint32_t i = worker->hand_count; i-- > 0 && count < BATCH_MAX;) {
        if (worker->hand[i].stream != stream)
            continue;
        struct block block = take_out(worker, i);
        (void)read_on(worker, &block, stream);
        worker_note(worker, &block, stream, "read, freed in a batch");
        address[count++] = block.address;
    }
    expect_ok(
        worker,
        moiety_free_batch(worker->world->pool, address, count, stream, &freed),
        "moiety_free_batch");
    if (freed != count)
        world_fail(worker->world, "the count of moiety_free_batch");
}

/* Somebody else reads it: on the same stream where all may name it, or on
 * another, after an event. */
void worker_send_block(struct worker *worker, uint32_t index)
{
    struct block block = worker->hand[index];
    bool needs_event = block.place == PLACE_OWN || block.place == PLACE_THREAD;
    if (needs_event || random_below(&worker->random, 2)) {
        block.event = worker_take_event(worker);
        MUST(cu.cuEventRecord(block.event, block.stream));
    }
    worker_note(worker, &block, block.stream, "sent to another thread");
    if (world_post(worker->world, &block))
        (void)take_out(worker, index);
    else if (block.event)
        worker_spare_event(worker, block.event);
}

void worker_finish_block(struct worker *worker, uint32_t index)
{
    static void (*const ways[])(struct worker *, uint32_t) = {
        finish_here,    finish_here,      finish_here,     finish_here,
        finish_resized, finish_elsewhere, finish_recorded, finish_any,
        finish_done,    finish_after,     finish_batch,    finish_here,
    };
    ways[random_below(&worker->random, sizeof(ways) / sizeof(ways[0]))](worker,
                                                                        index);
}

void worker_finish_stream(struct worker *worker, CUstream stream)
{
    for (uint32_t i = worker->hand_count; i-- > 0;)
        if (worker->hand[i].stream == stream)
            finish_here(worker, i);
}
