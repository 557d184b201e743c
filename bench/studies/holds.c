/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE /* RUSAGE_THREAD */
#include "bench/studies/holds.h"

#include <stddef.h>
#include <sys/resource.h>

#include "bench/base/clock.h"

/* A stream's lock and DONE's are held at a time, and no others. */
#define OPEN_MOST 4U

struct moietyi_heap_lock;

void moietyi_heap_hold_begins(const struct moietyi_heap_lock *lock);
void moietyi_heap_hold_ends(const struct moietyi_heap_lock *lock);

struct hold {
    const struct moietyi_heap_lock *lock;
    uint64_t begun_ns;
};

static _Thread_local struct {
    struct holds *holds; /* NULL: nobody watches */
    struct hold open[OPEN_MOST];
    uint32_t open_count;
} watched;

void moietyi_heap_hold_begins(const struct moietyi_heap_lock *lock)
{
    if (watched.holds && watched.open_count < OPEN_MOST)
        watched.open[watched.open_count++] =
            (struct hold){lock, clock_now_ns()};
}

static void add_found(struct holds_found *into, const struct holds_found *from)
{
    if (into->longest_ns < from->longest_ns)
        into->longest_ns = from->longest_ns;
    into->long_count += from->long_count;
}

static void note(struct holds *holds, uint64_t spent_ns)
{
    const struct holds_found one = {spent_ns, spent_ns > HOLDS_LONG_NS};
    histogram_add(&holds->times, spent_ns * 1000);
    add_found(&holds->stretch, &one);
}

/* Still held, so what follows the clock makes the hold longer, and is not counted. */
void moietyi_heap_hold_ends(const struct moietyi_heap_lock *lock)
{
    if (!watched.holds)
        return;
    uint64_t now_ns = clock_now_ns();
    for (uint32_t i = watched.open_count; i-- > 0;) {
        struct hold *hold = &watched.open[i];
        if (hold->lock != lock)
            continue;
        note(watched.holds, now_ns - hold->begun_ns);
        *hold = watched.open[--watched.open_count];
        return;
    }
}

static struct holds_disturbances disturbances_now(void)
{
    struct rusage usage = {.ru_nivcsw = 0};
    (void)getrusage(RUSAGE_THREAD, &usage);
    return (struct holds_disturbances){(uint64_t)usage.ru_nivcsw,
                                       (uint64_t)usage.ru_minflt +
                                           (uint64_t)usage.ru_majflt};
}

void holds_begin(struct holds *holds)
{
    *holds = (struct holds){.before = disturbances_now()};
    watched.open_count = 0;
    watched.holds = holds;
}

void holds_look(void)
{
    struct holds *holds = watched.holds;
    const struct holds_disturbances now = disturbances_now();
    uint64_t switches = now.switches - holds->before.switches;
    uint64_t faults = now.faults - holds->before.faults;
    add_found(&holds->all, &holds->stretch);
    if (!switches)
        add_found(&holds->kept, &holds->stretch);
    if (!switches && !faults)
        add_found(&holds->quiet, &holds->stretch);
    holds->disturbances.switches += switches;
    holds->disturbances.faults += faults;
    holds->before = now;
    holds->stretch = (struct holds_found){0, 0};
}

void holds_end(void)
{
    holds_look();
    watched.holds = NULL;
}

void holds_pretend(uint64_t ns)
{
    uint64_t end_ns = clock_now_ns() + ns;
    moietyi_heap_hold_begins(NULL);
    while (clock_now_ns() < end_ns)
        continue;
    moietyi_heap_hold_ends(NULL);
}

void holds_add(struct holds *into, const struct holds *from)
{
    histogram_merge(&into->times, &from->times);
    add_found(&into->all, &from->all);
    add_found(&into->kept, &from->kept);
    add_found(&into->quiet, &from->quiet);
    into->disturbances.switches += from->disturbances.switches;
    into->disturbances.faults += from->disturbances.faults;
}
