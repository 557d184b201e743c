/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a null stream means to a caller. A block that was freed on a stream is
 * the next one for that stream, so the next one tells which stream was meant.
 * Built as C and as C++, with CUDA_API_PER_THREAD_DEFAULT_STREAM and without.
 */
#define _DEFAULT_SOURCE
#include <binade/binade.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define MEANT BINADE_STREAM_PER_THREAD
#define NOT_MEANT BINADE_STREAM_LEGACY
#define NULL_OF_CALLER BINADE_STREAM_PER_THREAD
#else
#define MEANT BINADE_STREAM_LEGACY
#define NOT_MEANT BINADE_STREAM_PER_THREAD
#define NULL_OF_CALLER NULL
#endif

#define BLOCK_BYTES ((size_t)4096)
#define LARGE_BYTES ((size_t)64 << 20)

static int failure_count;

static void check(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "default_stream: failed: %s (%s)\n", what,
                binade_last_error_message());
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
    setenv("BINADE_DRIVER", library, 1);
}

static binade_devptr alloc_on(binade_pool *pool, binade_stream stream)
{
    binade_devptr address = 0;
    check(binade_alloc(pool, BLOCK_BYTES, stream, &address) == BINADE_OK,
          "an allocation");
    return address;
}

/* Whether `address`, which was just freed, was freed on the stream that null
 * means. It is allocated again after that. */
static void check_freed_on_meant(binade_pool *pool, binade_devptr address,
                                 const char *what)
{
    binade_devptr other = alloc_on(pool, NOT_MEANT);
    check(other != address, what);
    check(alloc_on(pool, MEANT) == address, what);
    check(binade_free(pool, other, BINADE_STREAM_DONE) == BINADE_OK, what);
}

static void check_frees(binade_pool *pool)
{
    size_t freed_count = 0;
    binade_devptr address = alloc_on(pool, MEANT);
    check(binade_free(pool, address, NULL) == BINADE_OK, "free");
    check_freed_on_meant(pool, address, "free");
    check(binade_free_cached(pool, address, NULL) == BINADE_OK, "free_cached");
    check_freed_on_meant(pool, address, "free_cached");
    check(binade_free_sized(pool, address, BLOCK_BYTES, NULL) == BINADE_OK,
          "free_sized");
    check_freed_on_meant(pool, address, "free_sized");
    check(binade_free_batch(pool, &address, 1, NULL, &freed_count) == BINADE_OK,
          "free_batch");
    check_freed_on_meant(pool, address, "free_batch");
    check(binade_free_all(pool, NULL, NULL) == BINADE_OK, "free_all");
    check_freed_on_meant(pool, address, "free_all");
    check(binade_free(pool, address, MEANT) == BINADE_OK, "the last free");
}

/* A block that gives its end back on the stream, and grows into it again. */
static void check_resize(binade_pool *pool)
{
    binade_devptr address = alloc_on(pool, MEANT);
    check(binade_resize(pool, address, BLOCK_BYTES / 4, NULL) == BINADE_OK,
          "a shorter block");
    check(binade_resize(pool, address, BLOCK_BYTES, NOT_MEANT) == BINADE_E_BUSY,
          "a stream that may not have it");
    check(binade_resize(pool, address, BLOCK_BYTES, NULL) == BINADE_OK,
          "a longer block");
    check(binade_free(pool, address, MEANT) == BINADE_OK, "a free");
}

static void check_allocs(binade_pool *pool)
{
    binade_devptr address = alloc_on(pool, MEANT);
    binade_devptr got = 0;
    check(binade_free(pool, address, MEANT) == BINADE_OK, "a free");
    check(binade_alloc(pool, BLOCK_BYTES, NULL, &got) == BINADE_OK &&
              got == address,
          "alloc");
    check(binade_free(pool, address, MEANT) == BINADE_OK, "a free");
    check(binade_alloc_cached(pool, BLOCK_BYTES, NULL, &got) == BINADE_OK &&
              got == address,
          "alloc_cached");
    check(binade_free(pool, address, MEANT) == BINADE_OK, "a free");
    check(binade_try_alloc(pool, BLOCK_BYTES, NULL, &got) == BINADE_OK &&
              got == address,
          "try_alloc");
    check(binade_free(pool, address, MEANT) == BINADE_OK, "a free");
    check(binade_alloc_aligned(pool, BLOCK_BYTES, 512, NULL, &got) ==
                  BINADE_OK &&
              got == address,
          "alloc_aligned");
    check(binade_free(pool, address, MEANT) == BINADE_OK, "a free");
    check(binade_alloc_batch(pool, BLOCK_BYTES, NULL, 1, &got) == BINADE_OK &&
              got == address,
          "alloc_batch");
    check(binade_free(pool, address, MEANT) == BINADE_OK, "a free");
}

