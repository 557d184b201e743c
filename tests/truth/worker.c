/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A worker's life: rounds of blocks, and between them a change of scene.
 */
#include "tests/truth/worker.h"

#include <pthread.h>

#include "tests/truth/kit.h"

#define STEPS_PER_SCENE 64
#define SCENES_PER_LIFE_MAX 32 /* of a restless worker's threads */

void worker_note(struct worker *worker, const struct block *block,
                 CUstream stream, const char *what)
{
    history_note(&worker->history, (struct history_line){
                                       .address = block->address,
                                       .size_bytes = block->size_bytes,
                                       .stream = stream,
                                       .what = what,
                                       .word = block->word,
                                   });
}

struct worker_place worker_choose_place(struct worker *worker)
{
    struct world *world = worker->world;
    uint64_t *random = &worker->random;
    if (random_once_in(random, 128))
        return (struct worker_place){
            random_below(random, 2) ? CU_STREAM_LEGACY : NULL, PLACE_LEGACY};
    if (random_once_in(random, 12))
        return (struct worker_place){CU_STREAM_PER_THREAD, PLACE_THREAD};
    if (random_once_in(random, 6))
        return (struct worker_place){
            worker->own[random_below(random, WORKER_OWN)], PLACE_OWN};
    uint32_t chosen =
        worker->favourite[random_below(random, WORKER_FAVOURITES)];
    return (struct worker_place){world->shared[chosen], PLACE_SHARED};
}

