/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/subjects/models/pow2_buddy.h"
#include "bench/base/device.h"
#include "bench/subjects/segments.h"

static struct pow2_buddy *buddy;

static const char *start(const struct subject_setup *setup)
{
    static const struct pow2_buddy_source source = {segments_take,
                                                    segments_give};
    const char *why = segments_start(setup);
    if (why)
        return why;
    buddy = pow2_buddy_create(&source);
    if (buddy)
        return NULL;
    segments_stop();
    return "there is no host memory";
}

static uint64_t alloc(uint32_t thread, size_t size_bytes, uint32_t stream)
{
    (void)thread;
    (void)stream;
    return pow2_buddy_alloc(buddy, size_bytes);
}

static void free_block(uint32_t thread, uint64_t address, size_t size_bytes,
                       uint32_t stream)
{
    (void)thread;
    (void)size_bytes;
    (void)stream;
    pow2_buddy_free(buddy, address);
}

static void measure(struct subject_memory *out)
{
    *out = segments_memory(pow2_buddy_handed_bytes(buddy));
}

static void each_segment(void (*take)(void *context, uint64_t address,
                                      uint64_t size_bytes),
                         void *context)
{
    pow2_buddy_each_segment(buddy, take, context);
}

static void stop(void)
{
    pow2_buddy_destroy(buddy);
    segments_stop();
}

const struct subject subject_pow2_buddy = {
    .name = "pow2-buddy",
    .description = "the textbook's buddy: powers of two, one mutex; it knows "
                   "no streams",
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
