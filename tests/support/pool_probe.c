/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/pool_probe.h"

#include "pool/cache/handle.h"
#include "pool/cache/state.h"

unsigned pool_probe_member_count(const binade_pool *pool)
{
    unsigned count = 0;
    for (const struct binadei_member *member = pool->engine->members; member;
         member = member->of_pool)
        count++;
    return count;
}
