/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * All of it is advice, hence relaxed: a halving too many or too few changes how
 * often caches miss, and nothing else.
 */
#include "pool/cache/bounds.h"

/* So many at a time, of each thread. */
#define TOLD_MISSES 32U

/* Changes a count of halvings by 1 or -1, if it is not at its end. relaxed: a
 * bound, not a lock. */
static bool bounds_step(atomic_uint *halvings, unsigned end, unsigned more)
{
    unsigned seen = atomic_load_explicit(halvings, memory_order_relaxed);
    while (seen != end) {
        if (atomic_compare_exchange_weak_explicit(halvings, &seen, seen + more,
                                                  memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    }
    return false;
}

static void begin_calm(struct binadei_engine *engine)
{
    atomic_store_explicit(&engine->calm_misses, 0, memory_order_relaxed);
}

void binadei_bounds_shrink(struct binadei_member *by)
{
    by->calm_misses = 0;
    begin_calm(by->engine);
    if (bounds_step(&by->engine->halvings, BINADEI_HALVINGS_MAX, 1))
        binadei_count(by, BINADEI_COUNT_SHRINKS, 1);
}

void binadei_bounds_note_growth(struct binadei_engine *engine, bool is_first)
{
    begin_calm(engine);
    (void)bounds_step(&engine->halvings, 0, -1U);
    if (!is_first)
        atomic_store_explicit(&engine->grown_steps, BINADEI_GROWN_STEPS,
                              memory_order_relaxed);
}

static bool are_wide(const struct binadei_engine *engine)
{
    return !atomic_load_explicit(&engine->halvings, memory_order_relaxed) &&
           !atomic_load_explicit(&engine->grown_steps, memory_order_relaxed);
}

void binadei_bounds_stay_calm(struct binadei_member *by)
{
    struct binadei_engine *engine = by->engine;
    /* Threads share the count only while the bounds are shrunk. */
    if (are_wide(engine) || ++by->calm_misses < TOLD_MISSES)
        return;
    by->calm_misses = 0;
    if (atomic_fetch_add_explicit(&engine->calm_misses, TOLD_MISSES,
                                  memory_order_relaxed) +
            TOLD_MISSES >=
        BINADEI_CALM_MISSES) {
        begin_calm(engine);
        (void)bounds_step(&engine->halvings, 0, -1U);
        (void)bounds_step(&engine->grown_steps, 0, -1U);
    }
}
