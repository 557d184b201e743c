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

/* One of those that take turns. */
struct seat {
    struct table *table;
    uint32_t thread;
    pthread_cond_t called; /* when its turn may have come */
};

struct table {
    team_turn *turn;
    void *context;
    struct seat *seats;
    uint32_t count;
    pthread_mutex_t lock; /* of what follows */
    uint32_t next;        /* whose turn it is, or TEAM_OVER */
};

/* The lock held. */
static void call_next(struct table *table)
{
    if (table->next != TEAM_OVER) {
        (void)pthread_cond_signal(&table->seats[table->next].called);
        return;
    }
    for (uint32_t i = 0; i < table->count; i++)
        (void)pthread_cond_signal(&table->seats[i].called);
}

static void *sit(void *item)
{
    struct seat *seat = item;
    struct table *table = seat->table;
    (void)pthread_mutex_lock(&table->lock);
    while (table->next != TEAM_OVER) {
        if (table->next != seat->thread) {
            (void)pthread_cond_wait(&seat->called, &table->lock);
            continue;
        }
        table->next = table->turn(table->context, seat->thread);
        call_next(table);
    }
    (void)pthread_mutex_unlock(&table->lock);
    return NULL;
}

void team_take_turns(team_turn *turn, void *context, uint32_t first,
                     uint32_t count)
{
    struct table table = {
        .turn = turn, .context = context, .count = count, .next = first};
    table.seats = calloc(count, sizeof(*table.seats));
    demand(table.seats);
    (void)pthread_mutex_init(&table.lock, NULL);
    for (uint32_t i = 0; i < count; i++) {
        table.seats[i] = (struct seat){.table = &table, .thread = i};
        (void)pthread_cond_init(&table.seats[i].called, NULL);
    }
    team_run(sit, table.seats, sizeof(*table.seats), count);
    for (uint32_t i = 0; i < count; i++)
        (void)pthread_cond_destroy(&table.seats[i].called);
    (void)pthread_mutex_destroy(&table.lock);
    free(table.seats);
}
