/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "bench/studies/relay.h"

#include <pthread.h>
#include <stdlib.h>

#include "bench/base/clock.h"
#include "bench/base/device.h"
#include "bench/base/processor.h"
#include "bench/base/team.h"
#include "pool/driver/driver_table.h"

/* For what is no part of the measurement; within it the device does all that
 * was queued. */
#define PATIENCE_NS UINT64_C(2000000000)
#define WORK_TRIES 11U
#define WORK_MIDDLE 5U

struct block {
    uint64_t address; /* 0: there is none */
    uint32_t stream;  /* that it was allocated for */
};

struct relay {
    const struct subject *subject;
    const struct relay_job *job;
    pthread_barrier_t gate;
    /* What the first thread fills the limit with. */
    uint64_t *filling;
    uint64_t filling_count;
    struct subject_memory memory;
};

struct runner {
    struct relay *relay;
    struct block *blocks;
    struct histogram took;
    uint64_t asked;
    uint64_t failed;
    double work_ns;
    uint32_t index;
    bool is_attached;
    bool is_placed; /* all blocks were there in the beginning */
    bool is_robbed; /* and one is there no more */
};

static uint64_t alloc_once(const struct runner *runner, uint32_t stream)
{
    const struct relay *relay = runner->relay;
    return relay->subject->alloc(runner->index, relay->job->size_bytes, stream);
}

static void be_busy(uint64_t duration_ns)
{
    uint64_t start_ns = clock_now_ns();
    while (clock_now_ns() - start_ns < duration_ns)
        continue;
}

/* Asks once at least. */
static bool alloc_within(struct runner *runner, struct block *block,
                         uint32_t stream, uint64_t patience_ns)
{
    uint64_t start_ns = clock_now_ns();
    block->stream = stream;
    for (;;) {
        block->address = alloc_once(runner, stream);
        runner->asked++;
        if (block->address || clock_now_ns() - start_ns >= patience_ns)
            return block->address != 0;
        be_busy(runner->relay->job->between_ns);
    }
}

static void free_block(const struct runner *runner, uint64_t address,
                       uint32_t stream)
{
    const struct relay *relay = runner->relay;
    relay->subject->free(runner->index, address, relay->job->size_bytes,
                         stream);
}

static void queue_work(const struct runner *runner)
{
    const struct relay *relay = runner->relay;
    const struct block *last = &runner->blocks[relay->job->blocks - 1];
    if (relay->subject->follow)
        relay->subject->follow(runner->index, last->stream, last->address,
                               relay->job->size_bytes);
}

