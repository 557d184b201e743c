/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Mapped memory of a pool that another device uses as well: what its kernels and
 * copies find there, how fast copies are, and what it takes to add the device
 * later. --help says what is printed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench/base/clock.h"
#include "bench/base/command_line.h"
#include "bench/base/device.h"
#include "bench/studies/mapped/copies.h"
#include "bench/studies/mapped/kernels.h"
#include "bench/studies/mapped/must.h"
#include "moiety/moiety.h"
#include "moiety/segment.h"
#include "pool/driver/driver_table.h"

#define MIB (UINT64_C(1) << 20)
#define OWN 0
#define PEER 1
#define DEVICES 2

static const char help[] =
    "usage: peers [--part=P] [--mib=N] [--rounds=N] [--driver=D]\n"
    "  --part=P    access, moved, copies or adding (default: all)\n"
    "  --mib=N     size of a block, 2 to 65536 (default 1024)\n"
    "  --rounds=N  of moved, 1 to 1000000 (default 1000)\n"
    "  --driver=D  auto, cuda, standin or a path with a / in it (default:\n"
    "              what MOIETY_DRIVER says); access and moved need GPUs\n"
    "\n"
    "The memory is a mapped pool's on device 0, and device 1 is its peer.\n"
    "Prints, as JSON Lines:\n"
    "access  one device's kernels write a block and the other's read it: "
    "wrong\n"
    "        words, and how many a planted error shows\n"
    "moved   the same of blocks that pieces move to\n"
    "copies  GB/s of copies from device 0 to 1 and back: the pool's memory, "
    "and\n"
    "        cuMemAlloc's with peer access; what the driver says of a copy of\n"
    "        memory that device 1 may not access\n"
    "adding  ms of moiety_pool_add_peer() by what is reserved\n"
    "\n"
    "exit status: 0 all well; 1 a wrong word, or something failed; 2 bad\n"
    "argument\n";

struct device {
    CUcontext context;
    CUstream stream;
    struct kernels kernels;
};

static struct {
    const struct moietyi_driver *driver;
    struct device devices[DEVICES];
    uint64_t block_mib;
    uint64_t rounds;
} study = {.block_mib = 1024, .rounds = 1000};

static size_t block_bytes(void)
{
    return study.block_mib * MIB;
}

static const struct device *on(unsigned ordinal)
{
    MUST(cuCtxSetCurrent, (study.devices[ordinal].context));
    return &study.devices[ordinal];
}

static moiety_pool *make_pool(uint64_t peers)
{
    moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
    moiety_pool *pool;
    options.memory = MOIETY_MEMORY_MAPPED;
    options.thread_cache_bytes = MOIETY_BYTES_NONE;
    options.peer_devices = peers;
    must_be(moiety_pool_create(&options, &pool));
    return pool;
}

static moiety_devptr take(moiety_pool *pool, size_t size_bytes)
{
    moiety_devptr block;
    must_be(moiety_alloc(pool, size_bytes, MOIETY_STREAM_DONE, &block));
    return block;
}

/* One device's kernel writes all words, and the other's reads them. */
static uint32_t wrong_words(unsigned writer, moiety_devptr block,
                            size_t size_bytes, uint32_t value,
                            uint32_t expected)
{
    const struct device *device = on(writer);
    unsigned words = (unsigned)(size_bytes / sizeof(uint32_t));
    kernels_launch(&device->kernels, device->stream, device->kernels.fill,
                   block, value, words);
    MUST(cuStreamSynchronize, (device->stream));
    device = on(1 - writer);
    kernels_forget_wrong(&device->kernels, device->stream);
    kernels_launch(&device->kernels, device->stream, device->kernels.check,
                   block, expected, words);
    return kernels_count_wrong(&device->kernels, device->stream);
}

static void measure_access(void)
{
    moiety_pool *pool = make_pool(1 << PEER);
    moiety_devptr block = take(pool, block_bytes());
    uint32_t to_peer = wrong_words(OWN, block, block_bytes(), 3, 3);
    uint32_t from_peer = wrong_words(PEER, block, block_bytes(), 5, 5);
    uint32_t planted = wrong_words(PEER, block, block_bytes(), 7, 8);
    printf("{\"kind\":\"peers\",\"part\":\"access\",\"bytes\":%zu,"
           "\"wrong_words_from_0\":%" PRIu32 ",\"wrong_words_from_1\":%" PRIu32
           ",\"planted_words\":%" PRIu32 "}\n",
           block_bytes(), to_peer, from_peer, planted);
    must(to_peer || from_peer || !planted ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS,
         "access");
    must_be(moiety_pool_destroy(pool, NULL));
}

/* Frees a piece in front of one that stays, and asks for more than it has, so
 * that it moves behind that one. */
static uint32_t move_one(moiety_pool *pool, uint32_t value)
{
    moiety_devptr first = take(pool, 8 * MIB);
    moiety_devptr keeper = take(pool, 2 * MIB);
    uint32_t wrong = wrong_words(PEER, first, 8 * MIB, value, value);
    must_be(moiety_free(pool, first, MOIETY_STREAM_DONE));
    moiety_devptr block = take(pool, 12 * MIB);
    wrong += wrong_words(OWN, block, 12 * MIB, value + 1, value + 1);
    wrong += wrong_words(PEER, block, 12 * MIB, value + 2, value + 2);
    must_be(moiety_free(pool, block, MOIETY_STREAM_DONE));
    must_be(moiety_free(pool, keeper, MOIETY_STREAM_DONE));
    must_be(moiety_pool_trim(pool, 0, NULL));
    return wrong;
}

