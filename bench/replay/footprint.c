/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Replays without a clock, in the trace's order: each call by a thread of its
 * own, as caches of a thread are part of what an allocator takes.
 */
#include <stdlib.h>

#include "bench/base/team.h"
#include "bench/replay/run.h"

static const char changed[] = "the trace has changed meanwhile";
static const char unusable[] = "a thread cannot use it";

struct walk;

/* Called after each call; false ends the walk. */
typedef bool after_fn(struct walk *walk, const struct replay_op *op);

struct walk {
    const struct subject *subject;
    struct replay_source *source;
    uint32_t threads;
    after_fn *after;
    struct replay_footprint *out; /* after's */
    uint64_t last_op;             /* after's */
    struct replay_block *blocks;  /* by their numbers; address 0: none */
    bool *are_attached;           /* by threads */
    uint32_t next;                /* of the window's calls */
    uint64_t op;                  /* calls that are done */
    uint64_t live_bytes;
    uint64_t ooms;
    const char *why; /* it cannot go on; or NULL */
    bool is_over;
};

static uint32_t thread_of(const struct walk *walk, const struct replay_op *op)
{
    return op->thread % walk->threads;
}

static void begin(struct walk *walk)
{
    struct replay_source *source = walk->source;
    walk->threads = replay_turn_threads(source);
    if (!replay_source_rewind(source)) {
        walk->why = changed;
        return;
    }
    walk->blocks = calloc(source->block_room, sizeof(*walk->blocks));
    walk->are_attached = calloc(walk->threads, sizeof(*walk->are_attached));
    if (!walk->blocks || !walk->are_attached)
        walk->why = "there is no memory to replay it";
    /* The calling thread looks at what is left, and frees it. */
    else if (walk->subject->attach && !walk->subject->attach(0))
        walk->why = unusable;
}

static void end(struct walk *walk)
{
    for (uint32_t i = 0; walk->blocks && i < walk->source->next_block; i++)
        if (walk->blocks[i].address)
            walk->subject->free(0, walk->blocks[i].address,
                                walk->blocks[i].size_bytes,
                                SUBJECT_STREAM_DONE);
    free(walk->are_attached);
    free(walk->blocks);
}

/* What comes behind the call, which allocated the block or freed it. */
static void follow(const struct walk *walk, const struct replay_op *op,
                   bool was_live)
{
    uint64_t address = walk->blocks[op->block].address;
    if (walk->subject->follow && (address || was_live))
        walk->subject->follow(thread_of(walk, op), op->stream, address,
                              op->size_bytes);
}

static void step(struct walk *walk, const struct replay_op *op)
{
    struct replay_block *block = &walk->blocks[op->block];
    uint32_t thread = thread_of(walk, op);
    bool was_live = block->address != 0;
    walk->op++;
    if (op->is_alloc) {
        block->address =
            walk->subject->alloc(thread, op->size_bytes, op->stream);
        block->size_bytes = op->size_bytes;
        walk->ooms += block->address == 0;
        walk->live_bytes += block->address ? op->size_bytes : 0;
    } else if (block->address) {
        walk->subject->free(thread, block->address, op->size_bytes, op->stream);
        walk->live_bytes -= op->size_bytes;
        block->address = 0;
    }
    follow(walk, op, was_live);
}

/* The next call; NULL: there is none. */
static const struct replay_op *next_op(struct walk *walk)
{
    struct replay_source *source = walk->source;
    if (walk->why || walk->is_over)
        return NULL;
    if (walk->next == source->op_count) {
        enum replay_result result = replay_source_next(source);
        if (result == REPLAY_WRONG)
            walk->why = changed;
        if (result != REPLAY_MORE)
            return NULL;
        walk->next = 0;
    }
    return &source->ops[walk->next];
}

static bool attach(struct walk *walk, uint32_t thread)
{
    if (!walk->are_attached[thread] && walk->subject->attach &&
        !walk->subject->attach(thread))
        walk->why = unusable;
    walk->are_attached[thread] = !walk->why;
    return !walk->why;
}

/* The calls of one thread, up to the next one's. */
static uint32_t play(void *context, uint32_t thread)
{
    struct walk *walk = context;
    const struct replay_op *op = NULL;
    while (attach(walk, thread) && (op = next_op(walk)) &&
           thread_of(walk, op) == thread) {
        step(walk, op);
        walk->is_over = !walk->after(walk, op);
        walk->next++;
    }
    return op ? thread_of(walk, op) : TEAM_OVER;
}

/* Up to where `after` ends it. What is live is still there, until end(). */
static void run(struct walk *walk)
{
    begin(walk);
    const struct replay_op *op = next_op(walk);
    if (op)
        team_take_turns(play, walk, thread_of(walk, op), walk->threads);
}

/* The sample with the number k is of the first call at or behind its share of
 * the trace. */
static bool is_due(const struct walk *walk, const struct replay_footprint *out)
{
    uint64_t count = walk->source->about.call_count;
    return out->sample_count < out->sample_room &&
           walk->op * out->sample_room >= out->sample_count * count;
}

/* Whether more is reserved than at the peak so far. */
static bool is_peak(const struct walk *walk, const struct replay_op *op,
                    const struct replay_footprint *out)
{
    struct subject_memory memory;
    if (!op->is_alloc || out->peak.memory.reserved_bytes == SUBJECT_UNKNOWN)
        return false;
    if (walk->subject->reserved_bytes)
        return walk->subject->reserved_bytes() >
               out->peak.memory.reserved_bytes;
    walk->subject->measure(&memory);
    return memory.reserved_bytes > out->peak.memory.reserved_bytes;
}

static bool look(struct walk *walk, const struct replay_op *op)
{
    struct replay_footprint *out = walk->out;
    bool is_sampled = is_due(walk, out);
    bool is_highest = is_peak(walk, op, out);
    if (walk->live_bytes > out->peak_live_bytes)
        out->peak_live_bytes = walk->live_bytes;
    if (!is_highest && !is_sampled)
        return true;
    struct replay_sample now = {
        .op = walk->op, .time_ns = op->time_ns, .live_bytes = walk->live_bytes};
    walk->subject->measure(&now.memory);
    if (is_highest)
        out->peak = now;
    if (is_sampled)
        out->samples[out->sample_count++] = now;
    return true;
}

const char *replay_run_footprint(const struct subject *subject,
                                 struct replay_source *source,
                                 struct replay_footprint *out)
{
    struct walk walk = {
        .subject = subject, .source = source, .after = look, .out = out};
    run(&walk);
    struct subject_memory memory;
    subject->measure(&memory);
    out->driver_calls = memory.driver_calls;
    out->ooms = walk.ooms;
    end(&walk);
    return walk.why;
}

static bool passes(struct walk *walk, const struct replay_op *op)
{
    (void)op;
    return walk->ooms == 0;
}

const char *replay_run_passes(const struct subject *subject,
                              struct replay_source *source, bool *out)
{
    struct walk walk = {.subject = subject, .source = source, .after = passes};
    run(&walk);
    *out = walk.ooms == 0;
    end(&walk);
    return walk.why;
}

static bool is_before_last(struct walk *walk, const struct replay_op *op)
{
    (void)op;
    return walk->op < walk->last_op;
}

const char *replay_run_until(const struct subject *subject,
                             struct replay_source *source, uint64_t op,
                             replay_look *at, void *context)
{
    struct walk walk = {.subject = subject,
                        .source = source,
                        .after = is_before_last,
                        .last_op = op,
                        .is_over = op == 0};
    run(&walk);
    if (!walk.why)
        at(context, walk.blocks, source->next_block);
    end(&walk);
    return walk.why;
}