static int compare_times(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* The median of some, while all threads do it, as they will in rounds. */
static double measure_work(const struct runner *runner)
{
    const struct moietyi_driver *driver = moietyi_driver_opened();
    void *stream = bench_device_streams[runner->blocks->stream];
    uint64_t took_ns[WORK_TRIES];
    for (uint32_t i = 0; i < WORK_TRIES; i++) {
        queue_work(runner);
        uint64_t start_ns = clock_now_ns();
        while (driver->cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
            continue;
        took_ns[i] = clock_now_ns() - start_ns;
    }
    qsort(took_ns, WORK_TRIES, sizeof(*took_ns), compare_times);
    return (double)took_ns[WORK_MIDDLE];
}

/* What the other stream does not get, the one that freed it has back. */
static bool take_over(struct runner *runner, struct block *block)
{
    uint32_t former = block->stream;
    if (alloc_within(runner, block, former ^ 1U,
                     runner->relay->job->patience_ns))
        return true;
    uint64_t asked = runner->asked;
    runner->failed++;
    runner->is_robbed |= !alloc_within(runner, block, former, PATIENCE_NS);
    runner->asked = asked;
    return false;
}

static void run_round(struct runner *runner)
{
    const struct relay_job *job = runner->relay->job;
    bool is_whole = true;
    queue_work(runner);
    uint64_t start_ns = clock_now_ns();
    for (uint32_t i = 0; i < job->blocks; i++)
        free_block(runner, runner->blocks[i].address, runner->blocks[i].stream);
    be_busy(job->pause_ns);
    for (uint32_t i = 0; i < job->blocks; i++)
        is_whole &= take_over(runner, &runner->blocks[i]);
    if (is_whole)
        histogram_add(&runner->took, (clock_now_ns() - start_ns) * 1000);
}

static void run_rounds(struct runner *runner)
{
    uint32_t left = runner->is_placed ? runner->relay->job->rounds : 0;
    runner->asked = 0;
    while (left-- > 0 && !runner->is_robbed)
        run_round(runner);
}

static void place_blocks(struct runner *runner)
{
    const struct relay_job *job = runner->relay->job;
    runner->is_placed = runner->is_attached;
    for (uint32_t i = 0; runner->is_placed && i < job->blocks; i++)
        runner->is_placed =
            alloc_within(runner, &runner->blocks[i],
                         runner->index * RELAY_STREAMS, PATIENCE_NS);
}

static void fill_limit(const struct runner *runner)
{
    struct relay *relay = runner->relay;
    uint64_t room = relay->job->limit_bytes / relay->job->size_bytes;
    uint64_t address;
    while (relay->filling_count < room && (address = alloc_once(runner, 0)))
        relay->filling[relay->filling_count++] = address;
}

static void free_all(const struct runner *runner)
{
    const struct relay *relay = runner->relay;
    const struct block *block = runner->blocks;
    for (uint32_t i = 0; i < relay->job->blocks; i++, block++)
        if (block->address)
            free_block(runner, block->address, block->stream);
    for (uint64_t i = 0; runner->index == 0 && i < relay->filling_count; i++)
        free_block(runner, relay->filling[i], 0);
}

static void *run_runner(void *item)
{
    struct runner *runner = item;
    struct relay *relay = runner->relay;
    (void)processor_pin(runner->index);
    runner->is_attached =
        !relay->subject->attach || relay->subject->attach(runner->index);
    place_blocks(runner);
    (void)pthread_barrier_wait(&relay->gate);
    if (runner->index == 0 && runner->is_placed)
        fill_limit(runner);
    (void)pthread_barrier_wait(&relay->gate);
    if (runner->is_placed && relay->job->has_work)
        runner->work_ns = measure_work(runner);
    (void)pthread_barrier_wait(&relay->gate);
    run_rounds(runner);
    (void)pthread_barrier_wait(&relay->gate);
    if (runner->index == 0 && runner->is_attached)
        relay->subject->measure(&relay->memory);
    (void)pthread_barrier_wait(&relay->gate);
    free_all(runner);
    return NULL;
}

static const char *add_up(const struct relay *relay,
                          const struct runner *runners, struct relay_found *out)
{
    uint32_t count = relay->job->thread_count;
    out->reserved_bytes = relay->memory.reserved_bytes;
    out->blocks = relay->filling_count + (uint64_t)count * relay->job->blocks;
    for (uint32_t i = 0; i < count; i++) {
        if (!runners[i].is_attached)
            return "a thread cannot use it";
        if (!runners[i].is_placed)
            return "there is no room for the blocks of each thread";
        if (runners[i].is_robbed)
            return "neither stream gets what one has freed";
        histogram_merge(&out->took, &runners[i].took);
        out->asked += runners[i].asked;
        out->failed += runners[i].failed;
        out->work_ns += runners[i].work_ns / count;
    }
    return NULL;
}

static const char *run_runners(struct relay *relay, struct runner *runners,
                               struct block *blocks, struct relay_found *out)
{
    uint32_t count = relay->job->thread_count;
    (void)pthread_barrier_init(&relay->gate, NULL, count);
    for (uint32_t i = 0; i < count; i++) {
        runners[i].relay = relay;
        runners[i].blocks = blocks + (size_t)i * relay->job->blocks;
        runners[i].index = i;
    }
    team_run(run_runner, runners, sizeof(*runners), count);
    (void)pthread_barrier_destroy(&relay->gate);
    return add_up(relay, runners, out);
}

const char *relay_run(const struct subject *subject,
                      const struct relay_job *job, struct relay_found *out)
{
    struct relay relay = {.subject = subject, .job = job};
    size_t count = (size_t)job->thread_count * job->blocks;
    struct runner *runners = calloc(job->thread_count, sizeof(*runners));
    struct block *blocks = calloc(count, sizeof(*blocks));
    relay.filling =
        calloc(job->limit_bytes / job->size_bytes + 1, sizeof(*relay.filling));
    *out = (struct relay_found){0};
    const char *why = runners && blocks && relay.filling
                          ? run_runners(&relay, runners, blocks, out)
                          : "there is no host memory";
    free(relay.filling);
    free(blocks);
    free(runners);
    return why;
}
