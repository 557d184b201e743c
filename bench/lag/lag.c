/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/lag/lag.h"

#include <stdalign.h>
#include <stdio.h>

#include <moiety/status.h>

#include "bench/base/device.h"
#include "bench/lag/hold.h"
#include "bench/lag/work.h"
#include "pool/driver/driver_table.h"

/* A line each: one thread counts here while others do. */
struct caller {
    alignas(64) uint32_t calls; /* since it waited for its stream */
};

static struct {
    struct lag_plan plan;
    const struct moietyi_driver *driver;
    CUdevice device;
    uint64_t releases; /* of a hold that is over */
    bool is_begun;
    struct caller callers[LAG_THREADS_MAX];
} lag;

static char reason[1024];

static moiety_status enter_context(void)
{
    CUcontext context;
    moiety_status status = moietyi_driver_open(&lag.driver);
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(lag.driver, cuInit, (0));
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(lag.driver, cuDeviceGet, (&lag.device, 0));
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(lag.driver, cuDevicePrimaryCtxRetain,
                              (&context, lag.device));
    if (status != MOIETY_OK)
        return status;
    status = MOIETYI_CALL(lag.driver, cuCtxSetCurrent, (context));
    if (status != MOIETY_OK)
        lag_drop();
    return status;
}

const char *lag_prepare(const struct lag_plan *plan)
{
    lag.plan = *plan;
    lag.releases = 0;
    lag.is_begun = false;
    if (enter_context() != MOIETY_OK) {
        (void)snprintf(reason, sizeof(reason), "%s",
                       moiety_last_error_message());
        return reason;
    }
    const char *why = lag_work_start(&lag.plan, !lag.driver->is_standin);
    if (why)
        (void)lag.driver->cuDevicePrimaryCtxRelease(lag.device);
    return why;
}

const char *lag_begin(unsigned thread_count, unsigned stream_count)
{
    if (thread_count > LAG_THREADS_MAX)
        return "a device lags for 8192 threads at the most";
    for (unsigned i = 0; i < thread_count; i++)
        lag.callers[i].calls = 0;
    const char *why =
        lag.plan.is_held ? lag_hold_start(thread_count, stream_count) : NULL;
    lag.is_begun = !why;
    return why;
}

void lag_enter(unsigned thread)
{
    if (lag.plan.is_held)
        lag_hold_enter(thread);
}

void lag_leave(unsigned thread)
{
    if (lag.plan.is_held)
        lag_hold_leave(thread);
}

bool lag_give_way(void)
{
    if (lag.plan.is_held)
        lag_hold_give_way();
    return lag.plan.is_held;
}

void lag_resume(void)
{
    lag_hold_resume();
}

void lag_follow(unsigned thread, unsigned stream, uint64_t address,
                size_t size_bytes)
{
    if (!lag.plan.has_work)
        return;
    lag_work_queue(&lag.plan, bench_device_streams[stream], address,
                   size_bytes);
    if (!lag.plan.sync_every ||
        ++lag.callers[thread].calls < lag.plan.sync_every)
        return;
    lag.callers[thread].calls = 0;
    (void)lag.driver->cuStreamSynchronize(bench_device_streams[stream]);
}

uint64_t lag_releases(void)
{
    return lag.plan.is_held && lag.is_begun ? lag_hold_releases()
                                            : lag.releases;
}

void lag_end(void)
{
    if (lag.plan.is_held) {
        lag.releases = lag_hold_releases();
        lag_hold_stop();
    }
    lag.is_begun = false;
    (void)lag.driver->cuCtxSynchronize();
}

void lag_drop(void)
{
    lag_work_stop();
    (void)lag.driver->cuDevicePrimaryCtxRelease(lag.device);
}
