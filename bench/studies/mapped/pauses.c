/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How long a pause and a resume of a private arena take, with contents and
 * without, whether the contents are there again, and whether a graph that was
 * captured before writes what it wrote. --help says what is printed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/base/clock.h"
#include "bench/base/command_line.h"
#include "bench/base/numbers.h"
#include "bench/studies/mapped/must.h"
#include "moiety/moiety.h"
#include "moiety/private.h"
#include "moiety/scope.h"
#include "pool/driver/driver_table.h"

#define MIB (UINT64_C(1) << 20)
#define CYCLES_MOST 100000U
#define NAME_BYTES 128
#define GRAPH_WORD 0x5a5a5a5aU

static const char help[] =
    "usage: pauses [--mib=N] [--block=N] [--cycles=N] [--driver=D]\n"
    "  --mib=N     memory of the arena, 2 to 131072 (default 4096)\n"
    "  --block=N   MiB of a block, 2 to 65536 (default 64)\n"
    "  --cycles=N  pauses and resumes of each kind, 1 to 100000 (default 20)\n"
    "  --driver=D  auto, cuda, standin or a path with a / in it (default:\n"
    "              what MOIETY_DRIVER says)\n"
    "\n"
    "Prints, as JSON Lines, for contents that are kept and for others: the\n"
    "median and the longest ms of a pause and of a resume, the first pause,\n"
    "which pins memory of the host, GB/s of the contents by the medians, and\n"
    "wrong words, after the last cycle and after a launch of a graph that was\n"
    "captured before the first.\n"
    "\n"
    "exit status: 0 all well; 1 a wrong word, or something failed; 2 bad\n"
    "argument\n";

static struct {
    const struct moietyi_driver *driver;
    CUstream stream;
    CUgraphExec graph;
    char device[NAME_BYTES];
    uint64_t mib;
    uint64_t block_mib;
    uint64_t cycles;
    moiety_private arena;
    moiety_devptr *blocks;
    uint64_t block_count;
    double pause_ms[CYCLES_MOST];
    double resume_ms[CYCLES_MOST];
} study = {.mib = 4096, .block_mib = 64, .cycles = 20};

static size_t block_bytes(void)
{
    return study.block_mib * MIB;
}

static void set_words(moiety_devptr block, unsigned word)
{
    MUST(cuMemsetD32Async,
         (block, word, block_bytes() / sizeof(word), study.stream));
}

/* Block i has i in all its words. */
static void fill(void)
{
    for (uint64_t i = 0; i < study.block_count; i++)
        set_words(study.blocks[i], (unsigned)i);
    MUST(cuStreamSynchronize, (study.stream));
}

static uint64_t wrong_words(moiety_devptr block, unsigned word)
{
    uint64_t wrong = 0;
    size_t count = block_bytes() / sizeof(unsigned);
    unsigned *words = malloc(block_bytes());
    if (!words)
        must(CUDA_ERROR_OUT_OF_MEMORY, "malloc");
    MUST(cuMemcpyDtoHAsync, (words, block, block_bytes(), study.stream));
    MUST(cuStreamSynchronize, (study.stream));
    for (size_t i = 0; i < count; i++)
        wrong += words[i] != word;
    free(words);
    return wrong;
}

static uint64_t all_wrong_words(void)
{
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < study.block_count; i++)
        wrong += wrong_words(study.blocks[i], (unsigned)i);
    return wrong;
}

