/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>

#include "bench/base/device.h"
#include "bench/subjects/models/best_fit.h"
#include "bench/subjects/segments.h"

static struct best_fit *allocator;

static const char *start(const struct subject_setup *setup)
{
    static const struct best_fit_source source = {segments_take, segments_give};
    const char *why = segments_start(setup);
    if (why)
        return why;
    allocator = best_fit_create(&source);
    if (allocator)
        return NULL;
    segments_stop();
    return "there is no host memory";
}

static uint64_t alloc(uint32_t thread, size_t size_bytes, uint32_t stream)
{
    (void)thread;
    return best_fit_alloc(allocator, size_bytes, stream);
}

static void free_block(uint32_t thread, uint64_t address, size_t size_bytes,
                       uint32_t stream)
{
    (void)thread;
    (void)size_bytes;
    (void)stream;
    best_fit_free(allocator, address);
}

static void measure(struct subject_memory *out)
{
    *out = segments_memory(best_fit_handed_bytes(allocator));
}

static void each_segment(void (*take)(void *context, uint64_t address,
                                      uint64_t size_bytes),
                         void *context)
{
    best_fit_each_segment(allocator, take, context);
}

static void stop(void)
{
    best_fit_destroy(allocator);
    segments_stop();
}

const struct subject subject_best_fit = {
    .name = "best-fit",
    .description = "PyTorch's algorithm: best fit, split, coalesce, one mutex",
    .needs_driver = true,
    .has_limit = true,
    .start = start,
    .attach = bench_device_attach,
    .alloc = alloc,
    .free = free_block,
    .measure = measure,
    .each_segment = each_segment,
    .stop = stop,
};
