/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * One pool in a server with threads: each worker allocates for a stream of its
 * own and frees without waiting, a request that finds no memory is refused
 * while the others go on, and the pool reports leaks at its end.
 */
#include <moiety/moiety.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

enum { WORKERS = 4, REQUESTS = 1000 };

struct worker {
    pthread_t thread;
    moiety_pool *pool;
    unsigned served;
    unsigned refused;
};

static bool did(moiety_status status, const char *what)
{
    if (status != MOIETY_OK)
        fprintf(stderr, "%s: %s: %s\n", what, moiety_status_name(status),
                moiety_last_error_message());
    return status == MOIETY_OK;
}

/* False for what no later request can get over. */
static bool serve(struct worker *worker, size_t size_bytes)
{
    moiety_stream stream = MOIETY_STREAM_PER_THREAD; /* or one of yours */
    moiety_devptr buffer;
    moiety_status status =
        moiety_alloc(worker->pool, size_bytes, stream, &buffer);
    if (status == MOIETY_E_NO_DEVICE_MEMORY) {
        worker->refused++;
        return true;
    }
    if (!did(status, "alloc"))
        return false;

    /* Copies and kernels that use the buffer go on the stream here. */

    /* Waits for nothing: the block serves this stream again at once, and other
     * streams when the work is over. */
    worker->served++;
    return did(moiety_free_sized(worker->pool, buffer, size_bytes, stream),
               "free");
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    for (size_t request = 0; request < REQUESTS; request++)
        if (!serve(worker, (request % 8 + 1) << 14))
            break;
    return NULL;
}

static bool run_workers(moiety_pool *pool)
{
    struct worker workers[WORKERS] = {0};
    unsigned served = 0, refused = 0, started = 0;
    for (; started < WORKERS; started++) {
        workers[started].pool = pool;
        if (pthread_create(&workers[started].thread, NULL, work,
                           &workers[started]) != 0)
            break;
    }
    /* A thread that ends leaves what its cache holds to the others. */
    for (unsigned i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        served += workers[i].served;
        refused += workers[i].refused;
    }
    printf("%u requests served, %u refused\n", served, refused);
    return served + refused == WORKERS * REQUESTS;
}

int main(void)
{
    moiety_pool *pool;
    moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
    options.limit_bytes = UINT64_C(1) << 30;
    options.first_segment_bytes = UINT64_C(64) << 20;
    if (!did(moiety_pool_create(&options, &pool), "create"))
        return 1;
    bool is_good = run_workers(pool);

    moiety_leaks leaks = {.struct_size = sizeof leaks};
    if (!did(moiety_pool_destroy(pool, &leaks), "destroy"))
        return 1;
    printf("%llu blocks leaked\n", (unsigned long long)leaks.block_count);
    return is_good && leaks.block_count == 0 ? 0 : 1;
}