static void measure_moved(void)
{
    moiety_pool *pool = make_pool(1 << PEER);
    moiety_pool_stats stats = {.struct_size = sizeof(stats)};
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < study.rounds; i++)
        wrong += move_one(pool, (uint32_t)(i * 3));
    must_be(moiety_pool_get_stats(pool, &stats));
    printf("{\"kind\":\"peers\",\"part\":\"moved\",\"rounds\":%" PRIu64
           ",\"moves\":%" PRIu64 ",\"wrong_words\":%" PRIu64 "}\n",
           study.rounds, stats.mapped_moves, wrong);
    must(wrong || !stats.mapped_moves ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS,
         "moved");
    must_be(moiety_pool_destroy(pool, NULL));
}

/* On device 1's stream. */
static double copy_speed(CUdeviceptr to, CUdeviceptr from)
{
    return copies_speed(study.driver, on(PEER)->stream, to, from,
                        block_bytes());
}

static CUdeviceptr allocate_on(unsigned ordinal)
{
    CUdeviceptr block;
    (void)on(ordinal);
    MUST(cuMemAlloc, (&block, block_bytes()));
    return block;
}

/* What the driver says of a copy of memory that device 1 may not access. */
static int refusal_of(CUdeviceptr to)
{
    moiety_pool *pool = make_pool(0);
    moiety_devptr block = take(pool, 2 * MIB);
    const struct device *device = on(PEER);
    CUresult code =
        study.driver->cuMemcpyDtoDAsync(to, block, 2 * MIB, device->stream);
    CUresult end = study.driver->cuStreamSynchronize(device->stream);
    must_be(moiety_pool_destroy(pool, NULL));
    return (int)(code == CUDA_SUCCESS ? end : code);
}

static void measure_copies(void)
{
    moiety_pool *pool = make_pool(1 << PEER);
    moiety_devptr block = take(pool, block_bytes());
    CUdeviceptr there = allocate_on(PEER);
    double pool_there = copy_speed(there, block);
    double pool_back = copy_speed(block, there);
    int refused = refusal_of(there);
    CUdeviceptr plain = allocate_on(OWN);
    (void)on(PEER);
    MUST(cuCtxEnablePeerAccess, (study.devices[OWN].context, 0));
    double plain_there = copy_speed(there, plain);
    double plain_back = copy_speed(plain, there);
    printf("{\"kind\":\"peers\",\"part\":\"copies\",\"bytes\":%zu,"
           "\"pool_to_1\":%.1f,\"pool_to_0\":%.1f,\"cuMemAlloc_to_1\":%.1f,"
           "\"cuMemAlloc_to_0\":%.1f,\"without_access\":%d}\n",
           block_bytes(), pool_there, pool_back, plain_there, plain_back,
           refused);
    must_be(moiety_pool_destroy(pool, NULL));
    MUST(cuMemFree, (plain));
    MUST(cuMemFree, (there));
}

static void measure_adding(void)
{
    for (uint64_t blocks = 1; blocks <= 16; blocks *= 4) {
        moiety_pool *pool = make_pool(0);
        for (uint64_t i = 0; i < blocks; i++)
            (void)take(pool, block_bytes() / 16);
        uint64_t begun_ns = clock_now_ns();
        must_be(moiety_pool_add_peer(pool, PEER));
        printf("{\"kind\":\"peers\",\"part\":\"adding\",\"bytes\":%" PRIu64
               ",\"ms\":%.3f}\n",
               blocks * block_bytes() / 16,
               (double)(clock_now_ns() - begun_ns) / 1e6);
        must_be(moiety_pool_destroy(pool, NULL));
    }
}

static const struct part {
    const char *name;
    void (*measure)(void);
    bool has_kernels;
} parts[] = {
    {"access", measure_access, true},
    {"moved", measure_moved, true},
    {"copies", measure_copies, false},
    {"adding", measure_adding, false},
    {NULL, NULL, false},
};

static bool is_part(const char *name, void *into)
{
    const struct part **out = into;
    for (*out = parts; (*out)->name; (*out)++)
        if (strcmp((*out)->name, name) == 0)
            return true;
    return false;
}

static void open_device(unsigned ordinal, bool has_kernels)
{
    struct device *device = &study.devices[ordinal];
    CUdevice number;
    MUST(cuDeviceGet, (&number, (int)ordinal));
    MUST(cuDevicePrimaryCtxRetain, (&device->context, number));
    (void)on(ordinal);
    MUST(cuStreamCreate, (&device->stream, CU_STREAM_NON_BLOCKING));
    if (has_kernels)
        kernels_load(study.driver, &device->kernels);
}

/* `only` NULL: all parts. */
static int run(const struct part *only)
{
    must_be(moietyi_driver_open(&study.driver));
    MUST(cuInit, (0));
    for (unsigned i = 0; i < DEVICES; i++)
        open_device(i, !only || only->has_kernels);
    for (const struct part *part = parts; part->name; part++)
        if (!only || only == part)
            part->measure();
    return 0;
}

int main(int argc, char **argv)
{
    const char *driver = NULL;
    bool is_help = false;
    const struct part *only = NULL;
    const struct command_option options[] = {
        {"part", .read = is_part, .into = &only,
         .refusal = " is none of access, moved, copies, adding"},
        {"mib", 2, 65536, .number = &study.block_mib},
        {"rounds", 1, 1000000, .number = &study.rounds},
        {"driver", .text = &driver},
        {"help", .is_given = &is_help},
        {.name = NULL},
    };
    const struct command_line line = {"peers: bad argument", NULL, options,
                                      false};
    if (command_line_read(&line, argc, argv) < 0)
        return 2;
    if (is_help)
        return fputs(help, stdout) < 0;
    return command_line_use_driver(driver) ? run(only) : 1;
}
