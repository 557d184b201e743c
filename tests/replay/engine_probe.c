/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/replay/engine_probe.h"

#include "bench/replay/bisect.h"
#include "bench/replay/run.h"

/* Of other memory, before each call that is timed. */
#define TOUCH_PAGES 2U

static const struct subject *subject = &checking_subject;

struct stage {
    struct replay_source source;
    struct subject_setup setup;
};

void engine_use(const struct subject *other)
{
    subject = other;
}

static const char *set_up(struct stage *stage, const char *path,
                          uint32_t threads, uint64_t limit_bytes)
{
    if (!replay_source_open(&stage->source, path, threads))
        return "the trace is wrong";
    stage->setup = (struct subject_setup){
        .thread_count = stage->source.run_threads,
        .stream_count = stage->source.about.stream_count,
        .has_any = stage->source.about.has_any,
        .limit_bytes = limit_bytes,
    };
    const char *why = subject->start(&stage->setup);
    if (why)
        replay_source_close(&stage->source);
    return why;
}

static void take_down(struct stage *stage)
{
    subject->stop();
    replay_source_close(&stage->source);
}

struct engine_found engine_time(const char *path, uint32_t threads,
                                bool is_concurrent, uint64_t limit_bytes)
{
    static struct replay_timing timing; /* too large for a stack */
    struct stage stage;
    struct engine_found found = {0};
    found.why = set_up(&stage, path, threads, limit_bytes);
    if (found.why)
        return found;
    found.why = replay_run_timed(subject, &stage.source, is_concurrent,
                                 TOUCH_PAGES, &timing);
    found.ooms = timing.ooms;
    found.timed_allocs = timing.allocs.total;
    found.timed_frees = timing.frees.total;
    found.wall_ns = timing.wall_ns;
    found.run_threads = stage.source.run_threads;
    take_down(&stage);
    return found;
}

struct engine_found engine_footprint(const char *path, uint64_t samples,
                                     uint64_t limit_bytes)
{
    struct replay_sample room[17];
    struct replay_footprint footprint = {.samples = room,
                                         .sample_room = samples};
    struct stage stage;
    struct engine_found found = {0};
    found.why = set_up(&stage, path, 0, limit_bytes);
    if (found.why)
        return found;
    found.why = replay_run_footprint(subject, &stage.source, &footprint);
    found.ooms = footprint.ooms;
    found.peak_live_bytes = footprint.peak_live_bytes;
    found.peak_reserved_bytes = footprint.peak.memory.reserved_bytes;
    found.peak_op = footprint.peak.op;
    found.driver_calls = footprint.driver_calls;
    found.sample_count = footprint.sample_count;
    for (uint64_t i = 0; i < footprint.sample_count && i < 16; i++) {
        found.sample_ops[i] = room[i].op;
        found.sample_live_bytes[i] = room[i].live_bytes;
    }
    take_down(&stage);
    return found;
}

struct engine_found engine_passes(const char *path, uint64_t limit_bytes)
{
    struct stage stage;
    struct engine_found found = {0};
    found.why = set_up(&stage, path, 0, limit_bytes);
    if (found.why)
        return found;
    found.why = replay_run_passes(subject, &stage.source, &found.does_pass);
    take_down(&stage);
    return found;
}

struct engine_found engine_bisect(const char *path, uint64_t reserved_bytes)
{
    struct stage stage;
    struct engine_found found = {0};
    found.why = set_up(&stage, path, 0, 0);
    if (found.why)
        return found;
    subject->stop();
    found.why = replay_bisect(subject, &stage.setup, &stage.source,
                              reserved_bytes, &found.smallest_limit_bytes);
    replay_source_close(&stage.source);
    return found;
}

struct engine_found engine_fit(const char *path, uint64_t from_bytes)
{
    struct stage stage;
    struct engine_found found = {0};
    found.why = set_up(&stage, path, 0, 0);
    if (found.why)
        return found;
    subject->stop();
    found.why = replay_fit_verify(subject, &stage.setup, &stage.source,
                                  from_bytes, &found.fit);
    replay_source_close(&stage.source);
    return found;
}

static void count_blocks(void *context, const struct replay_block *blocks,
                         uint32_t block_count)
{
    struct engine_found *found = context;
    for (uint32_t i = 0; i < block_count; i++) {
        found->map_block_count += blocks[i].address != 0;
        found->map_block_bytes += blocks[i].address ? blocks[i].size_bytes : 0;
    }
}

struct engine_found engine_until(const char *path, uint64_t op)
{
    struct stage stage;
    struct engine_found found = {0};
    found.why = set_up(&stage, path, 0, 0);
    if (found.why)
        return found;
    found.why =
        replay_run_until(subject, &stage.source, op, count_blocks, &found);
    take_down(&stage);
    return found;
}
