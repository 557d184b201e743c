/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each window is replayed by threads that wait at a gate in between. Each has
 * its own calls in their order; that a free has its block is the one thing it
 * waits for, and all that it can wait for comes earlier in the trace, so that
 * they never wait for each other in a circle.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/base/clock.h"
#include "bench/base/processor.h"
#include "bench/lag/touch.h"
#include "bench/replay/clock.h"
#include "bench/replay/run.h"

/* What stands for the address of a block that could not be allocated. */
#define LOST 1U

/* Looks at an address before the processor is left to others. */
#define SPINS 200U

/* A block by its number. */
struct place {
    /* Edge RB: an allocation's store (release) -> the free's load (acquire).
     * 0: not allocated yet. Set back at the gate. */
    _Atomic uint64_t address;
    uint64_t size_bytes;
};

struct member;

/* What is not of a thread is written while all wait at the gate. */
struct crew {
    const struct subject *subject;
    struct replay_source *source;
    struct place *places;
    struct replay_op *ops; /* the window's, sorted by threads */
    struct member *members;
    uint32_t member_count;
    struct replay_clock clock;
    pthread_barrier_t gate;
    bool is_concurrent;
    bool is_over;
};

struct member {
    struct crew *crew;
    pthread_t thread;
    uint32_t index;
    uint32_t op_begin; /* of this window */
    uint32_t op_count;
    uint64_t begin_ns;
    uint64_t end_ns;
    uint64_t ooms;
    bool is_attached;
    struct touch touch;
    struct histogram allocs;
    struct histogram frees;
};

static void alloc_timed(struct member *member, const struct replay_op *op)
{
    struct crew *crew = member->crew;
    uint64_t start = moietyi_ticks(crew->clock.is_counter);
    uint64_t address =
        crew->subject->alloc(member->index, op->size_bytes, op->stream);
    histogram_add(&member->allocs, replay_clock_spent(&crew->clock, start));
    member->ooms += address == 0;
    crew->places[op->block].size_bytes = op->size_bytes;
    if (address && crew->subject->follow)
        crew->subject->follow(member->index, op->stream, address,
                              op->size_bytes);
    /* RB.release: the thread that frees the block sees what was written to make
     * it. */
    atomic_store_explicit(&crew->places[op->block].address,
                          address ? address : LOST, memory_order_release);
}

static uint64_t wait_for_address(_Atomic uint64_t *address)
{
    for (unsigned spin = 0;; spin++) {
        /* RB.acquire: pairs with the allocation's store. */
        uint64_t seen = atomic_load_explicit(address, memory_order_acquire);
        if (seen)
            return seen;
        if (spin % SPINS == SPINS - 1)
            (void)sched_yield();
    }
}

static void free_timed(struct member *member, const struct replay_op *op)
{
    struct crew *crew = member->crew;
    uint64_t address = wait_for_address(&crew->places[op->block].address);
    if (address == LOST)
        return;
    uint64_t start = moietyi_ticks(crew->clock.is_counter);
    crew->subject->free(member->index, address, op->size_bytes, op->stream);
    histogram_add(&member->frees, replay_clock_spent(&crew->clock, start));
    if (crew->subject->follow)
        crew->subject->follow(member->index, op->stream, 0, op->size_bytes);
}

static void run_window(struct member *member)
{
    const struct replay_op *ops = member->crew->ops + member->op_begin;
    member->begin_ns = clock_now_ns();
    for (uint32_t i = 0; i < member->op_count; i++) {
        touch_next(&member->touch);
        if (ops[i].is_alloc)
            alloc_timed(member, &ops[i]);
        else
            free_timed(member, &ops[i]);
    }
    member->end_ns = clock_now_ns();
}

static void free_rest(const struct crew *crew)
{
    for (uint32_t i = 0; i < crew->source->next_block; i++) {
        /* relaxed: the gate ordered it. */
        uint64_t address = atomic_load_explicit(&crew->places[i].address,
                                                memory_order_relaxed);
        if (address > LOST)
            crew->subject->free(0, address, crew->places[i].size_bytes,
                                SUBJECT_STREAM_DONE);
    }
}

static void *work(void *argument)
{
    struct member *member = argument;
    struct crew *crew = member->crew;
    (void)processor_pin(member->index);
    member->is_attached =
        !crew->subject->attach || crew->subject->attach(member->index);
    (void)pthread_barrier_wait(&crew->gate);
    for (;;) {
        (void)pthread_barrier_wait(&crew->gate);
        if (crew->is_over)
            break;
        run_window(member);
        (void)pthread_barrier_wait(&crew->gate);
    }
    if (member->index == 0)
        free_rest(crew);
    return NULL;
}

static uint32_t member_of(const struct crew *crew, const struct replay_op *op)
{
    return crew->is_concurrent ? op->thread : 0;
}

