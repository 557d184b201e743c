/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lets tests in C++ look into a pool, whose insides are C only. At rest.
 */
#ifndef MOIETY_TESTS_SUPPORT_POOL_PROBE_H_
#define MOIETY_TESTS_SUPPORT_POOL_PROBE_H_

#include "moiety/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Threads' records of the pool, those of ended threads included. */
unsigned pool_probe_thread_state_count(const moiety_pool *pool);

/* The longest chain of notes of recorded uses: how many a look may pass. */
unsigned pool_probe_longest_use_chain(const moiety_pool *pool);
/* The same of a thread's caches, by stream, and of the pool's streams. */
unsigned pool_probe_longest_cache_chain(const moiety_pool *pool);
unsigned pool_probe_longest_stream_state_chain(const moiety_pool *pool);
/* Records of streams, in use or not; two are of no stream. */
unsigned pool_probe_stream_state_count(const moiety_pool *pool);

#ifdef __cplusplus
}
#endif

#endif
