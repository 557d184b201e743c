/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L /* setenv */

#include "tests/support/tools/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "moiety/stream.h"
#include "pool/driver/cuda_abi.h"
#include "tests/support/driver_probe.h"

static struct {
    CUresult (*init)(unsigned);
    CUresult (*retain)(CUcontext *, CUdevice);
    CUresult (*set_current)(CUcontext);
    CUresult (*synchronize)(void);
    CUresult (*launch_host)(CUstream, void (*)(void *), void *);
    CUresult (*stream_create)(CUstream *, unsigned);
    CUresult (*stream_destroy)(CUstream);
    CUresult (*begin_capture)(CUstream, CUstreamCaptureMode);
    CUresult (*end_capture)(CUstream, CUgraph *);
    CUresult (*graph_destroy)(CUgraph);
    CUresult (*event_create)(CUevent *, unsigned);
    CUresult (*event_destroy)(CUevent);
    CUresult (*event_record)(CUevent, CUstream);
    CUresult (*event_query)(CUevent);
    int (*hold)(void *);
    int (*release)(void *);
    uint64_t (*calls)(const char *);
    int64_t (*live)(const char *);
    CUcontext context;
} cu;

/* ISO C has no conversion between the two kinds of pointers. */
static bool found(void *out, void *function, const char *name)
{
    memcpy(out, &function, sizeof(function));
    if (!function)
        (void)fprintf(stderr, "the stand-in has no %s\n", name);
    return function != NULL;
}

static bool entry(void *out, const char *name)
{
    return found(out, driver_probe_function(name), name);
}

static bool control(void *out, const char *name)
{
    return found(out, driver_probe_symbol(name), name);
}

static bool resolve(void)
{
    return entry(&cu.init, "cuInit") &&
           entry(&cu.retain, "cuDevicePrimaryCtxRetain") &&
           entry(&cu.set_current, "cuCtxSetCurrent") &&
           entry(&cu.synchronize, "cuCtxSynchronize") &&
           entry(&cu.launch_host, "cuLaunchHostFunc") &&
           entry(&cu.stream_create, "cuStreamCreate") &&
           entry(&cu.stream_destroy, "cuStreamDestroy") &&
           entry(&cu.begin_capture, "cuStreamBeginCapture") &&
           entry(&cu.end_capture, "cuStreamEndCapture") &&
           entry(&cu.graph_destroy, "cuGraphDestroy") &&
           entry(&cu.event_create, "cuEventCreate") &&
           entry(&cu.event_destroy, "cuEventDestroy") &&
           entry(&cu.event_record, "cuEventRecord") &&
           entry(&cu.event_query, "cuEventQuery") &&
           control(&cu.hold, "moiety_standin_hold") &&
           control(&cu.release, "moiety_standin_release") &&
           control(&cu.calls, "moiety_standin_calls") &&
           control(&cu.live, "moiety_standin_live");
}

/* The library lies in the root of the test's runfiles. */
static bool name_driver(void)
{
    char path[4096];
    if (!getcwd(path, sizeof(path) - 32))
        return false;
    strcat(path, "/pool/standin/libcuda.so.1");
    return setenv("MOIETY_DRIVER", path, 1) == 0;
}

/* Once per process. */
static bool open_driver(void)
{
    if (!name_driver() || driver_probe_open() != MOIETY_OK || !resolve()) {
        (void)fprintf(stderr, "the stand-in cannot be opened\n");
        return false;
    }
    return cu.init(0) == CUDA_SUCCESS &&
           cu.retain(&cu.context, 0) == CUDA_SUCCESS &&
           cu.set_current(cu.context) == CUDA_SUCCESS;
}

bool stage_open(void)
{
    static bool is_open;
    if (!is_open)
        is_open = open_driver();
    return is_open && stage_enter();
}

bool stage_enter(void)
{
    return cu.set_current(cu.context) == CUDA_SUCCESS;
}

