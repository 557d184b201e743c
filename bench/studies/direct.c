/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The pair in a loop of its own: what bench shows of it without what bench
 * itself costs, which calls every subject through a pointer. --help says what
 * is printed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <moiety/moiety.h>

#include "bench/base/clock.h"
#include "bench/base/command_line.h"
#include "bench/base/device.h"
#include "bench/base/numbers.h"

#define MIMALLOC "libmimalloc.so.2"
#define REPEATS 9
#define PAIRS 200000

static const char help[] =
    "usage: direct [--size=BYTES] [--driver=D]\n"
    "  --size=BYTES  of the block (default 65536)\n"
    "  --driver=D    auto, cuda, standin or a path with a / in it (default:\n"
    "                what MOIETY_DRIVER says)\n"
    "\n"
    "Prints, as JSON Lines, what an allocation and a free of the same block\n"
    "take in a loop that does nothing else, on one pinned thread: the\n"
    "median, the least and the most of 9 repetitions of 200000 pairs, in\n"
    "ns. Subjects: moiety, moiety_sized, malloc and, where there is\n" MIMALLOC
    ", mimalloc.\n"
    "\n"
    "exit status: 0 all well; 1 something failed; 2 bad argument\n";

static struct {
    moiety_pool *pool;
    moiety_stream stream;
    uint64_t size_bytes;
    void *(*alloc)(size_t); /* of mimalloc */
    void (*free)(void *);
} bench = {.size_bytes = 65536};

/* One function a subject, so that the compiler sees the calls in the loop. */
static bool loop_moiety(void)
{
    moiety_devptr address;
    for (unsigned i = 0; i < PAIRS; i++)
        if (moiety_alloc(bench.pool, bench.size_bytes, bench.stream,
                         &address) != MOIETY_OK ||
            moiety_free(bench.pool, address, bench.stream) != MOIETY_OK)
            return false;
    return true;
}

static bool loop_sized(void)
{
    moiety_devptr address;
    for (unsigned i = 0; i < PAIRS; i++)
        if (moiety_alloc(bench.pool, bench.size_bytes, bench.stream,
                         &address) != MOIETY_OK ||
            moiety_free_sized(bench.pool, address, bench.size_bytes,
                              bench.stream) != MOIETY_OK)
            return false;
    return true;
}

/* The address goes where the compiler cannot follow, or it would leave the pair
 * out. */
static bool loop_malloc(void)
{
    void *volatile block;
    for (unsigned i = 0; i < PAIRS; i++) {
        block = malloc(bench.size_bytes);
        if (!block)
            return false;
        free(block);
    }
    return true;
}

static bool loop_mimalloc(void)
{
    for (unsigned i = 0; i < PAIRS; i++) {
        void *block = bench.alloc(bench.size_bytes);
        if (!block)
            return false;
        bench.free(block);
    }
    return true;
}

static bool measure(const char *subject, bool (*loop)(void))
{
    double ns[REPEATS];
    if (!loop()) /* warms up */
        return false;
    for (unsigned i = 0; i < REPEATS; i++) {
        uint64_t begun_ns = clock_now_ns();
        if (!loop())
            return false;
        ns[i] = (double)(clock_now_ns() - begun_ns) / PAIRS;
    }
    numbers_sort(ns, REPEATS);
    return printf("{\"workload\":\"direct_pair\",\"subject\":\"%s\","
                  "\"size_bytes\":%" PRIu64 ",\"ns_per_op_median\":%.2f,"
                  "\"ns_per_op_least\":%.2f,\"ns_per_op_most\":%.2f}\n",
                  subject, bench.size_bytes, ns[REPEATS / 2], ns[0],
                  ns[REPEATS - 1]) > 0;
}

static bool find_mimalloc(void)
{
    void *library = dlopen(MIMALLOC, RTLD_NOW);
    void *found_alloc = library ? dlsym(library, "mi_malloc") : NULL;
    void *found_free = library ? dlsym(library, "mi_free") : NULL;
    /* ISO C has no conversion between the two kinds of pointers. */
    memcpy(&bench.alloc, &found_alloc, sizeof(found_alloc));
    memcpy(&bench.free, &found_free, sizeof(found_free));
    return found_alloc && found_free;
}

static bool measure_all(void)
{
    return measure("moiety", loop_moiety) &&
           measure("moiety_sized", loop_sized) &&
           measure("malloc", loop_malloc) &&
           (!find_mimalloc() || measure("mimalloc", loop_mimalloc));
}

static void pin(void)
{
    cpu_set_t set;
    int processor = sched_getcpu();
    CPU_ZERO(&set);
    if (processor >= 0)
        CPU_SET((size_t)processor, &set);
    /* Not pinned, the numbers only spread more. */
    (void)sched_setaffinity(0, sizeof(set), &set);
}

static int run(void)
{
    const char *why = bench_device_start(1);
    if (why) {
        (void)fprintf(stderr, "direct: %s\n", why);
        return 1;
    }
    pin();
    bench.stream = bench_device_streams[0];
    const moiety_pool_options options = {.struct_size = sizeof options,
                                         .memory = MOIETY_MEMORY_DRIVER};
    bool is_well = bench_device_attach(0) &&
                   moiety_pool_create(&options, &bench.pool) == MOIETY_OK &&
                   measure_all();
    if (!is_well)
        (void)fprintf(stderr, "direct: %s\n", moiety_last_error_message());
    (void)moiety_pool_destroy(bench.pool, NULL);
    bench_device_stop();
    return is_well ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *driver = NULL;
    bool is_help = false;
    const struct command_option options[] = {
        {"size", 1, UINT64_MAX, .number = &bench.size_bytes, .is_bytes = true},
        {"driver", .text = &driver},
        {"help", .is_given = &is_help},
        {.name = NULL},
    };
    const struct command_line line = {"direct: bad argument", NULL, options,
                                      false};
    if (command_line_read(&line, argc, argv) < 0)
        return 2;
    if (is_help)
        return fputs(help, stdout) < 0;
    return command_line_use_driver(driver) ? run() : 1;
}
