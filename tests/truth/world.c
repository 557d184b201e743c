/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/truth/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/tools/pools.h"
#include "tests/truth/kit.h"

/* Each worker's two streams of its own and its thread's default stream. */
#define WORKER_HOLDS 3
#define THREAD_BYTES (UINT64_C(16) << 20)

uint32_t world_shared_hold(const struct world *world, uint32_t index)
{
    (void)world;
    return index;
}

uint32_t world_worker_hold(const struct world *world, uint32_t worker,
                           uint32_t index)
{
    return (uint32_t)world->options->streams + worker * WORKER_HOLDS + index;
}

uint32_t world_legacy_hold(const struct world *world)
{
    return world_worker_hold(world, (uint32_t)world->options->threads, 0);
}

/* Little memory and small caches: a block is soon somebody else's. */
static void create_pool(struct world *world)
{
    moiety_pool_options options = driver_options();
    options.limit_bytes = world->limit_bytes;
    options.first_segment_bytes = UINT64_C(8) << 20;
    options.largest_segment_bytes = UINT64_C(64) << 20;
    options.thread_cache_bytes = UINT64_C(2) << 20;
    options.cache_bytes = options.limit_bytes / 4;
    options.wait_ms = wait_of((uint64_t)world->options->wait_ms);
    if (world->options->hand_over)
        options.flags |= MOIETY_POOL_REUSE_DEPENDENCIES;
    if (world->options->is_mapped)
        set_kind(&options, KIND_MAPPED);
    if (world->options->is_noted)
        options.flags |= MOIETY_POOL_NOTE_STREAMS;
    if (moiety_pool_create(&options, &world->pool) != MOIETY_OK) {
        (void)fprintf(stderr, "%s\n", moiety_last_error_message());
        exit(EXIT_WRONG);
    }
}

void world_begin(struct world *world, const struct options *options,
                 CUcontext context)
{
    uint64_t random = random_start(options->seed, UINT32_MAX);
    world->options = options;
    world->limit_bytes = options->limit_mib ? options->limit_mib << 20
                                            : options->threads * THREAD_BYTES;
    world->context = context;
    kit_require(pthread_mutex_init(&world->lock, NULL) == 0, "a mutex");
    create_pool(world);
    world->shared = calloc(options->streams, sizeof(CUstream));
    kit_require(world->shared != NULL, "calloc");
    for (uint64_t i = 0; i < options->streams; i++)
        world->shared[i] = kit_create_stream(random_next(&random));
    holds_begin(&world->holds, world_legacy_hold(world) + 1);
}

static void destroy_pool(struct world *world)
{
    moiety_leaks leaks = {.struct_size = sizeof(leaks)};
    if (moiety_pool_destroy(world->pool, &leaks) != MOIETY_OK)
        world_fail(world, "moiety_pool_destroy");
    if (leaks.block_count) {
        printf("%" PRIu64 " blocks were never freed\n", leaks.block_count);
        world_fail(world, "the count of blocks");
    }
}

void world_end(struct world *world)
{
    for (uint64_t i = 0; i < world->options->streams; i++) {
        if (moiety_pool_retire_stream(world->pool, world->shared[i]) !=
            MOIETY_OK)
            world_fail(world, "moiety_pool_retire_stream");
        MUST(cu.cuStreamDestroy(world->shared[i]));
    }
    destroy_pool(world);
    holds_end(&world->holds);
    free(world->shared);
}

bool world_post(struct world *world, const struct block *block)
{
    pthread_mutex_lock(&world->lock);
    bool is_posted = world->mail_count < MAIL_MAX;
    if (is_posted)
        world->mail[world->mail_count++] = *block;
    pthread_mutex_unlock(&world->lock);
    return is_posted;
}

bool world_receive(struct world *world, uint64_t random, struct block *out)
{
    pthread_mutex_lock(&world->lock);
    bool is_received = world->mail_count != 0;
    if (is_received) {
        struct block *chosen = &world->mail[random % world->mail_count];
        *out = *chosen;
        *chosen = world->mail[--world->mail_count];
    }
    pthread_mutex_unlock(&world->lock);
    return is_received;
}

void world_note_wrong(struct world *world, const struct wrong *wrong)
{
    atomic_fetch_add(&world->wrong_bytes,
                     wrong->wrong_words * sizeof(wrong->found));
    atomic_store(&world->is_stopped, true);
    pthread_mutex_lock(&world->lock);
    uint32_t count = world->wrong_count;
    bool is_news =
        !count || world->wrong[count - 1].expected != wrong->expected;
    if (is_news && count < SHOWN_WRONG_MAX)
        world->wrong[world->wrong_count++] = *wrong;
    pthread_mutex_unlock(&world->lock);
}

void world_fail(struct world *world, const char *what)
{
    printf("%s: wrong: %s\n", what, moiety_last_error_message());
    atomic_store(&world->is_failed, true);
    atomic_store(&world->is_stopped, true);
}
