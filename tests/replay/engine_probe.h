/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Runs the replay engine for tests.
 */
#ifndef MOIETY_TESTS_REPLAY_ENGINE_PROBE_H_
#define MOIETY_TESTS_REPLAY_ENGINE_PROBE_H_

#include "bench/replay/bisect.h"
#include "tests/replay/checking_subject.h"

#ifdef __cplusplus
extern "C" {
#endif

struct engine_found {
    const char *why; /* NULL: it went well */
    uint64_t ooms;
    uint64_t peak_live_bytes;
    uint64_t peak_reserved_bytes;
    uint64_t peak_op;
    uint64_t driver_calls;
    uint64_t timed_allocs;
    uint64_t timed_frees;
    uint64_t wall_ns;
    uint64_t sample_ops[16];
    uint64_t sample_live_bytes[16];
    uint64_t sample_count;
    uint64_t smallest_limit_bytes;
    struct replay_fit fit;
    uint64_t map_block_count;
    uint64_t map_block_bytes;
    uint32_t run_threads;
    bool does_pass;
};

/* On which subject; at first it is the checking one. */
void engine_use(const struct subject *subject);

/* Each opens the trace anew. `limit_bytes` 0: none. */
struct engine_found engine_time(const char *path, uint32_t threads,
                                bool is_concurrent, uint64_t limit_bytes);
struct engine_found engine_footprint(const char *path, uint64_t samples,
                                     uint64_t limit_bytes);
struct engine_found engine_passes(const char *path, uint64_t limit_bytes);
struct engine_found engine_bisect(const char *path, uint64_t reserved_bytes);
struct engine_found engine_fit(const char *path, uint64_t from_bytes);
struct engine_found engine_until(const char *path, uint64_t op);

#ifdef __cplusplus
}
#endif

#endif
