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

static atomic_uint guards;    /* GU */
static atomic_uint recorders; /* GU */

/* Registry's lock held: pools made later ask binadei_guard_is_held(). */
static void mark_pools(void)
{
    bool is_held = binadei_guard_is_held();
    for (struct binadei_engine *engine = binadei_engines; engine;
         engine = engine->next) {
        /* relaxed: AT. */
        if (is_held) {
            atomic_fetch_or_explicit(&engine->pool->attention,
                                     BINADEI_ATTENTION_GUARD,
                                     memory_order_relaxed);
        } else {
            atomic_fetch_and_explicit(&engine->pool->attention,
                                      ~BINADEI_ATTENTION_GUARD,
                                      memory_order_relaxed);
        }
    }
}

bool binadei_guard_is_held(void)
{
    return atomic_load(&guards) != 0;
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
    atomic_fetch_add(&guards, 1);
    mark_pools();
    binadei_registry_unlock();
    while (atomic_load(&recorders) != 0)
        sched_yield();
}

binade_status binadei_guard_end(void)
{
    binade_status status = BINADE_OK;
    binadei_registry_lock();
    if (binadei_guard_is_held())
        atomic_fetch_sub(&guards, 1);
    else
        status = binadei_fail(BINADE_E_INVALID, "no capture guard is held");
    mark_pools();
    binadei_registry_unlock();
    return status;
}

bool binadei_guard_recorder_begin(void)
{
    atomic_fetch_add(&recorders, 1);
    if (!binadei_guard_is_held())
        return true;
    binadei_guard_recorder_end();
    return false;
}

void binadei_guard_recorder_end(void)
{
    atomic_fetch_sub(&recorders, 1);
}
