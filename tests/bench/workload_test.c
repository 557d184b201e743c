/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every workload against a subject that keeps books: what was allocated is
 * freed once, with its own size and stream, on a stream that there is; and all
 * of it, also when memory runs out on the way.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/base/clock.h"
#include "bench/harness/cell.h"

#define LIVE_MARK UINT64_C(0x1111222233334444)
#define CELL_US 4000U
#define NEVER UINT64_MAX

/* A block is its own record; its memory is not given back before the cell has
 * ended, so that a second free is seen and does no harm. */
struct record {
    struct record *next;
    _Atomic uint64_t mark;
    size_t size_bytes;
    unsigned stream;
};

static _Atomic(struct record *) records;
static _Atomic uint64_t live_count;
static _Atomic uint64_t alloc_count;
static _Atomic uint64_t wrong_count;
/* Calls of follow() that are to come; all wrap around together. */
static _Atomic uint64_t unfollowed_count;
static uint64_t alloc_limit;  /* beyond it there is no memory */
static unsigned stream_count; /* that the workload may name */

static const char *start(const struct subject_setup *setup)
{
    (void)setup;
    return NULL;
}

static uint64_t alloc(unsigned thread, size_t size_bytes, unsigned stream)
{
    (void)thread;
    if (atomic_fetch_add(&alloc_count, 1) >= alloc_limit)
        return 0;
    struct record *record = malloc(sizeof(*record));
    if (!record)
        return 0;
    *record = (struct record){
        .mark = LIVE_MARK, .size_bytes = size_bytes, .stream = stream};
    record->next = atomic_load(&records);
    while (!atomic_compare_exchange_weak(&records, &record->next, record)) {
    }
    if (size_bytes == 0 || stream >= stream_count)
        atomic_fetch_add(&wrong_count, 1);
    atomic_fetch_add(&live_count, 1);
    atomic_fetch_add(&unfollowed_count, 1);
    return (uintptr_t)record;
}

static void free_block(unsigned thread, uint64_t address, size_t size_bytes,
                       unsigned stream)
{
    (void)thread;
    struct record *record = (struct record *)(uintptr_t)address;
    if (atomic_exchange(&record->mark, 0) != LIVE_MARK ||
        record->size_bytes != size_bytes || record->stream != stream)
        atomic_fetch_add(&wrong_count, 1);
    atomic_fetch_sub(&live_count, 1);
    atomic_fetch_add(&unfollowed_count, 1);
}

/* Behind an allocation the block is there, on its stream. */
static void follow(unsigned thread, unsigned stream, uint64_t address,
                   size_t size_bytes)
{
    (void)thread;
    const struct record *record = (const struct record *)(uintptr_t)address;
    if (record &&
        (record->stream != stream || record->size_bytes != size_bytes))
        atomic_fetch_add(&wrong_count, 1);
    atomic_fetch_sub(&unfollowed_count, 1);
}

/* As many hits as misses, however few there are. */
static void count(uint64_t *out_hits, uint64_t *out_misses)
{
    *out_hits = atomic_load(&alloc_count);
    *out_misses = atomic_load(&alloc_count);
}

static void stop(void) {}

static const struct subject bookkeeper = {
    .name = "bookkeeper",
    .has_streams = true,
    .start = start,
    .alloc = alloc,
    .free = free_block,
    .follow = follow,
    .count = count,
    .stop = stop,
};

static void forget_records(void)
{
    struct record *record = atomic_exchange(&records, NULL);
    while (record) {
        struct record *next = record->next;
        free(record);
        record = next;
    }
}

static int complain(const struct plan_cell *cell, const char *what)
{
    printf("FAILED: %s, %zu bytes, %u threads, memory for %llu blocks: %s\n",
           cell->workload->name, cell->size_bytes, cell->thread_count,
           (unsigned long long)alloc_limit, what);
    return 1;
}

static int check_numbers(const struct plan_cell *cell,
                         const struct measurement *found)
{
    int failures = 0;
    if (!(found->op_median > 0 && found->op_p99 >= found->op_median &&
          found->op_p999 >= found->op_p99 && found->op_mean > 0))
        failures += complain(cell, "quantiles of batches out of order");
    if (!(found->call_p99 > 0 && found->call_p999 >= found->call_p99))
        failures += complain(cell, "quantiles of calls out of order");
    if (fabs(found->cache_hit_rate - 0.5) > 0.1)
        failures += complain(cell, "the cache's hits are not half");
    if (found->ops == 0 || found->kept != 7)
        failures += complain(cell, "repetitions are missing");
    return failures;
}

static int run(const struct plan_cell *cell, uint64_t limit, const char *wanted)
{
    struct pace pace = {CELL_US, clock_now_ns() + UINT64_C(60000000000)};
    struct measurement found;
    int failures = 0;
    alloc_limit = limit;
    stream_count = cell->workload->stream_count;
    if (stream_count == 0)
        stream_count = cell->thread_count;
    atomic_store(&alloc_count, 0);
    const char *why = cell_measure(cell, &bookkeeper, 1, &pace, &found);
    if (wanted ? !why || strcmp(why, wanted) != 0 : why != NULL)
        failures += complain(cell, why ? why : "was measured");
    if (!why)
        failures += check_numbers(cell, &found);
    if (atomic_exchange(&live_count, 0) != 0)
        failures += complain(cell, "not all blocks were freed");
    if (atomic_exchange(&wrong_count, 0) != 0)
        failures += complain(cell, "blocks freed twice or as others");
    if (atomic_exchange(&unfollowed_count, 0) != 0)
        failures += complain(cell, "a call was not followed by the device");
    forget_records();
    return failures;
}

/* Exhaustion while it sets up or in the first burst; or at the second block,
 * where what is held grows with time. */
static int run_out(const struct plan_cell *cell)
{
    bool grows = cell->workload->needs_pairs ||
                 strcmp(cell->workload->name, "rmm-random") == 0;
    uint64_t blocks =
        workload_blocks(cell->workload, cell->size_bytes, cell->thread_count);
    uint64_t limit = grows ? 1 : blocks * cell->thread_count - 1;
    return run(cell, limit, "out of memory") + run(cell, 0, "out of memory");
}

/* A working set that another workload has, too, only larger: it would double
 * the test's time and show nothing new. */
static bool is_large(const struct plan_cell *cell)
{
    uint64_t blocks =
        workload_blocks(cell->workload, cell->size_bytes, cell->thread_count);
    return cell->workload->is_extra && blocks * cell->thread_count > 20000;
}

static int run_workload(const struct workload *workload)
{
    int failures = 0;
    for (unsigned threads = 1; threads <= 4; threads *= 4) {
        for (unsigned i = 0; i < WORKLOAD_SIZES_MAX; i++) {
            size_t own = workload->sizes_bytes[i];
            struct plan_cell cell = {workload, own ? own : 1000, threads,
                                     threads};
            bool is_size = workload->sizes_bytes[0] ? own != 0 : i == 0;
            if (!is_size || !plan_applies(&cell, &bookkeeper) ||
                is_large(&cell))
                continue;
            failures += run(&cell, NEVER, NULL);
            failures += run_out(&cell);
        }
    }
    return failures;
}

int main(void)
{
    int failures = 0;
    int count = 0;
    for (; workloads[count]; count++)
        failures += run_workload(workloads[count]);
    printf("%d workloads, %d failures\n", count, failures);
    return failures != 0 || count == 0;
}