/* Puts each thread's calls together, in their order. */
static void sort_by_thread(struct crew *crew)
{
    const struct replay_source *source = crew->source;
    uint32_t next[REPLAY_THREADS_MAX] = {0};
    uint32_t begin = 0;
    for (uint32_t i = 0; i < source->op_count; i++)
        next[member_of(crew, &source->ops[i])]++;
    for (uint32_t i = 0; i < crew->member_count; i++) {
        crew->members[i].op_begin = begin;
        crew->members[i].op_count = next[i];
        begin += next[i];
        next[i] = crew->members[i].op_begin;
    }
    for (uint32_t i = 0; i < source->op_count; i++)
        crew->ops[next[member_of(crew, &source->ops[i])]++] = source->ops[i];
}

static uint64_t window_ns(const struct crew *crew)
{
    uint64_t begin_ns = UINT64_MAX;
    uint64_t end_ns = 0;
    for (uint32_t i = 0; i < crew->member_count; i++) {
        if (crew->members[i].begin_ns < begin_ns)
            begin_ns = crew->members[i].begin_ns;
        if (crew->members[i].end_ns > end_ns)
            end_ns = crew->members[i].end_ns;
    }
    return end_ns - begin_ns;
}

/* Their numbers are given again in the next window. */
static void forget_ended(const struct crew *crew)
{
    const struct replay_source *source = crew->source;
    for (uint32_t i = 0; i < source->ended_count; i++)
        /* relaxed: the gate orders it. */
        atomic_store_explicit(&crew->places[source->ended[i]].address, 0,
                              memory_order_relaxed);
}

static const char *run_windows(struct crew *crew, uint64_t *wall_ns)
{
    enum replay_result result;
    for (uint32_t i = 0; i < crew->member_count; i++)
        if (!crew->members[i].is_attached)
            return "a thread cannot use it";
    while ((result = replay_source_next(crew->source)) == REPLAY_MORE) {
        sort_by_thread(crew);
        (void)pthread_barrier_wait(&crew->gate);
        (void)pthread_barrier_wait(&crew->gate);
        *wall_ns += window_ns(crew);
        forget_ended(crew);
    }
    return result == REPLAY_END ? NULL : "the trace has changed meanwhile";
}

/* Of threads that could not be started the gate would wait for ever. */
static void start_member(struct crew *crew, uint32_t index)
{
    struct member *member = &crew->members[index];
    member->crew = crew;
    member->index = index;
    if (pthread_create(&member->thread, NULL, work, member) == 0)
        return;
    (void)fputs("replay: a thread cannot be started\n", stderr);
    exit(EXIT_FAILURE); /* NOLINT(concurrency-mt-unsafe) */
}

static void add_up(struct crew *crew, struct replay_timing *out)
{
    for (uint32_t i = 0; i < crew->member_count; i++) {
        histogram_merge(&out->allocs, &crew->members[i].allocs);
        histogram_merge(&out->frees, &crew->members[i].frees);
        out->ooms += crew->members[i].ooms;
    }
    out->ns_per_tick = replay_clock_ns_per_tick(&crew->clock);
}

static const char *run_crew(struct crew *crew, struct replay_timing *out)
{
    (void)pthread_barrier_init(&crew->gate, NULL, crew->member_count + 1);
    for (uint32_t i = 0; i < crew->member_count; i++)
        start_member(crew, i);
    (void)pthread_barrier_wait(&crew->gate);
    const char *why = run_windows(crew, &out->wall_ns);
    crew->is_over = true;
    (void)pthread_barrier_wait(&crew->gate);
    for (uint32_t i = 0; i < crew->member_count; i++)
        (void)pthread_join(crew->members[i].thread, NULL);
    (void)pthread_barrier_destroy(&crew->gate);
    add_up(crew, out);
    return why;
}

static bool start_touching(struct crew *crew, uint32_t pages)
{
    bool is_ready = true;
    for (uint32_t i = 0; i < crew->member_count; i++)
        is_ready &= touch_init(&crew->members[i].touch, pages);
    return is_ready;
}

const char *replay_run_timed(const struct subject *subject,
                             struct replay_source *source, bool is_concurrent,
                             uint32_t touch_pages, struct replay_timing *out)
{
    struct crew crew = {
        .subject = subject,
        .source = source,
        .is_concurrent = is_concurrent,
        .member_count = is_concurrent ? source->run_threads : 1,
    };
    const char *why = "there is no memory to replay it";
    *out = (struct replay_timing){0};
    crew.places = calloc(source->block_room, sizeof(*crew.places));
    crew.ops = calloc(REPLAY_WINDOW_COUNT, sizeof(*crew.ops));
    crew.members = calloc(crew.member_count, sizeof(*crew.members));
    replay_clock_start(&crew.clock);
    if (!replay_source_rewind(source))
        why = "the trace has changed meanwhile";
    else if (crew.places && crew.ops && crew.members &&
             start_touching(&crew, touch_pages))
        why = run_crew(&crew, out);
    for (uint32_t i = 0; crew.members && i < crew.member_count; i++)
        touch_fini(&crew.members[i].touch);
    free(crew.places);
    free(crew.ops);
    free(crew.members);
    return why;
}
