/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Edge GU: a guard counts itself and then looks for recorders; a recorder
 * counts itself and then looks for guards. Both are sequentially consistent, so
 * at least one of two that meet sees the other.
 */
#include "pool/cache/guard.h"

#include <sched.h>
#include <stdatomic.h>

#include "pool/base/failure.h"
#include "pool/cache/epoch.h"
#include "pool/cache/registry.h"

static atomic_uint guards;    /* Edge GU */
static atomic_uint recorders; /* Edge GU */

/* Registry's lock held: pools made later ask binadei_guard_is_held(). */
static void mark_pools(void)
{
    bool is_held = binadei_guard_is_held();
    for (struct binadei_engine *engine = binadei_engines; engine;
         engine = engine->next) {
        if (is_held) {
            /* AT, relaxed: advice to hits. */
            atomic_fetch_or_explicit(&engine->pool->attention,
                                     BINADEI_ATTENTION_GUARD,
                                     memory_order_relaxed);
        } else {
            /* AT, relaxed: the same. */
            atomic_fetch_and_explicit(&engine->pool->attention,
                                      ~BINADEI_ATTENTION_GUARD,
                                      memory_order_relaxed);
        }
    }
}

bool binadei_guard_is_held(void)
{
    /* GU.seq_cst: a recorder's look, after it has counted itself. */
    return atomic_load_explicit(&guards, memory_order_seq_cst) != 0;
}

/* Registry's lock held, so that no pool ends. Recording on a context blocks
 * nobody, and nobody can block it. */
static void close_epochs(void)
{
    for (struct binadei_engine *engine = binadei_engines; engine;
         engine = engine->next)
        binadei_epochs_close_before_guard(engine);
}

void binadei_guard_begin(void)
{
    binadei_registry_lock();
    if (!binadei_guard_is_held())
        close_epochs();
    /* GU.seq_cst: before the look at recorders. */
    atomic_fetch_add_explicit(&guards, 1, memory_order_seq_cst);
    mark_pools();
    binadei_registry_unlock();
    /* GU.seq_cst: a guard's look; it acquires what recorders did. */
    while (atomic_load_explicit(&recorders, memory_order_seq_cst) != 0)
        sched_yield();
}

binade_status binadei_guard_end(void)
{
    binade_status status = BINADE_OK;
    binadei_registry_lock();
    if (binadei_guard_is_held())
        /* GU.seq_cst: the capture comes before what recorders do. */
        atomic_fetch_sub_explicit(&guards, 1, memory_order_seq_cst);
    else
        status = binadei_fail(BINADE_E_INVALID, "no capture guard is held");
    mark_pools();
    binadei_registry_unlock();
    return status;
}

bool binadei_guard_recorder_begin(void)
{
    /* GU.seq_cst: before the look at guards. */
    atomic_fetch_add_explicit(&recorders, 1, memory_order_seq_cst);
    if (!binadei_guard_is_held())
        return true;
    binadei_guard_recorder_end();
    return false;
}

void binadei_guard_recorder_end(void)
{
    /* GU.seq_cst: what was recorded comes before the capture. */
    atomic_fetch_sub_explicit(&recorders, 1, memory_order_seq_cst);
}
