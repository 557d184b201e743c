/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A staging buffer: what it takes to get one and to give it back, by one
 * thread, again and again. Like a loader that stages one batch after the other;
 * unlike one, it does nothing with the buffer, so it does not show what caches
 * that went cold cost.
 */
#include <stdlib.h>

#include <moiety/host.h>
#include <moiety/status.h>

#include "bench/base/clock.h"
#include "bench/base/device.h"
#include "bench/host/batches.h"
#include "bench/host/host.h"
#include "bench/host/rig.h"
#include "bench/host/row.h"

/* Copies that `arena_copy` has under way at most. */
#define COPIES_PENDING 8U

struct staging {
    const struct moietyi_driver *driver;
    moiety_host *arena;
    moiety_stream stream;
    size_t size_bytes;
    CUdeviceptr there;
};

typedef bool take_fn(struct staging *staging, void **out);
typedef bool give_fn(struct staging *staging, void *address);

static inline bool take_of_arena(struct staging *staging, void **out)
{
    return moiety_host_alloc(staging->arena, staging->size_bytes,
                             MOIETY_HOST_CPU, out) == MOIETY_OK;
}

static inline bool give_done(struct staging *staging, void *address)
{
    return moiety_host_free(staging->arena, address, MOIETY_STREAM_DONE) ==
           MOIETY_OK;
}

static inline bool give_on_stream(struct staging *staging, void *address)
{
    return moiety_host_free(staging->arena, address, staging->stream) ==
           MOIETY_OK;
}

static inline bool take_of_driver(struct staging *staging, void **out)
{
    return MOIETYI_CALL(staging->driver, cuMemHostAlloc,
                        (out, staging->size_bytes,
                         CU_MEMHOSTALLOC_PORTABLE |
                             CU_MEMHOSTALLOC_DEVICEMAP)) == MOIETY_OK;
}

static inline bool give_to_driver(struct staging *staging, void *address)
{
    return MOIETYI_CALL(staging->driver, cuMemFreeHost, (address)) == MOIETY_OK;
}

static inline bool take_registered(struct staging *staging, void **out)
{
    void *address = malloc(staging->size_bytes);
    if (!address)
        return false;
    if (MOIETYI_CALL(staging->driver, cuMemHostRegister,
                     (address, staging->size_bytes,
                      CU_MEMHOSTREGISTER_PORTABLE |
                          CU_MEMHOSTREGISTER_DEVICEMAP)) != MOIETY_OK) {
        free(address);
        return false;
    }
    *out = address;
    return true;
}

static inline bool give_registered(struct staging *staging, void *address)
{
    bool is_well = MOIETYI_CALL(staging->driver, cuMemHostUnregister,
                                (address)) == MOIETY_OK;
    free(address);
    return is_well;
}

/* One loop for each subject, in which the compiler sees the calls. */
static inline bool pairs(struct staging *staging, take_fn *take, give_fn *give,
                         uint64_t count, uint64_t *out_ns)
{
    uint64_t begun_ns = clock_now_ns();
    for (uint64_t i = 0; i < count; i++) {
        void *address;
        if (!take(staging, &address) || !give(staging, address))
            return false;
    }
    *out_ns = clock_now_ns() - begun_ns;
    return true;
}

static bool loop_done(void *context, uint64_t count, uint64_t *out_ns)
{
    return pairs(context, take_of_arena, give_done, count, out_ns);
}

static bool loop_stream(void *context, uint64_t count, uint64_t *out_ns)
{
    return pairs(context, take_of_arena, give_on_stream, count, out_ns);
}

static bool loop_driver(void *context, uint64_t count, uint64_t *out_ns)
{
    return pairs(context, take_of_driver, give_to_driver, count, out_ns);
}

static bool loop_registered(void *context, uint64_t count, uint64_t *out_ns)
{
    return pairs(context, take_registered, give_registered, count, out_ns);
}

/* A copy is pending when the block is freed, and others when the next one is
 * asked for. Only the two calls count, with two looks at the clock. */
