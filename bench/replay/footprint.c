/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Replays without a clock, on the calling thread, in the trace's order.
 */
#include <stdlib.h>

#include "bench/replay/run.h"

static const char changed[] = "the trace has changed meanwhile";

struct walk {
    const struct subject *subject;
    struct replay_source *source;
    struct replay_block *blocks; /* by their numbers; address 0: none */
    uint64_t op;                 /* calls that are done */
    uint64_t live_bytes;
    uint64_t ooms;
};

static const char *begin(struct walk *walk, const struct subject *subject,
                         struct replay_source *source)
{
    *walk = (struct walk){.subject = subject, .source = source};
    if (!replay_source_rewind(source))
        return changed;
    walk->blocks = calloc(source->block_room, sizeof(*walk->blocks));
    if (!walk->blocks)
        return "there is no memory to replay it";
    return subject->attach && !subject->attach(0) ? "a thread cannot use it"
                                                  : NULL;
}

static void end(struct walk *walk)
{
    for (uint32_t i = 0; walk->blocks && i < walk->source->next_block; i++)
        if (walk->blocks[i].address)
            walk->subject->free(0, walk->blocks[i].address,
                                walk->blocks[i].size_bytes,
                                SUBJECT_STREAM_DONE);
    free(walk->blocks);
}

/* What comes behind the call, which allocated the block or freed it. */
static void follow(const struct walk *walk, const struct replay_op *op,
                   bool was_live)
{
    uint64_t address = walk->blocks[op->block].address;
    if (walk->subject->follow && (address || was_live))
        walk->subject->follow(0, op->stream, address, op->size_bytes);
}

static void step(struct walk *walk, const struct replay_op *op)
{
    struct replay_block *block = &walk->blocks[op->block];
    bool was_live = block->address != 0;
    walk->op++;
    if (op->is_alloc) {
        block->address = walk->subject->alloc(0, op->size_bytes, op->stream);
        block->size_bytes = op->size_bytes;
        walk->ooms += block->address == 0;
        walk->live_bytes += block->address ? op->size_bytes : 0;
    } else if (block->address) {
        walk->subject->free(0, block->address, op->size_bytes, op->stream);
        walk->live_bytes -= op->size_bytes;
        block->address = 0;
    }
    follow(walk, op, was_live);
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

static void look(struct walk *walk, const struct replay_op *op,
                 struct replay_footprint *out)
{
    bool is_sampled = is_due(walk, out);
    bool is_highest = is_peak(walk, op, out);
    if (walk->live_bytes > out->peak_live_bytes)
        out->peak_live_bytes = walk->live_bytes;
    if (!is_highest && !is_sampled)
        return;
    struct replay_sample now = {
        .op = walk->op, .time_ns = op->time_ns, .live_bytes = walk->live_bytes};
    walk->subject->measure(&now.memory);
    if (is_highest)
        out->peak = now;
    if (is_sampled)
        out->samples[out->sample_count++] = now;
}

const char *replay_run_footprint(const struct subject *subject,
                                 struct replay_source *source,
                                 struct replay_footprint *out)
{
    struct walk walk;
    const char *why = begin(&walk, subject, source);
    enum replay_result result = REPLAY_END;
    while (!why && (result = replay_source_next(source)) == REPLAY_MORE) {
        for (uint32_t i = 0; i < source->op_count; i++) {
            step(&walk, &source->ops[i]);
            look(&walk, &source->ops[i], out);
        }
    }
    struct subject_memory memory;
    subject->measure(&memory);
    out->driver_calls = memory.driver_calls;
    out->ooms = walk.ooms;
    end(&walk);
    return result == REPLAY_WRONG ? changed : why;
}

const char *replay_run_passes(const struct subject *subject,
                              struct replay_source *source, bool *out)
{
    struct walk walk;
    const char *why = begin(&walk, subject, source);
    enum replay_result result = REPLAY_END;
    while (!why && walk.ooms == 0 &&
           (result = replay_source_next(source)) == REPLAY_MORE)
        for (uint32_t i = 0; i < source->op_count && walk.ooms == 0; i++)
            step(&walk, &source->ops[i]);
    *out = walk.ooms == 0;
    end(&walk);
    return result == REPLAY_WRONG ? changed : why;
}

const char *replay_run_until(const struct subject *subject,
                             struct replay_source *source, uint64_t op,
                             replay_look *at, void *context)
{
    struct walk walk;
    const char *why = begin(&walk, subject, source);
    enum replay_result result = REPLAY_END;
    while (!why && walk.op < op &&
           (result = replay_source_next(source)) == REPLAY_MORE)
        for (uint32_t i = 0; i < source->op_count && walk.op < op; i++)
            step(&walk, &source->ops[i]);
    if (!why)
        at(context, walk.blocks, source->next_block);
    end(&walk);
    return result == REPLAY_WRONG ? changed : why;
}
