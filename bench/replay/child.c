/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A subject is started anew for each thing that is measured of it: what looks
 * at its memory, or takes it away, has no part in what a call takes.
 */
#define _GNU_SOURCE
#include "bench/replay/child.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "bench/replay/bisect.h"
#include "bench/replay/row.h"
#include "bench/subjects/lagging.h"

struct job {
    const struct replay_options *options;
    const struct subject *subject;
    struct replay_source source;
    struct subject_setup setup;
    struct replay_timing timing;
    struct replay_footprint footprint;
    struct replay_pieces segments;
    struct replay_pieces blocks;
    uint64_t smallest_limit_bytes;
    struct replay_fit fit;
    uint64_t releases; /* of streams that were held, in the run of the row */
    bool has_map;
};

static const char *time_calls(struct job *job)
{
    const char *why = job->subject->start(&job->setup);
    if (why)
        return why;
    why = replay_run_timed(job->subject, &job->source,
                           job->options->is_concurrent,
                           job->options->touch_pages, &job->timing);
    job->subject->stop();
    job->releases = subject_lag_releases();
    return why;
}

static const char *take_footprint(struct job *job)
{
    job->footprint.sample_room = job->options->samples;
    job->footprint.samples =
        calloc(job->options->samples + 1U, sizeof(*job->footprint.samples));
    if (!job->footprint.samples)
        return "there is no memory for samples";
    const char *why = job->subject->start(&job->setup);
    if (why)
        return why;
    why = replay_run_footprint(job->subject, &job->source, &job->footprint);
    job->subject->stop();
    job->releases = subject_lag_releases();
    return why;
}

static void add_piece(struct replay_pieces *pieces, uint64_t address,
                      uint64_t size_bytes)
{
    if (pieces->count == pieces->room) {
        size_t room = pieces->room ? pieces->room * 2 : 256;
        struct replay_piece *larger =
            realloc(pieces->pieces, room * sizeof(*larger));
        if (!larger)
            abort();
        pieces->pieces = larger;
        pieces->room = room;
    }
    pieces->pieces[pieces->count++] =
        (struct replay_piece){address, size_bytes};
}

static void take_segment(void *context, uint64_t address, uint64_t size_bytes)
{
    struct job *job = context;
    add_piece(&job->segments, address, size_bytes);
}

static int compare(const void *left, const void *right)
{
    uint64_t a = ((const struct replay_piece *)left)->address;
    uint64_t b = ((const struct replay_piece *)right)->address;
    return (a > b) - (a < b);
}

static void sort(struct replay_pieces *pieces)
{
    if (pieces->count)
        qsort(pieces->pieces, pieces->count, sizeof(*pieces->pieces), compare);
}

static void take_map(void *context, const struct replay_block *blocks,
                     uint32_t block_count)
{
    struct job *job = context;
    for (uint32_t i = 0; i < block_count; i++)
        if (blocks[i].address)
            add_piece(&job->blocks, blocks[i].address, blocks[i].size_bytes);
    job->subject->each_segment(take_segment, job);
    sort(&job->segments);
    sort(&job->blocks);
    job->has_map = true;
}

static const char *draw_map(struct job *job)
{
    if (!job->options->is_map || !job->subject->each_segment)
        return NULL;
    const char *why = job->subject->start(&job->setup);
    if (why)
        return why;
    why = replay_run_until(job->subject, &job->source, job->footprint.peak.op,
                           take_map, job);
    job->subject->stop();
    return why;
}

static const char *find_limit(struct job *job)
{
    if (!job->options->is_bisect || !job->subject->has_limit)
        return NULL;
    const char *why = replay_bisect(job->subject, &job->setup, &job->source,
                                    job->footprint.peak.memory.reserved_bytes,
                                    &job->smallest_limit_bytes);
    if (why || !job->options->is_fit ||
        job->smallest_limit_bytes == SUBJECT_UNKNOWN)
        return why;
    return replay_fit_verify(job->subject, &job->setup, &job->source,
                             job->smallest_limit_bytes, &job->fit);
}

static const char *measure(struct job *job)
{
    if (job->options->limit_bytes && !job->subject->has_limit)
        return "it cannot be limited";
    const char *why = time_calls(job);
    if (why || job->options->is_concurrent)
        return why;
    why = take_footprint(job);
    if (!why)
        why = draw_map(job);
    return why ? why : find_limit(job);
}

static void write_row(const struct job *job, const char *refused, FILE *file)
{
    bool is_serial = !job->options->is_concurrent;
    struct replay_row row = {
        .options = job->options,
        .subject = job->subject,
        .source = &job->source,
        .path = job->options->paths[0],
        .refused = refused,
        .timing = &job->timing,
        .footprint = is_serial ? &job->footprint : NULL,
        .segments = job->has_map ? &job->segments : NULL,
        .blocks = job->has_map ? &job->blocks : NULL,
        .smallest_limit_bytes = job->smallest_limit_bytes,
        .fit = job->fit.tried_count ? &job->fit : NULL,
        .releases = job->releases,
    };
    replay_row_write(file, &row);
}

static void set_up(struct job *job, const struct replay_options *options)
{
    job->options = options;
    job->subject =
        subject_lagging(options->subjects.subjects[0], &options->lags.plans[0]);
    job->smallest_limit_bytes = SUBJECT_UNKNOWN;
    job->setup = (struct subject_setup){
        .thread_count = replay_turn_threads(&job->source),
        .stream_count = job->source.about.stream_count,
        .has_any = job->source.about.has_any,
        .limit_bytes = options->limit_bytes,
    };
}

enum replay_exit replay_child_run(const struct replay_options *options,
                                  FILE *file)
{
    static struct job job; /* too large for a stack */
    /* Nobody wants the row once our parent is gone. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    job = (struct job){0};
    if (!replay_source_open(&job.source, options->paths[0], options->threads)) {
        replay_trace_complain(&job.source.trace, options->paths[0]);
        return REPLAY_EXIT_TRACE;
    }
    set_up(&job, options);
    const char *why =
        options->is_concurrent && job.source.run_threads > REPLAY_THREADS_MAX
            ? "the trace has more than 256 threads"
            : measure(&job);
    write_row(&job, why, file);
    free(job.footprint.samples);
    free(job.segments.pieces);
    free(job.blocks.pieces);
    replay_source_close(&job.source);
    return why ? REPLAY_EXIT_FAILED : REPLAY_EXIT_OK;
}
