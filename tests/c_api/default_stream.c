/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a null stream means to a caller. A block that was freed on a stream is
 * the next one for that stream, so the next one tells which stream was meant.
 * Built as C and as C++, with CUDA_API_PER_THREAD_DEFAULT_STREAM and without.
 */
#define _DEFAULT_SOURCE
#include <moiety/history.h>
#include <moiety/moiety.h>
#include <moiety/private.h>
#include <moiety/scope.h>
#include <moiety/tenant.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define MEANT MOIETY_STREAM_PER_THREAD
#define NOT_MEANT MOIETY_STREAM_LEGACY
#define NULL_OF_CALLER MOIETY_STREAM_PER_THREAD
#else
#define MEANT MOIETY_STREAM_LEGACY
#define NOT_MEANT MOIETY_STREAM_PER_THREAD
#define NULL_OF_CALLER NULL
#endif

#define BLOCK_BYTES ((size_t)4096)
#define WAIT_MS 60000
#define LARGE_BYTES ((size_t)64 << 20)

static int failure_count;

static void check(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "default_stream: failed: %s (%s)\n", what,
                moiety_last_error_message());
        failure_count++;
    }
}

/* Tests run in the root of their runfiles. */
static void name_driver(void)
{
    char folder[PATH_MAX];
    char library[PATH_MAX + 64];
    check(getcwd(folder, sizeof folder) != NULL, "the folder has a name");
    snprintf(library, sizeof library, "%s/pool/standin/libcuda.so.1", folder);
    setenv("MOIETY_DRIVER", library, 1);
}

static moiety_devptr alloc_on(moiety_pool *pool, moiety_stream stream)
{
    moiety_devptr address = 0;
    check(moiety_alloc(pool, BLOCK_BYTES, stream, &address) == MOIETY_OK,
          "an allocation");
    return address;
}

/* Whether `address`, which was just freed, was freed on the stream that null
 * means. It is allocated again after that. */
static void check_freed_on_meant(moiety_pool *pool, moiety_devptr address,
                                 const char *what)
{
    moiety_devptr other = alloc_on(pool, NOT_MEANT);
    check(other != address, what);
    check(alloc_on(pool, MEANT) == address, what);
    check(moiety_free(pool, other, MOIETY_STREAM_DONE) == MOIETY_OK, what);
}

static void check_frees(moiety_pool *pool)
{
    size_t freed_count = 0;
    moiety_devptr address = alloc_on(pool, MEANT);
    check(moiety_free(pool, address, NULL) == MOIETY_OK, "free");
    check_freed_on_meant(pool, address, "free");
    check(moiety_free_no_call(pool, address, NULL) == MOIETY_OK, "free_cached");
    check_freed_on_meant(pool, address, "free_cached");
    check(moiety_free_sized(pool, address, BLOCK_BYTES, NULL) == MOIETY_OK,
          "free_sized");
    check_freed_on_meant(pool, address, "free_sized");
    check(moiety_free_batch(pool, &address, 1, NULL, &freed_count) == MOIETY_OK,
          "free_batch");
    check_freed_on_meant(pool, address, "free_batch");
    check(moiety_free_all(pool, NULL, NULL) == MOIETY_OK, "free_all");
    check_freed_on_meant(pool, address, "free_all");
    check(moiety_free(pool, address, MEANT) == MOIETY_OK, "the last free");
}

/* A block that gives its end back on the stream, and grows into it again. */
static void check_resize(moiety_pool *pool)
{
    moiety_devptr address = alloc_on(pool, MEANT);
    check(moiety_resize(pool, address, BLOCK_BYTES / 4, NULL) == MOIETY_OK,
          "a shorter block");
    check(moiety_resize(pool, address, BLOCK_BYTES, NOT_MEANT) ==
              MOIETY_E_NO_ROOM,
          "a stream that may not have it");
    check(moiety_resize(pool, address, BLOCK_BYTES, NULL) == MOIETY_OK,
          "a longer block");
    check(moiety_free(pool, address, MEANT) == MOIETY_OK, "a free");
}

static void check_alloc_with(moiety_pool *pool,
                             const moiety_alloc_options *options)
{
    moiety_devptr address = alloc_on(pool, MEANT);
    moiety_devptr got = 0;
    check(moiety_free(pool, address, MEANT) == MOIETY_OK, "a free");
    check(moiety_alloc_with(pool, BLOCK_BYTES, NULL, options, &got) ==
                  MOIETY_OK &&
              got == address,
          "alloc_with");
    check(moiety_free(pool, address, MEANT) == MOIETY_OK, "a free");
}

static void check_allocs(moiety_pool *pool)
{
    const uint32_t ways[] = {0, MOIETY_ALLOC_NO_CALL, MOIETY_ALLOC_NO_WAIT,
                             MOIETY_ALLOC_ZEROED};
    moiety_alloc_options options = MOIETY_ALLOC_OPTIONS_INIT;
    moiety_devptr address = alloc_on(pool, MEANT);
    moiety_devptr got = 0;
    check(moiety_free(pool, address, MEANT) == MOIETY_OK, "a free");
    check(moiety_alloc(pool, BLOCK_BYTES, NULL, &got) == MOIETY_OK &&
              got == address,
          "alloc");
    check(moiety_free(pool, address, MEANT) == MOIETY_OK, "a free");
    check(moiety_alloc_batch(pool, BLOCK_BYTES, NULL, 1, &got) == MOIETY_OK &&
              got == address,
          "alloc_batch");
    check(moiety_free(pool, address, MEANT) == MOIETY_OK, "a free");
    check_alloc_with(pool, NULL);
    options.alignment_bytes = 512;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        options.flags = ways[i];
        check_alloc_with(pool, &options);
    }
}

