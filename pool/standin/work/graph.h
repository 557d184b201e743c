/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Graphs: nodes in the order of their making, which respects what they depend
 * on, and the frozen copies that are launched.
 *
 * All functions: lock held.
 */
#ifndef MOIETY_POOL_STANDIN_WORK_GRAPH_H_
#define MOIETY_POOL_STANDIN_WORK_GRAPH_H_

#include "pool/standin/work/op.h"

struct CUgraphNode_st {
    CUgraphNode handle;
    struct CUgraph_st *graph;
    size_t index; /* in graph->nodes */
    struct work work;
    struct node_set after;
};

struct CUgraph_st {
    CUgraph handle;
    struct CUgraphNode_st **nodes;
    size_t count, capacity;
    bool is_capturing; /* still grows: may not be destroyed or launched */
};

/* What an executable graph runs; shared with its launches under way. */
struct graph_body {
    unsigned references;
    size_t count;
    struct work works[];
};

struct CUgraphExec_st {
    CUgraphExec handle;
    struct graph_body *body;
    struct op *last; /* referenced: launches of one graph follow each other */
};

/* NULL: no memory or no handle. */
struct CUgraph_st *graph_make(void);
void graph_free(struct CUgraph_st *graph);
/* Takes over what `work` owns. NULL as above: then that is the caller's. */
struct CUgraphNode_st *graph_add(struct CUgraph_st *graph,
                                 const struct work *work,
                                 const struct node_set *after);
struct graph_body *graph_freeze(const struct CUgraph_st *graph);
void graph_body_unref(struct graph_body *body);
/* The launch of `body` as one operation; takes a reference. */
struct work graph_work(struct graph_body *body);

struct CUgraphNode_st *graph_node(CUgraphNode handle);

void node_set_add(struct node_set *set, CUgraphNode node);
void node_set_add_all(struct node_set *set, const struct node_set *more);
void node_set_clear(struct node_set *set);
void node_set_free(struct node_set *set);

#endif
