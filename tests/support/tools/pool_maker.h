/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What makes the pools of a test: binade_pool_create(), or what a program is
 * linked with that makes pools of another kind, as //tests/host:arena_maker
 * makes host arenas. So a test of the pool's rules is written once.
 */
#ifndef BINADE_TESTS_SUPPORT_TOOLS_POOL_MAKER_H_
#define BINADE_TESTS_SUPPORT_TOOLS_POOL_MAKER_H_

#include "binade/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pool_maker {
    /* BINADE_E_UNSUPPORTED for options that this kind of pool does not have. */
    binade_status (*create)(const binade_pool_options *options,
                            binade_pool **out);
    /* Of a pool that `create` made. */
    binade_status (*destroy)(binade_pool *pool, binade_leaks *out_leaks);
    /* What an allocation returns when there is no memory left. */
    binade_status exhausted;
};

/* Set before main(), and not again. */
extern struct pool_maker pool_maker;

#ifdef __cplusplus
}
#endif

#endif
