/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/subjects/lagging.h"

#include "bench/base/device.h"
#include "bench/lag/lag.h"

static const struct subject *inner;
static struct subject lagging;
static struct lag_plan plan;

static const char *start_inner(const struct subject_setup *setup)
{
    struct subject_setup wanted = *setup;
    wanted.needs_streams = true;
    const char *why = inner->start(&wanted);
    if (why)
        return why;
    why = lag_begin(setup->thread_count, setup->stream_count);
    if (why)
        inner->stop();
    return why;
}

static const char *start(const struct subject_setup *setup)
{
    if (plan.is_held && inner->waits_to_free)
        return "each of its frees would wait for streams that are held";
    /* Its figures would be of a program that overwrites what is in use. */
    if (setup->has_any && !inner->keeps_any)
        return "the trace names no stream, and this subject would reuse memory "
               "that queued work still uses";
    const char *why = lag_prepare(&plan);
    if (why)
        return why;
    why = start_inner(setup);
    if (why)
        lag_drop();
    return why;
}

static bool attach(uint32_t thread)
{
    return (!inner->attach || inner->attach(thread)) &&
           bench_device_attach(thread);
}

static uint64_t try_alloc(uint32_t thread, size_t size_bytes, uint32_t stream)
{
    lag_enter(thread);
    uint64_t address = inner->alloc(thread, size_bytes, stream);
    lag_leave(thread);
    return address;
}

static uint64_t alloc(uint32_t thread, size_t size_bytes, uint32_t stream)
{
    uint64_t address = try_alloc(thread, size_bytes, stream);
    if (address || !lag_give_way())
        return address;
    address = try_alloc(thread, size_bytes, stream);
    lag_resume();
    return address;
}

static void free_block(uint32_t thread, uint64_t address, size_t size_bytes,
                       uint32_t stream)
{
    lag_enter(thread);
    inner->free(thread, address, size_bytes, stream);
    lag_leave(thread);
}

static void follow(uint32_t thread, uint32_t stream, uint64_t address,
                   size_t size_bytes)
{
    if (stream < SUBJECT_STREAM_DONE)
        lag_follow(thread, stream, address, size_bytes);
}

static void stop(void)
{
    lag_end();
    inner->stop();
    lag_drop();
}

const struct subject *subject_lagging(const struct subject *subject,
                                      const struct lag_plan *wanted)
{
    if (lag_is_idle(wanted))
        return subject;
    inner = subject;
    plan = *wanted;
    lagging = *subject;
    lagging.start = start;
    lagging.attach = attach;
    lagging.alloc = alloc;
    lagging.free = free_block;
    lagging.follow = follow;
    lagging.stop = stop;
    return &lagging;
}

uint64_t subject_lag_releases(void)
{
    return lag_releases();
}