static bool create(struct stage_stream *stream)
{
    CUstream handle;
    if (cu.stream_create(&handle, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return false;
    *stream = (struct stage_stream){.handle = handle};
    return true;
}

bool stage_init(struct stage *stage)
{
    *stage = (struct stage){0};
    stage->streams[STAGE_LEGACY].handle = MOIETY_STREAM_LEGACY;
    stage->streams[STAGE_PER_THREAD].handle = MOIETY_STREAM_PER_THREAD;
    for (unsigned i = 0; i < STAGE_CREATED; i++)
        if (!create(&stage->streams[i]))
            return false;
    return true;
}

void stage_fini(struct stage *stage)
{
    unsigned capturing = stage_capturing(stage);
    if (capturing < STAGE_STREAMS)
        (void)stage_end_capture(stage, capturing);
    for (unsigned i = 0; i < STAGE_STREAMS; i++)
        if (stage->streams[i].is_held)
            (void)stage_release(stage, i);
    (void)stage_settle();
    for (unsigned i = 0; i < STAGE_CREATED; i++)
        (void)cu.stream_destroy(stage->streams[i].handle);
}

stage_mask stage_pending(const struct stage *stage, unsigned index)
{
    const struct stage_stream *stream = &stage->streams[index];
    return (stage_mask)((stream->is_held ? stage_bit(index) : 0) |
                        stream->waits_for);
}

stage_mask stage_all_pending(const struct stage *stage)
{
    stage_mask mask = 0;
    for (unsigned i = 0; i < STAGE_STREAMS; i++)
        mask |= stage_pending(stage, i);
    return mask;
}

/* Work that touches no memory: that of two streams may run at once. */
static void idle(void *unused)
{
    (void)unused;
}

bool stage_hold(struct stage *stage, unsigned index)
{
    struct stage_stream *stream = &stage->streams[index];
    stream->is_held = cu.hold(stream->handle) == 0;
    return stream->is_held &&
           cu.launch_host(stream->handle, idle, NULL) == CUDA_SUCCESS;
}

bool stage_release(struct stage *stage, unsigned index)
{
    for (unsigned i = 0; i < STAGE_STREAMS; i++)
        stage->streams[i].waits_for &= (stage_mask)~stage_bit(index);
    stage->streams[index].is_held = false;
    return cu.release(stage->streams[index].handle) == 0;
}

bool stage_settle(void)
{
    return cu.synchronize() == CUDA_SUCCESS;
}

bool stage_replace(struct stage *stage, unsigned index)
{
    return cu.stream_destroy(stage->streams[index].handle) == CUDA_SUCCESS &&
           create(&stage->streams[index]);
}

bool stage_begin_capture(struct stage *stage, unsigned index)
{
    struct stage_stream *stream = &stage->streams[index];
    stream->is_capturing =
        cu.begin_capture(stream->handle, CU_STREAM_CAPTURE_MODE_RELAXED) ==
        CUDA_SUCCESS;
    return stream->is_capturing;
}

bool stage_end_capture(struct stage *stage, unsigned index)
{
    CUgraph graph = NULL;
    stage->streams[index].is_capturing = false;
    return cu.end_capture(stage->streams[index].handle, &graph) ==
               CUDA_SUCCESS &&
           cu.graph_destroy(graph) == CUDA_SUCCESS;
}

unsigned stage_capturing(const struct stage *stage)
{
    unsigned index = 0;
    while (index < STAGE_STREAMS && !stage->streams[index].is_capturing)
        index++;
    return index;
}

moiety_event stage_record(const struct stage *stage, unsigned index)
{
    CUevent event;
    if (cu.event_create(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return NULL;
    if (cu.event_record(event, stage->streams[index].handle) == CUDA_SUCCESS)
        return event;
    stage_forget(event);
    return NULL;
}

bool stage_is_over(moiety_event event)
{
    return cu.event_query(event) == CUDA_SUCCESS;
}

void stage_forget(moiety_event event)
{
    (void)cu.event_destroy(event);
}

uint64_t stage_stream_waits(void)
{
    return cu.calls("cuStreamWaitEvent");
}

int64_t stage_live_objects(void)
{
    return cu.live("streams") + cu.live("events") + cu.live("graphs") +
           cu.live("contexts");
}
