/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "bench/studies/crew.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "bench/base/clock.h"
#include "bench/base/processor.h"
#include "bench/base/random.h"
#include "bench/base/team.h"

#define SMALL_BYTES 512U
#define DOUBLINGS 13U

struct place {
    uint64_t address; /* 0: there is no block */
    uint64_t size_bytes;
};

struct crew {
    const struct subject *subject;
    const struct crew_job *job;
    pthread_barrier_t gate;
    /* relaxed, both: sums, read when all have ended. */
    alignas(64) _Atomic uint64_t live_bytes;
    alignas(64) _Atomic uint64_t peak_live_bytes;
};

struct seat {
    struct crew *crew;
    struct place *places;
    uint64_t random;
    uint64_t queue_ns; /* what queueing the device's work took */
    uint64_t timed_ns;
    uint64_t failed;
    double live_sum; /* bytes that were live after each pair, of all threads */
    uint32_t index;
    bool is_attached;
    char apart[64];
};

static uint64_t draw_size(struct seat *seat)
{
    if (seat->crew->job->size_bytes)
        return seat->crew->job->size_bytes;
    uint32_t most = SMALL_BYTES << random_below(&seat->random, DOUBLINGS);
    return most / 2 + random_below(&seat->random, most / 2) + 1;
}

static void follow(struct seat *seat, uint64_t address, uint64_t size_bytes)
{
    const struct subject *subject = seat->crew->subject;
    if (!subject->follow)
        return;
    uint64_t start_ns = clock_now_ns();
    subject->follow(seat->index, seat->index, address, size_bytes);
    seat->queue_ns += clock_now_ns() - start_ns;
}

static void note_live(struct seat *seat, uint64_t more_bytes)
{
    struct crew *crew = seat->crew;
    if (!crew->job->counts_live)
        return;
    uint64_t live = atomic_fetch_add_explicit(&crew->live_bytes, more_bytes,
                                              memory_order_relaxed) +
                    more_bytes;
    uint64_t peak =
        atomic_load_explicit(&crew->peak_live_bytes, memory_order_relaxed);
    while (live > peak && !atomic_compare_exchange_weak_explicit(
                              &crew->peak_live_bytes, &peak, live,
                              memory_order_relaxed, memory_order_relaxed))
        continue;
}

static void free_place(struct seat *seat, struct place *place)
{
    if (!place->address)
        return;
    note_live(seat, 0 - place->size_bytes);
    seat->crew->subject->free(seat->index, place->address, place->size_bytes,
                              seat->index);
    place->address = 0;
    follow(seat, 0, place->size_bytes);
}

static void do_pair(struct seat *seat)
{
    const struct crew_job *job = seat->crew->job;
    struct place *place =
        &seat->places[random_below(&seat->random, job->places)];
    free_place(seat, place);
    place->size_bytes = draw_size(seat);
    place->address =
        seat->crew->subject->alloc(seat->index, place->size_bytes, seat->index);
    if (!place->address) {
        seat->failed++;
        return;
    }
    note_live(seat, place->size_bytes);
    follow(seat, place->address, place->size_bytes);
}

static uint64_t do_pairs(struct seat *seat, uint32_t count)
{
    seat->queue_ns = 0;
    seat->live_sum = 0;
    uint64_t start_ns = clock_now_ns();
    for (uint32_t i = 0; i < count; i++) {
        do_pair(seat);
        if (seat->crew->job->counts_live)
            seat->live_sum += (double)atomic_load_explicit(
                &seat->crew->live_bytes, memory_order_relaxed);
    }
    uint64_t spent_ns = clock_now_ns() - start_ns;
    return spent_ns > seat->queue_ns ? spent_ns - seat->queue_ns : 0;
}

static void *work(void *argument)
{
    struct seat *seat = argument;
    struct crew *crew = seat->crew;
    (void)processor_pin(seat->index);
    seat->is_attached =
        !crew->subject->attach || crew->subject->attach(seat->index);
    (void)pthread_barrier_wait(&crew->gate);
    if (seat->is_attached)
        (void)do_pairs(seat, crew->job->warm_pairs);
    (void)pthread_barrier_wait(&crew->gate);
    if (seat->is_attached)
        seat->timed_ns = do_pairs(seat, crew->job->pairs);
    (void)pthread_barrier_wait(&crew->gate);
    for (uint32_t i = 0; i < crew->job->places; i++)
        free_place(seat, &seat->places[i]);
    return NULL;
}

static const char *add_up(const struct crew *crew, const struct seat *seats,
                          struct crew_found *out)
{
    const struct crew_job *job = crew->job;
    double threads = job->thread_count;
    double live = 0;
    *out = (struct crew_found){.peak_live_bytes = crew->peak_live_bytes};
    for (uint32_t i = 0; i < job->thread_count; i++) {
        double pair_ns = (double)seats[i].timed_ns / job->pairs;
        if (!seats[i].is_attached)
            return "a thread cannot use it";
        out->mean_ns += pair_ns / threads;
        if (pair_ns > out->slowest_ns)
            out->slowest_ns = pair_ns;
        out->failed += seats[i].failed;
        live += seats[i].live_sum / job->pairs / threads;
    }
    out->mean_live_bytes = (uint64_t)live;
    return NULL;
}

static const char *run_seats(struct crew *crew, struct seat *seats,
                             struct place *places, struct crew_found *out)
{
    const struct crew_job *job = crew->job;
    (void)pthread_barrier_init(&crew->gate, NULL, job->thread_count);
    for (uint32_t i = 0; i < job->thread_count; i++) {
        seats[i].crew = crew;
        seats[i].index = i;
        seats[i].random = random_start(job->seed, i);
        seats[i].places = places + (size_t)i * job->places;
    }
    team_run(work, seats, sizeof(*seats), job->thread_count);
    (void)pthread_barrier_destroy(&crew->gate);
    return add_up(crew, seats, out);
}

const char *crew_run(const struct subject *subject, const struct crew_job *job,
                     struct crew_found *out)
{
    struct crew crew = {.subject = subject, .job = job};
    struct seat *seats = calloc(job->thread_count, sizeof(*seats));
    struct place *places =
        calloc((size_t)job->thread_count * job->places, sizeof(*places));
    const char *why = seats && places ? run_seats(&crew, seats, places, out)
                                      : "there is no host memory";
    free(seats);
    free(places);
    return why;
}