CUevent worker_take_event(struct worker *worker)
{
    CUevent event = NULL;
    if (worker->spare_events)
        return worker->spare_event[--worker->spare_events];
    MUST(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

void worker_spare_event(struct worker *worker, CUevent event)
{
    if (worker->spare_events < WORKER_EVENTS)
        worker->spare_event[worker->spare_events++] = event;
    else
        MUST(cu.cuEventDestroy(event));
}

/* Ends the current round without waiting for it. */
static void close_round(struct worker *worker)
{
    round_close(&worker->round[worker->current_round]);
    worker->current_round = (worker->current_round + 1) % WORKER_ROUNDS;
}

/* Makes sure that the current round is open, which the oldest was. */
static void open_round(struct worker *worker)
{
    struct round *round = &worker->round[worker->current_round];
    if (!round->is_closed)
        return;
    round_await(round);
    round_compare(round, worker->world);
    for (uint32_t i = 0; i < round->done_count; i++)
        if (moiety_free(worker->world->pool, round->done[i].address,
                        MOIETY_STREAM_DONE) != MOIETY_OK)
            world_fail(worker->world, "moiety_free with DONE");
    round_reopen(round);
}

void worker_turn_round(struct worker *worker)
{
    close_round(worker);
    open_round(worker);
}

void worker_settle(struct worker *worker)
{
    for (uint32_t i = 0; i < WORKER_ROUNDS; i++)
        worker_turn_round(worker);
}

struct round *worker_round_for(struct worker *worker, CUstream stream)
{
    if (!round_has_room(&worker->round[worker->current_round], stream))
        worker_turn_round(worker);
    return &worker->round[worker->current_round];
}

static void hold_something(struct worker *worker)
{
    struct world *world = worker->world;
    uint64_t *random = &worker->random;
    uint32_t duration_us = 20 + random_below(random, 500);
    uint32_t shared = worker->favourite[0];
    uint32_t own = random_below(random, WORKER_OWN);
    if (random_once_in(random, 8))
        duration_us *= 8;
    if (random_once_in(random, 64))
        hold_stream(&world->holds, world_legacy_hold(world), CU_STREAM_LEGACY,
                    duration_us);
    else if (random_once_in(random, 8))
        hold_stream(&world->holds,
                    world_worker_hold(world, worker->index, WORKER_OWN),
                    CU_STREAM_PER_THREAD, duration_us);
    else if (random_once_in(random, 4))
        hold_stream(&world->holds, world_worker_hold(world, worker->index, own),
                    worker->own[own], duration_us);
    else
        hold_stream(&world->holds, world_shared_hold(world, shared),
                    world->shared[shared], duration_us);
}

/* Destroys a stream and makes another, which may well get the same handle. */
static void replace_stream(struct worker *worker)
{
    CUstream *own = &worker->own[random_below(&worker->random, WORKER_OWN)];
    worker_finish_stream(worker, *own);
    worker_turn_round(worker);
    if (moiety_pool_retire_stream(worker->world->pool, *own) != MOIETY_OK)
        world_fail(worker->world, "moiety_pool_retire_stream");
    MUST(cu.cuStreamDestroy(*own));
    *own = kit_create_stream(random_next(&worker->random));
    atomic_fetch_add(&worker->streams_retired, 1);
}

static void set_guard(struct worker *worker, bool is_wanted)
{
    if (worker->has_guard == is_wanted)
        return;
    worker->has_guard = is_wanted;
    if ((is_wanted ? moiety_capture_guard_begin()
                   : moiety_capture_guard_end()) != MOIETY_OK)
        world_fail(worker->world, "a capture guard");
}

static void look_at_pool(struct worker *worker)
{
    moiety_pool_stats stats = {.struct_size = sizeof(stats)};
    if (moiety_pool_get_stats(worker->world->pool, &stats) != MOIETY_OK)
        world_fail(worker->world, "moiety_pool_get_stats");
    if (stats.reserved_bytes_peak > stats.limit_bytes)
        world_fail(worker->world, "the limit");
    if (random_once_in(&worker->random, 4) &&
        moiety_pool_trim(worker->world->pool, stats.limit_bytes / 2, NULL) !=
            MOIETY_OK)
        world_fail(worker->world, "moiety_pool_trim");
}

static void change_scene(struct worker *worker)
{
    uint64_t *random = &worker->random;
    for (uint32_t i = 0; i < WORKER_FAVOURITES; i++)
        worker->favourite[i] =
            random_below(random, (uint32_t)worker->world->options->streams);
    worker->hand_target = 1 + random_below(random, WORKER_HAND);
    set_guard(worker, random_once_in(random, 64));
    if (random_below(random, 2))
        hold_something(worker);
    if (random_once_in(random, 32))
        replace_stream(worker);
    if (random_once_in(random, 64))
        look_at_pool(worker);
}

static void receive(struct worker *worker)
{
    struct block block;
    if (worker->hand_count == WORKER_HAND ||
        !world_receive(worker->world, random_next(&worker->random), &block))
        return;
    if (block.event) {
        struct worker_place place = worker_choose_place(worker);
        MUST(cu.cuStreamWaitEvent(place.stream, block.event, 0));
        worker_spare_event(worker, block.event);
        block.event = NULL;
        block.stream = place.stream;
        block.place = place.place;
        block.has_moved = true;
    }
    worker_note(worker, &block, block.stream, "received");
    worker->hand[worker->hand_count++] = block;
}

static void step(struct worker *worker)
{
    const struct options *options = worker->world->options;
    if (random_once_in(&worker->random, 16))
        receive(worker);
    if (options->moves &&
        random_once_in(&worker->random, (uint32_t)options->moves))
        worker_force_moves(worker);
    if (worker->hand_count < worker->hand_target) {
        worker_begin_block(worker);
        return;
    }
    uint32_t index = random_below(&worker->random, worker->hand_count);
    if (random_once_in(&worker->random, 12))
        worker_send_block(worker, index);
    else
        worker_finish_block(worker, index);
}

static bool is_over(struct worker *worker)
{
    return atomic_load(&worker->world->is_stopped) ||
           atomic_load(&worker->allocated) >= worker->quota;
}

/* The rounds go on into the next life: copies on a default stream whose thread
 * is gone are among them. */
static void *live(void *argument)
{
    struct worker *worker = argument;
    uint32_t scenes = 1 + random_below(&worker->random, SCENES_PER_LIFE_MAX);
    MUST(cu.cuCtxSetCurrent(worker->world->context));
    open_round(worker);
    while (!is_over(worker) && scenes) {
        change_scene(worker);
        for (uint32_t i = 0; i < STEPS_PER_SCENE && !is_over(worker); i++)
            step(worker);
        scenes -= worker->is_restless;
    }
    set_guard(worker, false);
    worker_finish_stream(worker, CU_STREAM_PER_THREAD);
    close_round(worker);
    atomic_fetch_add(&worker->lives, 1);
    return NULL;
}

void worker_run(struct worker *worker)
{
    pthread_t thread;
    while (!is_over(worker)) {
        kit_require(pthread_create(&thread, NULL, live, worker) == 0,
                    "pthread_create");
        (void)pthread_join(thread, NULL);
    }
    MUST(cu.cuCtxSetCurrent(worker->world->context));
    open_round(worker);
    while (worker->hand_count)
        worker_finish_block(worker, worker->hand_count - 1);
    worker_settle(worker);
}

void worker_empty_mailbox(struct worker *worker)
{
    do {
        while (worker->hand_count)
            worker_finish_block(worker, worker->hand_count - 1);
        receive(worker);
    } while (worker->hand_count);
    worker_settle(worker);
}

void worker_init(struct worker *worker, struct world *world, uint32_t index)
{
    const struct options *options = world->options;
    worker->world = world;
    worker->index = index;
    worker->random = random_start(options->seed, index);
    worker->quota = options->operations / options->threads +
                    (index < options->operations % options->threads);
    worker->is_restless = index % 2 == 1;
    for (uint32_t i = 0; i < WORKER_OWN; i++)
        worker->own[i] = kit_create_stream(random_next(&worker->random));
    for (uint32_t i = 0; i < WORKER_ROUNDS; i++)
        round_init(&worker->round[i]);
}

void worker_fini(struct worker *worker)
{
    for (uint32_t i = 0; i < WORKER_OWN; i++) {
        if (moiety_pool_retire_stream(worker->world->pool, worker->own[i]) !=
            MOIETY_OK)
            world_fail(worker->world, "moiety_pool_retire_stream");
        MUST(cu.cuStreamDestroy(worker->own[i]));
    }
    for (uint32_t i = 0; i < WORKER_ROUNDS; i++)
        round_fini(&worker->round[i]);
    while (worker->spare_events)
        MUST(cu.cuEventDestroy(worker->spare_event[--worker->spare_events]));
}
