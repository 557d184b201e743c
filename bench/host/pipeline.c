/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A pipeline to the device: what share of the rate of bare copies it reaches.
 *
 *  arena        An arena at its limit makes the workers wait.
 *  arena_paced  They wait themselves, for the event of the copy before the
 *               last; the arena then has a buffer that is done.
 *  driver_ring  What programs write without an arena: buffers in turn from
 *               cuMemHostAlloc() for each worker, each with an event.
 *
 * All have as many buffers. With `fill` the workers write every word, so their
 * number and the machine's memory count; without it, getting and giving back
 * alone, and what arrives is not looked at.
 *
 * The bare copies are one stream's, before and after each run.
 */
#define _POSIX_C_SOURCE 200809L
#include "bench/host/pipeline.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <moiety/status.h>

#include "bench/base/clock.h"
#include "bench/base/device.h"
#include "bench/host/room.h"
#include "bench/host/row.h"

#define WHAT "pipeline"
#define COPIES_AT_ONCE 8U
/* Cells that a run and the bare copies beside it go on. */
#define RUN_CELLS 5U
#define SEGMENT_BYTES ((size_t)2 << 20)

static const struct mode {
    const char *name;
    bool is_ring, is_paced, is_filled;
} modes[] = {
    {"arena", false, false, true},       {"arena_paced", false, true, true},
    {"driver_ring", true, true, true},   {"arena", false, false, false},
    {"arena_paced", false, true, false}, {"driver_ring", true, true, false},
};

static size_t all_bytes(const struct pipeline *p)
{
    size_t bytes = p->block_bytes * PIPELINE_DEPTH * p->worker_count;
    return (bytes + SEGMENT_BYTES - 1) & ~(SEGMENT_BYTES - 1);
}

static bool open_arena(struct pipeline *p)
{
    moiety_host_options options = MOIETY_HOST_OPTIONS_INIT;
    options.limit_bytes = all_bytes(p);
    return moiety_host_create(&options, &p->arena) == MOIETY_OK &&
           moiety_host_reserve(p->arena, options.limit_bytes, 0, NULL, NULL) ==
               MOIETY_OK;
}

static bool open_worker(struct pipeline *p, unsigned index)
{
    struct pipeline_worker *worker = &p->workers[index];
    worker->pipeline = p;
    worker->index = index;
    worker->stream = bench_device_streams[index];
    worker->arrived =
        (uint64_t *)p->arrivals.address + (size_t)index * PIPELINE_SLOTS;
    if (!host_device_alloc(p->block_bytes, &worker->there))
        return false;
    for (unsigned i = 0; i < PIPELINE_DEPTH; i++)
        if (!host_buffer_alloc(NULL, p->block_bytes, &worker->ring[i]) ||
            MOIETYI_CALL(host_driver(), cuEventCreate,
                         (&worker->copied[i], CU_EVENT_DISABLE_TIMING)) !=
                MOIETY_OK)
            return false;
    return true;
}

static bool open_all(struct pipeline *p)
{
    if (!open_arena(p) ||
        !host_buffer_alloc(NULL,
                           sizeof(uint64_t) * PIPELINE_SLOTS * p->worker_count,
                           &p->arrivals))
        return false;
    for (unsigned i = 0; i < p->worker_count; i++)
        if (!open_worker(p, i))
            return false;
    return true;
}

static void close_all(struct pipeline *p)
{
    for (unsigned i = 0; i < p->worker_count; i++) {
        struct pipeline_worker *worker = &p->workers[i];
        host_device_free(worker->there);
        for (unsigned j = 0; j < PIPELINE_DEPTH; j++) {
            host_buffer_free(&worker->ring[j]);
            if (worker->copied[j])
                (void)host_driver()->cuEventDestroy(worker->copied[j]);
        }
    }
    host_buffer_free(&p->arrivals);
    host_arena_close(WHAT, p->arena);
}

/* Bytes a nanosecond; 0: it failed. */
static double copy_bare(const struct pipeline *p, uint64_t duration_ns)
{
    const struct pipeline_worker *worker = &p->workers[0];
    uint64_t copies = 0;
    uint64_t begun_ns = clock_now_ns();
    uint64_t now_ns;
    do {
        for (unsigned i = 0; i < COPIES_AT_ONCE; i++, copies++)
            if (MOIETYI_CALL(host_driver(), cuMemcpyHtoDAsync,
                             (worker->there, worker->ring[0].address,
                              p->block_bytes, worker->stream)) != MOIETY_OK)
                return 0;
        if (MOIETYI_CALL(host_driver(), cuStreamSynchronize,
                         (worker->stream)) != MOIETY_OK)
            return 0;
        now_ns = clock_now_ns();
    } while (now_ns - begun_ns < duration_ns);
    return (double)(copies * p->block_bytes) / (double)(now_ns - begun_ns);
}

