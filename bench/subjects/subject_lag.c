/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/subjects/subject_lag.h"

#include "bench/base/device.h"
#include "bench/lag/lag.h"

static const struct subject *inner;
static struct subject lagging;
static struct lag_plan plan;

static const char *start(unsigned thread_count, unsigned stream_count)
{
    if (!inner->has_streams || !inner->has_driver)
        return "it keeps no order of streams, so --lag has no part in it";
    const char *why = lag_prepare(&plan);
    if (why)
        return why;
    why = inner->start(thread_count, stream_count);
    if (!why) {
        why = lag_begin(thread_count, stream_count);
        if (why)
            inner->stop();
    }
    if (why)
        lag_drop();
    return why;
}

static bool attach(unsigned thread)
{
    return (!inner->attach || inner->attach(thread)) &&
           bench_device_attach(thread);
}

static uint64_t try_alloc(unsigned thread, size_t size_bytes, unsigned stream)
{
    lag_enter(thread);
    uint64_t address = inner->alloc(thread, size_bytes, stream);
    lag_leave(thread);
    return address;
}

static uint64_t alloc(unsigned thread, size_t size_bytes, unsigned stream)
{
    uint64_t address = try_alloc(thread, size_bytes, stream);
    if (address || !lag_give_way())
        return address;
    address = try_alloc(thread, size_bytes, stream);
    lag_resume();
    return address;
}

static void free_block(unsigned thread, uint64_t address, size_t size_bytes,
                       unsigned stream)
{
    lag_enter(thread);
    inner->free(thread, address, size_bytes, stream);
    lag_leave(thread);
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
    lagging.follow = lag_follow;
    lagging.stop = stop;
    return &lagging;
}
