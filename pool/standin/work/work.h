/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What one operation, or one node of a graph, does. Plain data that is copied
 * into nodes and from them into every launch; what it owns is counted through
 * keep() and drop().
 */
#ifndef MOIETY_POOL_STANDIN_WORK_WORK_H_
#define MOIETY_POOL_STANDIN_WORK_WORK_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/driver/cuda_abi.h"

struct graph_body; /* graph.c */
struct action;     /* action.c */

struct copy {
    CUdeviceptr dst, src;
    size_t width_bytes, height;
    size_t dst_pitch_bytes, src_pitch_bytes;
    void *staged; /* owned: the source's bytes at the time of the call */
};

struct fill {
    CUdeviceptr dst;
    size_t pitch_bytes;
    size_t element_bytes; /* 1, 2 or 4 */
    size_t width, height; /* in elements, in rows */
    uint32_t value;
};

struct host_call {
    CUhostFn function;
    CUstreamCallback callback; /* when `function` is NULL */
    CUstream stream;           /* what the callback is told */
    void *user_data;
};

struct value {
    CUdeviceptr address;
    size_t size_bytes; /* 4 or 8 */
    uint64_t operand;
    unsigned condition;       /* CUstreamWaitValue_flags */
    struct CUctx_st *context; /* of the stream it was queued on */
};

struct timer {
    uint64_t delay_ns;
    uint64_t due_ns; /* 0 until the wait begins */
};

struct work {
    /* No lock held; NULL: nothing to do. */
    CUresult (*run)(struct work *work);
    /* Lock held; not NULL: the operation is over when this says true. */
    bool (*test)(struct work *work, CUresult *out_code);
    /* Lock held; NULL where nothing is owned. */
    void (*keep)(struct work *work);
    void (*drop)(struct work *work);
    CUgraphNodeType node_type;
    bool may_block;      /* runs for as long as a user likes */
    bool must_run;       /* even when its context is destroyed first */
    bool takes_no_place; /* of its stream's launch queue */
    union {
        struct copy copy;
        struct fill fill;
        struct host_call host;
        struct value value;
        struct timer timer;
        struct action *action;
        struct graph_body *body;
    } as;
};

#endif