static void check_tenant_allocs(binade_pool *pool)
{
    binade_tenant tenant = 0;
    binade_devptr address = alloc_on(pool, MEANT);
    binade_devptr got = 0;
    check(binade_tenant_create(pool, NULL, 0, &tenant) == BINADE_OK,
          "a tenant");
    check(binade_free(pool, address, MEANT) == BINADE_OK, "a free");
    check(binade_tenant_alloc(tenant, BLOCK_BYTES, NULL, &got) == BINADE_OK &&
              got == address,
          "tenant_alloc");
    check(binade_free(pool, address, MEANT) == BINADE_OK, "a free");
    check(binade_tenant_try_alloc(tenant, BLOCK_BYTES, NULL, &got) ==
                  BINADE_OK &&
              got == address,
          "tenant_try_alloc");
    check(binade_free(pool, address, MEANT) == BINADE_OK, "a free");
    check(binade_tenant_alloc_aligned(tenant, BLOCK_BYTES, 512, NULL, &got) ==
                  BINADE_OK &&
              got == address,
          "tenant_alloc_aligned");
    check(binade_free(pool, address, MEANT) == BINADE_OK, "a free");
    check(binade_tenant_destroy(tenant) == BINADE_OK, "its end");
}

/* The use is taken and ends with the free: the block serves again, as no stream
 * has work. No other block of the pool is so large. Which stream null means here
 * would show only beside work. */
static void check_record_use(binade_pool *pool)
{
    binade_devptr address = 0;
    binade_devptr again = 0;
    check(binade_alloc(pool, LARGE_BYTES, MEANT, &address) == BINADE_OK,
          "a large allocation");
    check(binade_record_use(pool, address, NULL) == BINADE_OK, "record_use");
    check(binade_free(pool, address, MEANT) == BINADE_OK, "a free");
    check(binade_alloc(pool, LARGE_BYTES, MEANT, &again) == BINADE_OK &&
              again == address,
          "record_use");
    check(binade_free(pool, again, MEANT) == BINADE_OK, "a free");
}

/* The stream of the newest call. */
static binade_stream noted_stream(binade_pool *pool)
{
    binade_history_entry entry;
    binade_history_summary summary;
    memset(&entry, 0, sizeof entry);
    memset(&summary, 0, sizeof summary);
    summary.struct_size = sizeof summary;
    check(binade_history_read(pool, &entry, 1, &summary) == BINADE_OK &&
              summary.count == 1,
          "the newest entry");
    return entry.stream;
}

/* A block whose work is over serves any stream of the arena: the history tells
 * which stream was meant. */
static void check_private_blocks(binade_pool *pool, binade_private arena)
{
    binade_devptr address = 0;
    check(binade_private_alloc(arena, BLOCK_BYTES, NULL, &address) == BINADE_OK,
          "private_alloc");
    check(noted_stream(pool) == NULL_OF_CALLER, "private_alloc's stream");
    check(binade_free(pool, address, MEANT) == BINADE_OK, "a free");
    check(binade_private_claim(arena, address, BLOCK_BYTES, NULL) == BINADE_OK,
          "private_claim");
    check(noted_stream(pool) == NULL_OF_CALLER, "private_claim's stream");
    check(binade_free(pool, address, MEANT) == BINADE_OK, "a free");
}

/* The legacy stream cannot capture, a thread's own can. */
static void check_private_scope(binade_private arena)
{
    const binade_status expected =
        NULL_OF_CALLER ? BINADE_OK : BINADE_E_INVALID;
    binade_scope scope = 0;
    check(binade_private_scope_begin(arena, NULL, &scope) == expected,
          "private_scope_begin");
    check(!scope || binade_scope_end(scope) == BINADE_OK, "a scope's end");
}

static void check_private(void)
{
    binade_pool_options options = BINADE_POOL_OPTIONS_INIT;
    binade_pool *pool = NULL;
    binade_private arena = 0;
    options.history_entries = 16;
    check(binade_pool_create(&options, &pool) == BINADE_OK, "a noting pool");
    if (!pool)
        return;
    check(binade_private_create(pool, 0, &arena) == BINADE_OK, "an arena");
    check_private_blocks(pool, arena);
    check_private_scope(arena);
    check(binade_private_release(arena) == BINADE_OK, "its end");
    check(binade_pool_destroy(pool, NULL) == BINADE_OK, "the pool's end");
}

int main(void)
{
    binade_pool *pool = NULL;
    name_driver();
    check(binade_stream_of_caller(NULL) == NULL_OF_CALLER,
          "the null stream of the caller");
    check(binade_stream_of_caller(BINADE_STREAM_ANY) == BINADE_STREAM_ANY,
          "another stream of the caller");
    check(binade_pool_create(NULL, &pool) == BINADE_OK, "a pool");
    if (pool) {
        check_frees(pool);
        check_resize(pool);
        check_allocs(pool);
        check_tenant_allocs(pool);
        check_record_use(pool);
        check(binade_pool_destroy(pool, NULL) == BINADE_OK, "its end");
    }
    check_private();
    printf("default_stream: %d failed\n", failure_count);
    return failure_count == 0 ? 0 : 1;
}
