/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The table of subjects, and the one that does nothing.
 */
#include <string.h>

#include "bench/subjects/subject.h"

static const char *start_null(unsigned thread_count, unsigned stream_count)
{
    (void)thread_count;
    (void)stream_count;
    return NULL;
}

static uint64_t alloc_null(unsigned thread, size_t size_bytes, unsigned stream)
{
    (void)thread;
    (void)size_bytes;
    return stream + 1U;
}

static void free_null(unsigned thread, uint64_t address, size_t size_bytes,
                      unsigned stream)
{
    (void)thread;
    (void)address;
    (void)size_bytes;
    (void)stream;
}

static void stop_null(void) {}

const struct subject subject_null = {
    .name = "null",
    .description = "does nothing: what the harness itself costs",
    .start = start_null,
    .alloc = alloc_null,
    .free = free_null,
    .stop = stop_null,
};

const struct subject *const subjects[] = {
    &subject_binade,
    &subject_binade_sized,
    &subject_binade_nocache,
    &subject_core,
    &subject_mutex,
    &subject_cuda_async,
    &subject_cuda_malloc,
    &subject_torch,
    &subject_mimalloc,
    &subject_malloc,
    &subject_null,
#define VARIANT(variant, what, setting, alloc_fn, free_fn)                     \
    &subject_binade_##variant,
#include "bench/subjects/binade_variants.inc"
#undef VARIANT
    NULL,
};

const struct subject *subject_named(const char *name)
{
    for (size_t i = 0; subjects[i]; i++)
        if (strcmp(subjects[i]->name, name) == 0)
            return subjects[i];
    return NULL;
}
