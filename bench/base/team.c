/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/base/team.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static void demand(bool is_well)
{
    if (is_well)
        return;
    (void)fputs("bench: a thread cannot be started\n", stderr);
    exit(EXIT_FAILURE); /* NOLINT(concurrency-mt-unsafe) */
}

void team_run(void *(*work)(void *item), void *items, size_t item_bytes,
              uint32_t count)
{
    pthread_t *threads = calloc(count, sizeof(*threads));
    demand(threads);
    for (uint32_t i = 0; i < count; i++)
        demand(pthread_create(&threads[i], NULL, work,
                              (char *)items + i * item_bytes) == 0);
    for (uint32_t i = 0; i < count; i++)
        (void)pthread_join(threads[i], NULL);
    free(threads);
}
