/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The lists of subjects, and the one that does nothing.
 */
#include <string.h>

#include "bench/subjects/subject.h"

static const char *start_null(const struct subject_setup *setup)
{
    (void)setup;
    return NULL;
}

static uint64_t alloc_null(uint32_t thread, size_t size_bytes, uint32_t stream)
{
    (void)thread;
    (void)size_bytes;
    return stream + 1U;
}

static void free_null(uint32_t thread, uint64_t address, size_t size_bytes,
                      uint32_t stream)
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

#define DECLARE(name) extern const struct subject subject_##name;
#define ENTRY(name) &subject_##name,

WORKLOAD_SUBJECTS(DECLARE)
REPLAY_SUBJECTS(DECLARE)

const struct subject *const workload_subjects[] = {WORKLOAD_SUBJECTS(ENTRY)
                                                       NULL};
const struct subject *const replay_subjects[] = {REPLAY_SUBJECTS(ENTRY) NULL};

const struct subject *subject_named(const struct subject *const *list,
                                    const char *name, size_t length)
{
    for (; *list; list++)
        if (strlen((*list)->name) == length &&
            strncmp((*list)->name, name, length) == 0)
            return *list;
    return NULL;
}

bool subject_list_take(const char *name, size_t length, void *list)
{
    struct subject_list *into = list;
    const struct subject *subject = subject_named(into->table, name, length);
    for (uint32_t i = 0; i < into->count; i++)
        if (into->subjects[i] == subject)
            return false;
    if (!subject || into->count == SUBJECTS_MAX)
        return false;
    into->subjects[into->count++] = subject;
    return true;
}

void subject_list_take_all(struct subject_list *list)
{
    for (size_t i = 0; list->table[i] && list->count < SUBJECTS_MAX; i++)
        list->subjects[list->count++] = list->table[i];
}