static void check_tenant_allocs(moiety_pool *pool)
{
    moiety_alloc_options options = MOIETY_ALLOC_OPTIONS_INIT;
    check(moiety_tenant_create(pool, NULL, &options.tenant) == MOIETY_OK,
          "a tenant");
    check_alloc_with(pool, &options);
    check(moiety_tenant_destroy(options.tenant) == MOIETY_OK, "its end");
}

/* The use is taken and ends with the free: the block serves again, as no stream
 * has work. No other block of the pool is so large. Which stream null means here
 * would show only beside work. */
static void check_record_use(moiety_pool *pool)
{
    moiety_devptr address = 0;
    moiety_devptr again = 0;
    check(moiety_alloc(pool, LARGE_BYTES, MEANT, &address) == MOIETY_OK,
          "a large allocation");
    check(moiety_record_use(pool, address, NULL) == MOIETY_OK, "record_use");
    check(moiety_free(pool, address, MEANT) == MOIETY_OK, "a free");
    check(moiety_pool_synchronize(pool, WAIT_MS) == MOIETY_OK, "a wait");
    check(moiety_alloc(pool, LARGE_BYTES, MEANT, &again) == MOIETY_OK &&
              again == address,
          "record_use");
    check(moiety_free(pool, again, MEANT) == MOIETY_OK, "a free");
}

/* The stream of the newest call. */
static moiety_stream noted_stream(moiety_pool *pool)
{
    moiety_history_entry entry;
    moiety_history_summary summary;
    memset(&entry, 0, sizeof entry);
    memset(&summary, 0, sizeof summary);
    summary.struct_size = sizeof summary;
    check(moiety_history_read(pool, &entry, 1, &summary) == MOIETY_OK &&
              summary.count == 1,
          "the newest entry");
    return entry.stream;
}

/* A block whose work is over serves any stream of the arena: the history tells
 * which stream was meant. */
static void check_private_blocks(moiety_pool *pool, moiety_private arena)
{
    moiety_alloc_options options = MOIETY_ALLOC_OPTIONS_INIT;
    moiety_devptr address = 0;
    options.private_arena = arena;
    check(moiety_alloc_with(pool, BLOCK_BYTES, NULL, &options, &address) ==
              MOIETY_OK,
          "alloc_with of an arena");
    check(noted_stream(pool) == NULL_OF_CALLER, "its stream");
    check(moiety_free(pool, address, MEANT) == MOIETY_OK, "a free");
    check(moiety_private_claim(arena, address, BLOCK_BYTES, NULL) == MOIETY_OK,
          "private_claim");
    check(noted_stream(pool) == NULL_OF_CALLER, "private_claim's stream");
    check(moiety_free(pool, address, MEANT) == MOIETY_OK, "a free");
}

/* The legacy stream cannot capture, a thread's own can. */
static void check_private_scope(moiety_private arena)
{
    const moiety_status expected =
        NULL_OF_CALLER ? MOIETY_OK : MOIETY_E_INVALID;
    moiety_scope scope = 0;
    check(moiety_private_scope_begin(arena, NULL, &scope) == expected,
          "private_scope_begin");
    check(!scope || moiety_scope_end(scope) == MOIETY_OK, "a scope's end");
}

static void check_private(void)
{
    moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
    moiety_pool *pool = NULL;
    moiety_private arena = 0;
    options.history_entries = 16;
    check(moiety_pool_create(&options, &pool) == MOIETY_OK, "a noting pool");
    if (!pool)
        return;
    check(moiety_private_create(pool, NULL, &arena) == MOIETY_OK, "an arena");
    check_private_blocks(pool, arena);
    check_private_scope(arena);
    check(moiety_private_destroy(arena) == MOIETY_OK, "its end");
    check(moiety_pool_destroy(pool, NULL) == MOIETY_OK, "the pool's end");
}

int main(void)
{
    moiety_pool *pool = NULL;
    name_driver();
    check(moiety_stream_of_caller(NULL) == NULL_OF_CALLER,
          "the null stream of the caller");
    check(moiety_stream_of_caller(MOIETY_STREAM_ANY) == MOIETY_STREAM_ANY,
          "another stream of the caller");
    check(moiety_pool_create(NULL, &pool) == MOIETY_OK, "a pool");
    if (pool) {
        check_frees(pool);
        check_resize(pool);
        check_allocs(pool);
        check_tenant_allocs(pool);
        check_record_use(pool);
        check(moiety_pool_destroy(pool, NULL) == MOIETY_OK, "its end");
    }
    check_private();
    printf("default_stream: %d failed\n", failure_count);
    return failure_count == 0 ? 0 : 1;
}
