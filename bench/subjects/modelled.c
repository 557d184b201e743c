/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The models of other allocators, on segments of the driver's.
 */
#include "bench/base/device.h"
#include "bench/subjects/models/best_fit.h"
#include "bench/subjects/models/expandable.h"
#include "bench/subjects/models/pow2_buddy.h"
#include "bench/subjects/segments.h"

static struct model *model;

static const char *start_or_stop(const char *why)
{
    if (!why && model)
        return NULL;
    segments_stop();
    return why ? why : "there is no host memory";
}

static const char *start(const struct subject_setup *setup,
                         struct model *(*create)(const struct model_source *))
{
    static const struct model_source source = {segments_take, segments_give};
    const char *why = segments_start(setup);
    if (why)
        return why;
    model = create(&source);
    return start_or_stop(NULL);
}

static const char *start_best_fit_expandable(const struct subject_setup *setup)
{
    struct model_pages pages = {pages_reserve, pages_release, pages_map,
                                pages_unmap, 0};
    const char *why = segments_start(setup);
    if (why)
        return why;
    why = pages_refusal();
    pages.device_bytes = segments_device_bytes();
    model = why ? NULL : expandable_create(&pages);
    return start_or_stop(why);
}

static const char *start_best_fit(const struct subject_setup *setup)
{
    return start(setup, best_fit_create);
}

static const char *start_pow2_buddy(const struct subject_setup *setup)
{
    return start(setup, pow2_buddy_create);
}

static uint64_t alloc(uint32_t thread, size_t size_bytes, uint32_t stream)
{
    (void)thread;
    return model_alloc(model, size_bytes, stream);
}

static void free_block(uint32_t thread, uint64_t address, size_t size_bytes,
                       uint32_t stream)
{
    (void)thread;
    (void)size_bytes;
    (void)stream;
    model_free(model, address);
}

static void measure(struct subject_memory *out)
{
    *out = segments_memory(model_handed_bytes(model));
}

static void each_segment(void (*take)(void *context, uint64_t address,
                                      uint64_t size_bytes),
                         void *context)
{
    model_each_segment(model, take, context);
}

static void stop(void)
{
    model_destroy(model);
    segments_stop();
}

#define MODELLED(suffix, title, what)                                          \
    const struct subject subject_##suffix = {                                  \
        .name = title,                                                         \
        .description = what,                                                   \
        .needs_driver = true,                                                  \
        .has_limit = true,                                                     \
        .start = start_##suffix,                                               \
        .attach = bench_device_attach,                                         \
        .alloc = alloc,                                                        \
        .free = free_block,                                                    \
        .measure = measure,                                                    \
        .each_segment = each_segment,                                          \
        .stop = stop,                                                          \
    }

MODELLED(best_fit, "best-fit",
         "PyTorch's algorithm: best fit, split, coalesce, one mutex");
MODELLED(best_fit_expandable, "best-fit-expandable",
         "PyTorch's algorithm with expandable segments: pages that are mapped");
MODELLED(pow2_buddy, "pow2-buddy",
         "the textbook's buddy: powers of two, one mutex; it knows no streams");