/* A graph that sets the last block, in a scope of the arena. */
static void capture(moiety_scope *out)
{
    CUgraph graph;
    must_be(moiety_private_scope_begin(study.arena, study.stream, out));
    MUST(cuStreamBeginCapture, (study.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    set_words(study.blocks[study.block_count - 1], GRAPH_WORD);
    MUST(cuStreamEndCapture, (study.stream, &graph));
    must_be(moiety_scope_end(*out));
    MUST(cuGraphInstantiateWithFlags, (&study.graph, graph, 0));
    MUST(cuGraphDestroy, (graph));
}

static uint64_t wrong_after_replay(void)
{
    MUST(cuGraphLaunch, (study.graph, study.stream));
    MUST(cuStreamSynchronize, (study.stream));
    return wrong_words(study.blocks[study.block_count - 1], GRAPH_WORD);
}

static double ms_since(uint64_t begun_ns)
{
    return (double)(clock_now_ns() - begun_ns) / 1e6;
}

static void cycle(uint64_t i, uint32_t flags)
{
    uint64_t begun_ns = clock_now_ns();
    must_be(moiety_private_pause(study.arena, flags));
    study.pause_ms[i] = ms_since(begun_ns);
    begun_ns = clock_now_ns();
    must_be(moiety_private_resume(study.arena));
    study.resume_ms[i] = ms_since(begun_ns);
}

static double speed(double ms)
{
    return (double)(study.block_count * block_bytes()) / ms / 1e6;
}

/* Returns the wrong words. */
static uint64_t measure(uint32_t flags)
{
    const uint64_t n = study.cycles;
    bool is_keeping = (flags & MOIETY_PAUSE_KEEP_CONTENTS) != 0;
    fill();
    for (uint64_t i = 0; i < n; i++)
        cycle(i, flags);
    uint64_t wrong = is_keeping ? all_wrong_words() : 0;
    uint64_t wrong_replayed = wrong_after_replay();
    double first_ms = study.pause_ms[0];
    numbers_sort(study.pause_ms, (size_t)n);
    numbers_sort(study.resume_ms, (size_t)n);
    double pause_ms = numbers_median(study.pause_ms, (size_t)n);
    double resume_ms = numbers_median(study.resume_ms, (size_t)n);
    printf("{\"kind\":\"pauses\",\"device\":\"%s\",\"keeps\":%s,"
           "\"bytes\":%" PRIu64 ",\"cycles\":%" PRIu64
           ",\"first_pause_ms\":%.3f,\"pause_ms\":%.3f,\"pause_most_ms\":%.3f,"
           "\"resume_ms\":%.3f,\"resume_most_ms\":%.3f",
           study.device, is_keeping ? "true" : "false",
           study.block_count * (uint64_t)block_bytes(), n, first_ms, pause_ms,
           study.pause_ms[n - 1], resume_ms, study.resume_ms[n - 1]);
    if (is_keeping)
        printf(",\"pause_gb_s\":%.2f,\"resume_gb_s\":%.2f,"
               "\"wrong_words\":%" PRIu64,
               speed(pause_ms), speed(resume_ms), wrong);
    printf(",\"wrong_words_replayed\":%" PRIu64 "}\n", wrong_replayed);
    (void)fflush(stdout);
    return wrong + wrong_replayed;
}

static void take_blocks(void)
{
    study.block_count = study.mib / study.block_mib;
    study.blocks = calloc(study.block_count, sizeof(*study.blocks));
    if (!study.blocks)
        must(CUDA_ERROR_OUT_OF_MEMORY, "calloc");
    const moiety_alloc_options options = {.struct_size = sizeof options,
                                          .private_arena = study.arena};
    for (uint64_t i = 0; i < study.block_count; i++)
        must_be(moiety_alloc_with(NULL, block_bytes(), study.stream, &options,
                                  &study.blocks[i]));
}

static void open_device(void)
{
    CUcontext context;
    CUdevice device;
    must_be(moietyi_driver_open(&study.driver));
    MUST(cuInit, (0));
    MUST(cuDeviceGet, (&device, 0));
    MUST(cuDeviceGetName, (study.device, NAME_BYTES, device));
    MUST(cuDevicePrimaryCtxRetain, (&context, device));
    MUST(cuCtxSetCurrent, (context));
    MUST(cuStreamCreate, (&study.stream, CU_STREAM_NON_BLOCKING));
}

static int run(void)
{
    moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
    const moiety_private_options wanted = {.struct_size = sizeof(wanted),
                                           .flags = MOIETY_PRIVATE_PAUSABLE};
    moiety_pool *pool;
    moiety_scope scope;
    open_device();
    options.memory = MOIETY_MEMORY_MAPPED;
    must_be(moiety_pool_create(&options, &pool));
    must_be(moiety_private_create(pool, &wanted, &study.arena));
    take_blocks();
    capture(&scope);
    uint64_t wrong = measure(0);
    wrong += measure(MOIETY_PAUSE_KEEP_CONTENTS);
    MUST(cuGraphExecDestroy, (study.graph));
    must_be(moiety_private_destroy(study.arena));
    for (uint64_t i = 0; i < study.block_count; i++)
        must_be(moiety_free(pool, study.blocks[i], MOIETY_STREAM_DONE));
    must_be(moiety_pool_destroy(pool, NULL));
    free(study.blocks);
    return wrong != 0;
}

int main(int argc, char **argv)
{
    const char *driver = NULL;
    bool is_help = false;
    const struct command_option options[] = {
        {"mib", 2, 131072, .number = &study.mib},
        {"block", 2, 65536, .number = &study.block_mib},
        {"cycles", 1, CYCLES_MOST, .number = &study.cycles},
        {"driver", .text = &driver},
        {"help", .is_given = &is_help},
        {.name = NULL},
    };
    const struct command_line line = {"pauses: bad argument", NULL, options,
                                      false};
    if (command_line_read(&line, argc, argv) < 0)
        return 2;
    if (is_help)
        return fputs(help, stdout) < 0;
    if (study.block_mib > study.mib)
        study.block_mib = study.mib;
    return command_line_use_driver(driver) ? run() : 1;
}
