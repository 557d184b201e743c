/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What makes the pools of a test: moiety_pool_create(), or what a program is
 * linked with that makes pools of another kind, as //tests/host:arena_maker
 * makes host arenas. So a test of the pool's rules is written once.
 */
#ifndef MOIETY_TESTS_SUPPORT_TOOLS_POOL_MAKER_H_
#define MOIETY_TESTS_SUPPORT_TOOLS_POOL_MAKER_H_

#include "moiety/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pool_maker {
    /* MOIETY_E_UNSUPPORTED for options that this kind of pool does not have. */
    moiety_status (*create)(const moiety_pool_options *options,
                            moiety_pool **out);
    /* Of a pool that `create` made. */
    moiety_status (*destroy)(moiety_pool *pool, moiety_leaks *out_leaks);
    /* What an allocation returns when there is no memory left. */
    moiety_status exhausted;
};

/* Set before main(), and not again. */
extern struct pool_maker pool_maker;

#ifdef __cplusplus
}
#endif

#endif
