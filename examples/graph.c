/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Memory inside a CUDA graph: what is allocated between the begin and the end
 * of a capture scope stays reserved until the scope is released, so that the
 * graph may run any number of times.
 */
#include <moiety/moiety.h>
#include <moiety/scope.h>

#include <stdio.h>

#include "driver.h"

enum { LAUNCHES = 3, VALUE = 42 };
static const size_t work_bytes = 4096;

/* The nodes of the graph, with scratch memory between them. */
static bool record(moiety_pool *pool, moiety_stream stream, void *result)
{
    moiety_devptr work;
    return did(moiety_alloc(pool, work_bytes, stream, &work), "alloc") &&
           driver_did(cuMemsetD8Async(work, VALUE, work_bytes, stream),
                      "memset") &&
           driver_did(cuMemcpyDtoHAsync(result, work, work_bytes, stream),
                      "copy") &&
           /* May serve later nodes of this capture, and nobody else. */
           did(moiety_free(pool, work, stream), "free");
}

static bool capture(moiety_pool *pool, moiety_stream stream, void *result,
                    moiety_scope *scope, CUgraph *graph)
{
    if (!did(moiety_scope_begin(pool, stream, scope), "scope"))
        return false;
    bool is_good =
        driver_did(cuStreamBeginCapture(stream, CAPTURE_GLOBAL), "begin");
    if (is_good) {
        is_good = record(pool, stream, result);
        /* Also after a failure, or the stream would go on capturing. */
        is_good =
            driver_did(cuStreamEndCapture(stream, graph), "end") && is_good;
    }
    return did(moiety_scope_end(*scope), "scope end") && is_good;
}

static bool launch(moiety_stream stream, CUgraph graph)
{
    CUgraphExec exec;
    if (!driver_did(cuGraphInstantiate(&exec, graph, 0), "instantiate"))
        return false;
    bool is_good = true;
    for (int i = 0; i < LAUNCHES && is_good; i++)
        is_good = driver_did(cuGraphLaunch(exec, stream), "launch");
    is_good = driver_did(cuStreamSynchronize(stream), "wait") && is_good;
    return driver_did(cuGraphExecDestroy(exec), "destroy") && is_good;
}

static bool run(moiety_pool *pool, moiety_stream stream, unsigned char *result)
{
    moiety_scope scope = 0;
    CUgraph graph = NULL;
    bool is_good =
        capture(pool, stream, result, &scope, &graph) && launch(stream, graph);
    if (graph != NULL)
        is_good = driver_did(cuGraphDestroy(graph), "destroy") && is_good;
    /* The program's word that the graph will not be launched again. */
    if (scope != 0)
        is_good = did(moiety_scope_release(scope), "release") && is_good;
    return is_good && result[0] == VALUE && result[work_bytes - 1] == VALUE;
}

int main(void)
{
    moiety_pool *pool;
    moiety_host *arena;
    moiety_stream stream;
    void *result;
    if (!driver_open() || !did(moiety_pool_create(NULL, &pool), "pool") ||
        !did(moiety_host_create(NULL, &arena), "arena") ||
        !did(moiety_host_alloc(arena, work_bytes, MOIETY_HOST_CPU, &result),
             "host alloc") ||
        !driver_did(cuStreamCreate(&stream, NON_BLOCKING), "stream"))
        return 1;
    if (!run(pool, stream, result))
        return 1;
    printf("the graph ran %d times\n", LAUNCHES);
    return did(moiety_pool_retire_stream(pool, stream), "retire") &&
                   driver_did(cuStreamDestroy(stream), "destroy") &&
                   did(moiety_host_destroy(arena, NULL), "destroy") &&
                   did(moiety_pool_destroy(pool, NULL), "destroy")
               ? 0
               : 1;
}
