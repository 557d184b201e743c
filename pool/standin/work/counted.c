/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Operations and streams as counted objects, and the memory and time they take.
 * A file apart from op.c: an analyzer that sees both takes the count for a plain
 * free.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "pool/standin/work/op.h"

const struct work op_marker = {.node_type = CU_GRAPH_NODE_TYPE_EMPTY};

void *engine_alloc(size_t size_bytes)
{
    void *memory = calloc(1, size_bytes);
    if (!memory) {
        (void)fprintf(stderr, "moiety stand-in: out of host memory\n");
        abort();
    }
    return memory;
}

uint64_t engine_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

struct op *op_make(struct engine *engine, const struct work *work)
{
    struct op *op = engine_alloc(sizeof(*op));
    op->references = 2;  /* the caller's, and the engine's until it is done */
    op->unmet_count = 1; /* op_start() */
    op->engine = engine;
    op->work = *work;
    op->live_next = engine->live;
    if (engine->live)
        engine->live->live_previous = op;
    engine->live = op;
    return op;
}

void op_unref(struct op *op)
{
    if (op && --op->references == 0)
        free(op);
}

static void unlink_from_engine(struct CUstream_st *stream)
{
    if (stream->previous)
        stream->previous->next = stream->next;
    else
        stream->engine->streams = stream->next;
    if (stream->next)
        stream->next->previous = stream->previous;
}

void stream_unref(struct CUstream_st *stream)
{
    if (--stream->references != 0)
        return;
    unlink_from_engine(stream);
    op_unref(stream->late);
    free(stream->capture_tail.nodes);
    free(stream);
}
