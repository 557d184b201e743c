/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lets tests in C++ look into a pool, whose insides are C only. At rest.
 */
#ifndef BINADE_TESTS_SUPPORT_POOL_PROBE_H_
#define BINADE_TESTS_SUPPORT_POOL_PROBE_H_

#include "binade/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Threads' records of the pool, those of ended threads included. */
unsigned pool_probe_member_count(const binade_pool *pool);

#ifdef __cplusplus
}
#endif

#endif
