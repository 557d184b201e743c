/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What it costs to take the caches of threads that sleep: the way by which a
 * pool that is out of memory, or is trimmed, reaches them. --help says what is
 * printed.
 *
 * It does not show what the threads pay, which begin with empty caches
 * afterwards, nor the driver: nothing is pending on the blocks, and no segment
 * is given back.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <moiety/moiety.h>

#include "bench/base/clock.h"
#include "bench/base/command_line.h"
#include "bench/base/device.h"
#include "bench/base/numbers.h"

#define THREADS_MAX 256U
#define BLOCKS_MAX 1024U
#define BLOCK_BYTES ((size_t)4096)
#define ROUNDS 101

static const char help[] =
    "usage: reclaim [--threads=N] [--blocks=N] [--no-membarrier] [--driver=D]\n"
    "  --threads=N      that sleep, 1 to 256 (default 16)\n"
    "  --blocks=N       of 4096 bytes in each one's cache, 1 to 1024 (default\n"
    "                   64)\n"
    "  --no-membarrier  the kernel refuses membarrier(2)\n"
    "  --driver=D       auto, cuda, standin or a path with a / in it "
    "(default:\n"
    "                   what MOIETY_DRIVER says)\n"
    "\n"
    "Prints, as one JSON line, what one thread takes to get all of these "
    "blocks\n"
    "back: ns in all and for each thread, the median of 101 rounds, the least\n"
    "and the most.\n"
    "\n"
    "exit status: 0 all well; 1 something failed; 2 bad argument\n";

static struct {
    moiety_pool *pool;
    uint32_t thread_count;
    uint32_t block_count;
    bool has_membarrier;
    atomic_bool has_failed;
    pthread_barrier_t begin;
    pthread_barrier_t filled;
    pthread_t threads[THREADS_MAX];
    double round_ns[ROUNDS];
} bench = {.thread_count = 16, .block_count = 64};

/* The cache then has as many as were out at once. */
static bool fill_cache(void)
{
    moiety_devptr blocks[BLOCKS_MAX];
    for (unsigned i = 0; i < bench.block_count; i++)
        if (moiety_alloc(bench.pool, BLOCK_BYTES, MOIETY_STREAM_DONE,
                         &blocks[i]) != MOIETY_OK)
            return false;
    return moiety_free_batch(bench.pool, blocks, bench.block_count,
                             MOIETY_STREAM_DONE, NULL) == MOIETY_OK;
}

static void *sleep_with_cache(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < ROUNDS; i++) {
        (void)pthread_barrier_wait(&bench.begin);
        if (!fill_cache())
            /* relaxed: the barrier orders it. */
            atomic_store_explicit(&bench.has_failed, true,
                                  memory_order_relaxed);
        (void)pthread_barrier_wait(&bench.filled);
    }
    /* Asleep, and not gone, until the last round is over. */
    (void)pthread_barrier_wait(&bench.begin);
    return NULL;
}

static bool stats(moiety_stats *out)
{
    out->struct_size = (uint32_t)sizeof(*out);
    return moiety_pool_stats(bench.pool, out) == MOIETY_OK;
}

/* Trims to a byte less than there is: the caches are emptied, and no segment is
 * small enough to go. */
static bool take_back(double *out_ns)
{
    moiety_stats before;
    moiety_stats after;
    if (atomic_load_explicit(&bench.has_failed, memory_order_relaxed) ||
        !stats(&before) || !before.cached_bytes)
        return false;
    uint64_t begin_ns = clock_now_ns();
    if (moiety_pool_trim(bench.pool, before.reserved_bytes_current - 1, NULL) !=
        MOIETY_OK)
        return false;
    *out_ns = (double)(clock_now_ns() - begin_ns);
    return stats(&after) && !after.cached_bytes;
}

static void print(void)
{
    numbers_sort(bench.round_ns, ROUNDS);
    double median = bench.round_ns[ROUNDS / 2];
    (void)printf("{\"program\": \"reclaim\", \"threads\": %u, \"blocks\": %u, "
                 "\"membarrier\": %s, \"rounds\": %d, \"ns_median\": %.0f, "
                 "\"ns_least\": %.0f, \"ns_most\": %.0f, "
                 "\"ns_per_thread_median\": %.1f}\n",
                 bench.thread_count, bench.block_count,
                 bench.has_membarrier ? "true" : "false", ROUNDS, median,
                 bench.round_ns[0], bench.round_ns[ROUNDS - 1],
                 median / bench.thread_count);
}

/* After a failure the rounds go on, or the threads would wait for ever. */
static bool measure(void)
{
    bool is_well = true;
    for (unsigned i = 0; i < bench.thread_count; i++) {
        if (pthread_create(&bench.threads[i], NULL, sleep_with_cache, NULL) !=
            0) {
            (void)fputs("reclaim: no thread\n", stderr);
            exit(1); /* NOLINT(concurrency-mt-unsafe): nobody is at work. */
        }
    }
    for (unsigned i = 0; i < ROUNDS; i++) {
        (void)pthread_barrier_wait(&bench.begin);
        (void)pthread_barrier_wait(&bench.filled);
        is_well = is_well && take_back(&bench.round_ns[i]);
    }
    (void)pthread_barrier_wait(&bench.begin);
    for (unsigned i = 0; i < bench.thread_count; i++)
        (void)pthread_join(bench.threads[i], NULL);
    return is_well;
}

/* From now on, for all threads that are made later too. */
static bool refuse_membarrier(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]),
                                       filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int run(void)
{
    if (!bench.has_membarrier && !refuse_membarrier()) {
        (void)fputs("reclaim: membarrier(2) cannot be refused here\n", stderr);
        return 1;
    }
    const char *why = bench_device_start(1);
    if (why) {
        (void)fprintf(stderr, "reclaim: %s\n", why);
        return 1;
    }
    (void)pthread_barrier_init(&bench.begin, NULL, bench.thread_count + 1);
    (void)pthread_barrier_init(&bench.filled, NULL, bench.thread_count + 1);
    const moiety_pool_options options = {.struct_size = sizeof options,
                                         .memory = MOIETY_MEMORY_DRIVER};
    bool is_well = bench_device_attach(0) &&
                   moiety_pool_create(&options, &bench.pool) == MOIETY_OK &&
                   measure();
    if (is_well)
        print();
    else
        (void)fprintf(stderr, "reclaim: failed; %s\n",
                      moiety_last_error_message());
    (void)moiety_pool_destroy(bench.pool, NULL);
    bench_device_stop();
    return is_well ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *driver = NULL;
    bool is_help = false;
    bool has_no_membarrier = false;
    const struct command_option options[] = {
        {"threads", 1, THREADS_MAX, .number32 = &bench.thread_count},
        {"blocks", 1, BLOCKS_MAX, .number32 = &bench.block_count},
        {"no-membarrier", .is_given = &has_no_membarrier},
        {"driver", .text = &driver},
        {"help", .is_given = &is_help},
        {.name = NULL},
    };
    const struct command_line line = {"reclaim: bad argument", NULL, options,
                                      false};
    if (command_line_read(&line, argc, argv) < 0)
        return 2;
    if (is_help)
        return fputs(help, stdout) < 0;
    bench.has_membarrier = !has_no_membarrier;
    return command_line_use_driver(driver) ? run() : 1;
}
