/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Work of other files of the stand-in on a stream. It owns its argument, so it
 * is done exactly once: also when its context is destroyed first, and by the
 * first launch only when it was captured.
 */
#include <stdlib.h>

#include "pool/standin/base/process.h"
#include "pool/standin/streams/engine_internal.h"
#include "pool/standin/work/capture.h"

struct action {
    unsigned references;
    bool was_run;
    void (*run)(void *argument);
    void *argument;
};

static CUresult run_once(struct work *work)
{
    struct action *action = work->as.action;
    standin_lock();
    bool is_first = !action->was_run;
    action->was_run = true;
    standin_unlock();
    if (is_first)
        action->run(action->argument);
    return CUDA_SUCCESS;
}

static void action_keep(struct work *work)
{
    work->as.action->references++;
}

static void action_drop(struct work *work)
{
    if (--work->as.action->references == 0)
        free(work->as.action);
}

CUresult engine_submit_action(struct CUstream_st *stream,
                              void (*run)(void *argument), void *argument)
{
    CUresult code = launch_refusal(stream);
    if (code != CUDA_SUCCESS)
        return code;
    struct action *action = engine_alloc(sizeof(*action));
    action->references = 1;
    action->run = run;
    action->argument = argument;
    const struct work work = {.run = run_once,
                              .keep = action_keep,
                              .drop = action_drop,
                              .node_type = CU_GRAPH_NODE_TYPE_MEM_FREE,
                              .must_run = true,
                              .as.action = action};
    return launch(stream, &work, NULL);
}