static bool loop_copy(void *context, uint64_t count, uint64_t *out_ns)
{
    struct staging *s = context;
    *out_ns = 0;
    for (uint64_t i = 1; i <= count; i++) {
        void *address;
        uint64_t begun_ns = clock_now_ns();
        if (!take_of_arena(s, &address))
            return false;
        *out_ns += clock_now_ns() - begun_ns;
        if (MOIETYI_CALL(s->driver, cuMemcpyHtoDAsync,
                         (s->there, address, s->size_bytes, s->stream)) !=
            MOIETY_OK)
            return false;
        begun_ns = clock_now_ns();
        if (!give_on_stream(s, address))
            return false;
        *out_ns += clock_now_ns() - begun_ns;
        if ((i % COPIES_PENDING == 0 || i == count) &&
            MOIETYI_CALL(s->driver, cuStreamSynchronize, (s->stream)) !=
                MOIETY_OK)
            return false;
    }
    return true;
}

/* What of `arena_copy` is the clock's. */
static bool loop_clock(void *context, uint64_t count, uint64_t *out_ns)
{
    (void)context;
    *out_ns = 0;
    for (uint64_t i = 0; i < 2 * count; i++) {
        uint64_t begun_ns = clock_now_ns();
        *out_ns += clock_now_ns() - begun_ns;
    }
    return true;
}

static const struct contender {
    const char *name;
    host_loop *loop;
    take_fn *take; /* NULL: it has no memory */
    give_fn *give;
    uint64_t turns_min; /* of a batch */
} contenders[] = {
    {"arena_done", loop_done, take_of_arena, give_done, 1},
    {"arena_stream", loop_stream, take_of_arena, give_on_stream, 1},
    {"arena_copy", loop_copy, take_of_arena, give_on_stream, COPIES_PENDING},
    {"driver", loop_driver, take_of_driver, give_to_driver, 1},
    {"register", loop_registered, take_registered, give_registered, 1},
    {"clock", loop_clock, NULL, NULL, 1},
};

/* That it is memory at all, and pinned. */
static const char *check(struct staging *staging,
                         const struct contender *contender)
{
    void *address;
    if (!contender->take)
        return NULL;
    if (!contender->take(staging, &address))
        return moiety_last_error_message();
    const char *why =
        host_check_copies(address, staging->size_bytes, staging->there);
    if (!contender->give(staging, address) && !why)
        why = moiety_last_error_message();
    return why;
}

static void measure(struct staging *staging, const struct contender *contender,
                    const struct host_options *options)
{
    struct host_batches batches;
    host_row_begin("staging", contender->name);
    host_row_count("size_bytes", staging->size_bytes);
    if (host_is_over(options)) {
        host_row_skip("no time was left");
        return;
    }
    const char *why = check(staging, contender);
    if (!why &&
        !host_batches_measure(contender->loop, staging, contender->turns_min,
                              options->cell_ms * 1000000, &batches))
        why = moiety_last_error_message();
    if (why) {
        host_row_fail(why);
        return;
    }
    host_row_number("ns_median", batches.ns.median);
    host_row_number("ns_least", batches.ns.least);
    host_row_number("ns_most", batches.ns.most);
    host_row_count("batches", batches.batch_count);
    host_row_count("pairs", batches.turn_count);
    host_row_end();
}

static void measure_size(struct staging *staging,
                         const struct host_options *options)
{
    unsigned count = sizeof(contenders) / sizeof(contenders[0]);
    if (!host_device_alloc(staging->size_bytes, &staging->there)) {
        host_row_begin("staging", NULL);
        host_row_fail(moiety_last_error_message());
        return;
    }
    for (unsigned i = 0; i < count; i++)
        measure(staging, &contenders[i], options);
    host_device_free(staging->there);
}

void host_staging(const struct host_options *options)
{
    static const size_t sizes_bytes[] = {64U << 10, 1U << 20, 16U << 20};
    struct staging staging = {
        .driver = host_driver(),
        .stream = bench_device_streams[0],
    };
    staging.arena = host_arena_open("staging", NULL);
    if (!staging.arena)
        return;
    for (unsigned i = 0; i < sizeof(sizes_bytes) / sizeof(sizes_bytes[0]);
         i++) {
        staging.size_bytes = sizes_bytes[i];
        measure_size(&staging, options);
    }
    host_arena_close("staging", staging.arena);
}
