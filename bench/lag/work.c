/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "bench/lag/work.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "pool/driver/driver_table.h"

#define SCRATCH_BYTES ((size_t)256 << 20)
/* Of the memory that is free, at most. */
#define SCRATCH_PART 8U
#define SMALL_BYTES ((size_t)4096)
#define SMALL_TRIES 200U
#define LARGE_TRIES 20U

static const struct moietyi_driver *driver;

/* What work of `work_us` is made of; address 0 where a function sleeps. */
static struct {
    CUdeviceptr address;
    size_t whole_bytes; /* of a fill that is repeated */
    uint32_t whole_count;
    size_t rest_bytes; /* of one more fill; 0: there is none */
} scratch;

static void demand(CUresult code, const char *call)
{
    if (code == CUDA_SUCCESS)
        return;
    (void)fprintf(stderr, "lag: %s returned %d\n", call, (int)code);
    abort();
}

static void fill(CUdeviceptr address, size_t size_bytes, void *stream)
{
    demand(driver->cuMemsetD8Async(address, 1, size_bytes, stream),
           "cuMemsetD8Async");
}

/* What one of so many fills takes, one behind the other. */
static double fill_ns(size_t size_bytes, unsigned tries)
{
    CUevent begin;
    CUevent end;
    float took_ms = 0;
    demand(driver->cuEventCreate(&begin, 0), "cuEventCreate");
    demand(driver->cuEventCreate(&end, 0), "cuEventCreate");
    fill(scratch.address, size_bytes, NULL);
    demand(driver->cuEventRecord(begin, NULL), "cuEventRecord");
    for (unsigned i = 0; i < tries; i++)
        fill(scratch.address, size_bytes, NULL);
    demand(driver->cuEventRecord(end, NULL), "cuEventRecord");
    demand(driver->cuEventSynchronize(end), "cuEventSynchronize");
    demand(driver->cuEventElapsedTime(&took_ms, begin, end),
           "cuEventElapsedTime");
    (void)driver->cuEventDestroy(begin);
    (void)driver->cuEventDestroy(end);
    return (double)took_ms * 1e6 / tries;
}

/* A fill takes a time of its own and one for each byte. */
static void plan_fills(double wanted_ns)
{
    double small_ns = fill_ns(SMALL_BYTES, SMALL_TRIES);
    double large_ns = fill_ns(scratch.whole_bytes, LARGE_TRIES);
    double byte_ns =
        (large_ns - small_ns) / (double)(scratch.whole_bytes - SMALL_BYTES);
    scratch.whole_count = (uint32_t)(wanted_ns / large_ns);
    double rest_ns = wanted_ns - scratch.whole_count * large_ns;
    scratch.rest_bytes = 0;
    if (rest_ns > small_ns && byte_ns > 0)
        scratch.rest_bytes = (size_t)((rest_ns - small_ns) / byte_ns);
    if (scratch.rest_bytes < SMALL_BYTES && scratch.whole_count == 0)
        scratch.rest_bytes = SMALL_BYTES;
}

static const char *make_scratch(void)
{
    size_t free_bytes;
    size_t total_bytes;
    scratch.whole_bytes = SCRATCH_BYTES;
    if (driver->cuMemGetInfo(&free_bytes, &total_bytes) != CUDA_SUCCESS)
        return "the device does not tell its memory";
    if (free_bytes / SCRATCH_PART < scratch.whole_bytes)
        scratch.whole_bytes = free_bytes / SCRATCH_PART;
    if (scratch.whole_bytes <= 2 * SMALL_BYTES ||
        driver->cuMemAlloc(&scratch.address, scratch.whole_bytes) !=
            CUDA_SUCCESS)
        return "the device has no memory for work to be done on";
    return NULL;
}

const char *lag_work_start(const struct lag_plan *plan, bool by_fills)
{
    driver = moietyi_driver_opened();
    scratch.address = 0;
    if (!plan->has_work || !by_fills)
        return NULL;
    const char *why = make_scratch();
    if (!why)
        plan_fills((double)plan->work_us * 1000);
    return why;
}

/* Called by the stand-in, in the place of work. */
static void sleep_us(void *argument)
{
    long duration_us = (long)(intptr_t)argument;
    const struct timespec duration = {.tv_sec = duration_us / 1000000,
                                      .tv_nsec = duration_us % 1000000 * 1000};
    /* Else the kernel adds about 50 us. */
    (void)prctl(PR_SET_TIMERSLACK, 1);
    if (duration_us > 0)
        (void)nanosleep(&duration, NULL);
}

static void queue_scratch(void *stream)
{
    for (uint32_t i = 0; i < scratch.whole_count; i++)
        fill(scratch.address, scratch.whole_bytes, stream);
    if (scratch.rest_bytes)
        fill(scratch.address, scratch.rest_bytes, stream);
}

void lag_work_queue(const struct lag_plan *plan, void *stream, uint64_t address,
                    size_t size_bytes)
{
    for (uint32_t i = 0; address && i < plan->fill_count; i++)
        fill(address, size_bytes, stream);
    if (plan->fill_count && !plan->work_us)
        return;
    if (scratch.address)
        queue_scratch(stream);
    else
        demand(driver->cuLaunchHostFunc(stream, sleep_us,
                                        (void *)(intptr_t)plan->work_us),
               "cuLaunchHostFunc");
}

void lag_work_stop(void)
{
    if (scratch.address)
        (void)driver->cuMemFree(scratch.address);
    scratch.address = 0;
}