/* As many as could be started; then it is a failure if they are not all. */
static unsigned start_threads(struct pipeline *p)
{
    unsigned count = 0;
    while (count < p->worker_count &&
           pthread_create(&p->workers[count].thread, NULL, pipeline_work,
                          &p->workers[count]) == 0)
        count++;
    return count;
}

/* NULL, or why a worker failed. */
static const char *join_threads(struct pipeline *p, uint64_t begun_ns,
                                double *out_gb_s, uint64_t *out_blocks)
{
    const char *why = NULL;
    uint64_t ended_ns = begun_ns + 1;
    *out_blocks = 0;
    for (unsigned i = 0; i < p->worker_count; i++) {
        struct pipeline_worker *worker = &p->workers[i];
        (void)pthread_join(worker->thread, NULL);
        if (worker->has_failed)
            why = worker->why;
        if (worker->ended_ns > ended_ns)
            ended_ns = worker->ended_ns;
        *out_blocks += worker->block_count;
    }
    *out_gb_s =
        (double)(*out_blocks * p->block_bytes) / (double)(ended_ns - begun_ns);
    return why;
}

static const char *run_workers(struct pipeline *p, uint64_t duration_ns,
                               double *out_gb_s, uint64_t *out_blocks)
{
    /* Until they are all there, nobody begins. */
    p->end_ns = UINT64_MAX;
    if (pthread_barrier_init(&p->begin, NULL, p->worker_count + 1) != 0)
        return "no barrier";
    if (start_threads(p) < p->worker_count) {
        /* Those that wait have nobody to wait for: the process ends soon. */
        return "the system starts no more threads";
    }
    uint64_t begun_ns = clock_now_ns();
    p->end_ns = begun_ns + duration_ns;
    (void)pthread_barrier_wait(&p->begin);
    const char *why = join_threads(p, begun_ns, out_gb_s, out_blocks);
    (void)pthread_barrier_destroy(&p->begin);
    return why;
}

static const char *check_all(struct pipeline *p)
{
    struct host_buffer scratch;
    const char *why = NULL;
    if (!host_buffer_alloc(NULL, p->block_bytes, &scratch))
        return moiety_last_error_message();
    for (unsigned i = 0; !why && i < p->worker_count; i++)
        why = pipeline_check(&p->workers[i], &scratch);
    host_buffer_free(&scratch);
    return why;
}

static const char *run(struct pipeline *p, const struct mode *mode,
                       uint64_t cell_ns)
{
    double gb_s;
    uint64_t blocks;
    p->is_ring = mode->is_ring;
    p->is_paced = mode->is_paced;
    p->is_filled = mode->is_filled;
    double before = copy_bare(p, cell_ns);
    const char *why = run_workers(p, RUN_CELLS * cell_ns, &gb_s, &blocks);
    if (!why && mode->is_filled)
        why = check_all(p);
    double after = copy_bare(p, cell_ns);
    if (why)
        return why;
    if (before <= 0 || after <= 0)
        return moiety_last_error_message();
    double bare = (before + after) / 2;
    host_row_count("blocks", blocks);
    host_row_number("gb_s", gb_s);
    host_row_number("bare_before_gb_s", before);
    host_row_number("bare_after_gb_s", after);
    host_row_number("percent_of_bare", gb_s * 100 / bare);
    return NULL;
}

static void begin_row(const struct pipeline *p, const struct mode *mode)
{
    host_row_begin(WHAT, mode->name);
    host_row_flag("fill", mode->is_filled);
    host_row_count("size_bytes", p->block_bytes);
    host_row_count("workers", p->worker_count);
    host_row_count("depth", PIPELINE_DEPTH);
}

static void run_modes(struct pipeline *p, const struct host_options *options)
{
    for (unsigned i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        begin_row(p, &modes[i]);
        if (host_is_over(options)) {
            host_row_skip("no time was left");
            continue;
        }
        const char *why = run(p, &modes[i], options->cell_ms * 1000000);
        if (why)
            host_row_fail(why);
        else
            host_row_end();
    }
}

void host_pipeline(const struct host_options *options)
{
    static struct pipeline p;
    char reason[96];
    p.block_bytes = options->block_mib * HOST_MIB;
    p.worker_count = host_worker_count(options);
    if (host_room_bytes() / 8 * 7 < 2 * all_bytes(&p)) {
        host_row_begin(WHAT, NULL);
        (void)snprintf(reason, sizeof(reason),
                       "it needs %zu MiB, and there are only %" PRIu64,
                       2 * all_bytes(&p) >> 20, host_room_bytes() >> 20);
        host_row_skip(reason);
        return;
    }
    if (open_all(&p)) {
        run_modes(&p, options);
    } else {
        host_row_begin(WHAT, NULL);
        host_row_fail(moiety_last_error_message());
    }
    close_all(&p);
}
