/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The truth test of two devices: pools of both, of the driver's memory and of
 * mapped memory, that streams of both use. A memset fills a block of the writing
 * stream's device; copies take its word to a block of any pool, from there to
 * one of the reading stream's device, and to the host. All are freed as soon as
 * that is queued. Streams are held back at random. If a pool gives a block away
 * too early, another word arrives.
 */
#include "tests/twogpus/twogpus.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/tools/pools.h"
#include "tests/truth/kit.h"

#define KINDS 2 /* of the driver's memory, and mapped */
#define STREAMS 3
#define CHECKS 24
#define PART_BYTES ((size_t)64 << 10)
#define PART_WORDS (PART_BYTES / sizeof(uint32_t))
#define MAIL_MAX 64
#define THREADS_MAX 256
#define LIMIT_BYTES (256 * MIB)
#define WAIT_MS 20
#define HOLD_US 1500
#define LOOK_EVERY_US 5000

static const char usage[] =
    "usage: twogpus [--threads=N] [--operations=N] [--seconds=N] [--seed=N]\n"
    "               [--planted=0|1] [--shared=N] [--driver=D]\n"
    "  --threads=N     1 to 256 (default 16)\n"
    "  --operations=N  words that are sent through three blocks (default\n"
    "                  100000)\n"
    "  --seconds=N     time after which to stop early; 0: never (default)\n"
    "  --seed=N        of the random numbers (default 1)\n"
    "  --planted=1     blocks of the driver's memory are freed as if nothing\n"
    "                  used them: wrong words have to arrive, and it ends "
    "then\n"
    "  --shared=N      blocks that processes share before, in each direction\n"
    "                  and of each kind of memory, 0 to 64 (default 8)\n"
    "  --driver=D      auto, cuda, standin or a path with a / in it (default:\n"
    "                  what MOIETY_DRIVER says)\n"
    "Prints a JSON object for each pair of processes, for each pool, and of "
    "all.\n"
    "exit status: 0 all words right; 1 a wrong word or a wrong answer; 2 bad\n"
    "             argument; 3 no such driver, or not two devices that reach "
    "each\n"
    "             other's memory; 4 the driver failed\n";

static struct {
    uint64_t threads;
    uint64_t operations;
    uint64_t seconds;
    uint64_t seed;
    uint64_t is_planted;
    uint64_t shared;
    const char *driver;
} options = {.threads = 16, .operations = 100000, .seed = 1, .shared = 8};

struct block {
    moiety_devptr address;
    moiety_pool *pool;
    CUstream stream; /* ordered behind all uses */
};

/* A word on its way to the host. */
struct check {
    uint32_t *host; /* the first part of the block, and the last */
    CUevent events[DEVICES];
    CUevent event; /* NULL: nothing is on its way */
    uint32_t word;
    size_t first_words;
    size_t last_words;
};

struct worker {
    uint64_t random;
    CUstream streams[DEVICES][STREAMS];
    CUevent events[DEVICES];
    struct check checks[CHECKS];
    uint32_t turn;
};

static struct {
    CUcontext contexts[DEVICES];
    moiety_pool *pools[DEVICES][KINDS];
    atomic_bool is_over;
    _Atomic uint32_t word;
    _Atomic uint64_t operations;
    _Atomic uint64_t crossing; /* of these, with a block of another device */
    _Atomic uint64_t handed;   /* blocks that another thread freed */
    _Atomic uint64_t denied;
    _Atomic uint64_t copied_bytes;
    _Atomic uint64_t words;
    _Atomic uint64_t wrong;
    pthread_mutex_t lock; /* for what follows */
    struct block mail[MAIL_MAX];
    uint32_t mail_count;
} world = {.lock = PTHREAD_MUTEX_INITIALIZER};

void twogpus_well(moiety_status status, const char *call)
{
    if (status == MOIETY_OK)
        return;
    (void)fprintf(stderr, "%s: %s\n", call, moiety_last_error_message());
    (void)fflush(NULL);
    _Exit(EXIT_WRONG);
}

CUcontext twogpus_context(int ordinal)
{
    CUdevice device;
    CUcontext context;
    MUST(cu.cuDeviceGet(&device, ordinal));
    MUST(cu.cuDevicePrimaryCtxRetain(&context, device));
    MUST(cu.cuCtxSetCurrent(context));
    return context;
}

static void leave(const char *why)
{
    (void)fprintf(stderr, "twogpus: %s\n", why);
    (void)fflush(NULL);
    _Exit(EXIT_NO_DRIVER);
}

void twogpus_open(const char *driver)
{
    int count;
    int reaches[DEVICES];
    if (!kit_open_driver(driver))
        _Exit(EXIT_NO_DRIVER);
    MUST(cu.cuDeviceGetCount(&count));
    if (count < DEVICES)
        leave("two devices are needed, and there is one: nothing was tested");
    for (int i = 0; i < DEVICES; i++)
        MUST(cu.cuDeviceCanAccessPeer(&reaches[i], i, 1 - i));
    if (!reaches[0] || !reaches[1])
        leave("devices 0 and 1 do not reach each other's memory: nothing was "
              "tested");
}

/* --- words that arrive --- */

/* Adds to `wrong`; the first that was ever found is shown. */
static void compare(const uint32_t *words, size_t count, uint32_t word)
{
    uint64_t wrong = 0;
    uint32_t found = 0;
    for (size_t i = count; i > 0; i--) {
        if (words[i - 1] == word)
            continue;
        wrong++;
        found = words[i - 1];
    }
    atomic_fetch_add(&world.words, count);
    if (wrong && atomic_fetch_add(&world.wrong, wrong) == 0) {
        (void)fprintf(stderr,
                      "WRONG: expected %08" PRIx32 ", found %08" PRIx32
                      ", %" PRIu64 " words of %zu\n",
                      word, found, wrong, count);
    }
}

static void settle(struct check *check)
{
    if (!check->event)
        return;
    MUST(cu.cuEventSynchronize(check->event));
    check->event = NULL;
    compare(check->host, check->first_words, check->word);
    compare(check->host + PART_WORDS, check->last_words, check->word);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void send_to_host(struct check *check, uint32_t word,
                         const struct block *block, size_t size_bytes)
{
    size_t first_bytes = least(size_bytes, PART_BYTES);
    size_t last_bytes = least(size_bytes - first_bytes, PART_BYTES);
    check->word = word;
    check->first_words = first_bytes / sizeof(word);
    check->last_words = last_bytes / sizeof(word);
    MUST(cu.cuMemcpyDtoHAsync(check->host, block->address, first_bytes,
                              block->stream));
    if (last_bytes)
        MUST(cu.cuMemcpyDtoHAsync(check->host + PART_WORDS,
                                  block->address + size_bytes - last_bytes,
                                  last_bytes, block->stream));
    MUST(cu.cuEventRecord(check->event, block->stream));
}

/* --- blocks --- */

static void hold(void *us)
{
    kit_pause_us((long)(intptr_t)us);
}

static void hold_sometimes(struct worker *worker, CUstream stream)
{
    if (!random_once_in(&worker->random, 4))
        return;
    intptr_t us = random_below(&worker->random, HOLD_US);
    MUST(cu.cuLaunchHostFunc(stream, hold, (void *)us));
}

/* 512 B to 2 MiB, and now and then up to 24 MiB. */
static size_t draw_size(struct worker *worker)
{
    if (random_once_in(&worker->random, 32))
        return (2 + random_below(&worker->random, 22)) * MIB;
    size_t size_bytes = (size_t)512 << random_below(&worker->random, 12);
    return (size_bytes + random_below(&worker->random, (uint32_t)size_bytes)) &
           ~(size_t)3;
}

static bool take(struct block *block, size_t size_bytes)
{
    moiety_status status =
        moiety_alloc(block->pool, size_bytes, block->stream, &block->address);
    if (status == MOIETY_OK)
        return true;
    if (status != MOIETY_E_NO_DEVICE_MEMORY)
        WELL(status);
    atomic_fetch_add(&world.denied, 1);
    block->address = 0;
    return false;
}

static void free_on_its_stream(const struct block *block)
{
    WELL(moiety_free(block->pool, block->address, block->stream));
}

static void post(const struct block *block)
{
    pthread_mutex_lock(&world.lock);
    bool is_posted = world.mail_count < MAIL_MAX;
    if (is_posted)
        world.mail[world.mail_count++] = *block;
    pthread_mutex_unlock(&world.lock);
    if (!is_posted)
        free_on_its_stream(block);
}

static bool free_posted(void)
{
    struct block block;
    pthread_mutex_lock(&world.lock);
    bool is_there = world.mail_count != 0;
    if (is_there)
        block = world.mail[--world.mail_count];
    pthread_mutex_unlock(&world.lock);
    if (!is_there)
        return false;
    free_on_its_stream(&block);
    atomic_fetch_add(&world.handed, 1);
    return true;
}

static bool is_in_mapped_pool(const struct block *block)
{
    return block->pool == world.pools[0][1] || block->pool == world.pools[1][1];
}

/* `before`: of the streams that used it the one that did so first. `event` was
 * recorded behind all uses, on a stream of this device. */
static void give_back(struct worker *worker, const struct block *block,
                      CUstream before, CUevent event, uint32_t device)
{
    uint32_t way = random_below(&worker->random, 8);
    bool is_at_home = block->pool == world.pools[device][0] ||
                      block->pool == world.pools[device][1];
    if (options.is_planted && !is_in_mapped_pool(block)) {
        WELL(moiety_free(block->pool, block->address, MOIETY_STREAM_DONE));
    } else if (way == 0) {
        WELL(moiety_free(block->pool, block->address, MOIETY_STREAM_ANY));
    } else if (way == 1) {
        WELL(moiety_record_use(block->pool, block->address, block->stream));
        WELL(moiety_free(block->pool, block->address, before));
    } else if (way == 2 && is_at_home) { /* the event has to be there, too */
        WELL(moiety_free_on_event(block->pool, block->address, event));
    } else if (way == 3) {
        post(block);
    } else {
        free_on_its_stream(block);
    }
}

/* --- an operation --- */

static CUstream draw_stream(struct worker *worker, uint32_t device)
{
    return worker->streams[device][random_below(&worker->random, STREAMS)];
}

/* Of any pool of the device `home`. */
static struct block draw_block(struct worker *worker, uint32_t home,
                               CUstream stream)
{
    uint32_t kind = random_below(&worker->random, KINDS);
    return (struct block){.pool = world.pools[home][kind], .stream = stream};
}

/* All blocks are there. The source and the middle are filled by one stream; the
 * middle is read by the target's. */
static void send_word(struct worker *worker, struct block *blocks,
                      const uint32_t *devices, size_t size_bytes)
{
    struct block *source = &blocks[0];
    struct block *middle = &blocks[1];
    struct block *target = &blocks[2];
    CUstream writer = source->stream;
    CUevent written = worker->events[devices[0]];
    CUevent read = worker->events[devices[1]];
    struct check *check = &worker->checks[worker->turn++ % CHECKS];
    uint32_t word = atomic_fetch_add(&world.word, 1) * 2654435761U;
    settle(check);
    check->event = check->events[devices[1]];
    MUST(cu.cuCtxSetCurrent(world.contexts[devices[0]]));
    hold_sometimes(worker, writer);
    MUST(cu.cuMemsetD32Async(source->address, word, size_bytes / sizeof(word),
                             writer));
    MUST(
        cu.cuMemcpyAsync(middle->address, source->address, size_bytes, writer));
    MUST(cu.cuEventRecord(written, writer));
    give_back(worker, source, writer, written, devices[0]);
    MUST(cu.cuCtxSetCurrent(world.contexts[devices[1]]));
    MUST(cu.cuStreamWaitEvent(target->stream, written, 0));
    hold_sometimes(worker, target->stream);
    MUST(cu.cuMemcpyAsync(target->address, middle->address, size_bytes,
                          target->stream));
    MUST(cu.cuEventRecord(read, target->stream));
    middle->stream = target->stream;
    give_back(worker, middle, writer, read, devices[1]);
    hold_sometimes(worker, target->stream);
    send_to_host(check, word, target, size_bytes);
    give_back(worker, target, target->stream, check->event, devices[1]);
}

static void operate(struct worker *worker)
{
    const uint32_t devices[2] = {random_below(&worker->random, DEVICES),
                                 random_below(&worker->random, DEVICES)};
    uint32_t home = random_below(&worker->random, DEVICES);
    size_t size_bytes = draw_size(worker);
    CUstream writer = draw_stream(worker, devices[0]);
    struct block blocks[3] = {
        draw_block(worker, devices[0], writer),
        draw_block(worker, home, writer),
        draw_block(worker, devices[1], draw_stream(worker, devices[1]))};
    if (take(&blocks[0], size_bytes) && take(&blocks[1], size_bytes) &&
        take(&blocks[2], size_bytes)) {
        send_word(worker, blocks, devices, size_bytes);
        atomic_fetch_add(&world.operations, 1);
        atomic_fetch_add(&world.copied_bytes, 2 * size_bytes);
        atomic_fetch_add(&world.crossing,
                         home != devices[0] || home != devices[1]);
    } else {
        for (uint32_t i = 0; i < 2 && blocks[i].address; i++)
            free_on_its_stream(&blocks[i]);
    }
    if (random_once_in(&worker->random, 4))
        (void)free_posted();
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    MUST(cu.cuCtxSetCurrent(world.contexts[0]));
    for (uint32_t i = 0; i < CHECKS; i++)
        MUST(cu.cuMemHostAlloc((void **)&worker->checks[i].host, 2 * PART_BYTES,
                               CU_MEMHOSTALLOC_PORTABLE));
    while (!atomic_load(&world.is_over))
        operate(worker);
    for (uint32_t i = 0; i < CHECKS; i++) {
        settle(&worker->checks[i]);
        MUST(cu.cuMemFreeHost(worker->checks[i].host));
    }
    return NULL;
}

static void make_streams(struct worker *worker)
{
    for (uint32_t d = 0; d < DEVICES; d++) {
        MUST(cu.cuCtxSetCurrent(world.contexts[d]));
        for (uint32_t i = 0; i < STREAMS; i++)
            MUST(cu.cuStreamCreate(&worker->streams[d][i],
                                   CU_STREAM_NON_BLOCKING));
        MUST(cu.cuEventCreate(&worker->events[d], CU_EVENT_DISABLE_TIMING));
        for (uint32_t i = 0; i < CHECKS; i++)
            MUST(cu.cuEventCreate(&worker->checks[i].events[d],
                                  CU_EVENT_DISABLE_TIMING));
    }
}

/* --- all of it --- */

static void make_pool(int device, bool is_mapped)
{
    moiety_pool **pool = &world.pools[device][is_mapped];
    moiety_pool_options wanted = driver_options();
    wanted.device = device;
    wanted.limit_bytes = LIMIT_BYTES;
    wanted.wait_ms = WAIT_MS;
    if (is_mapped) {
        set_kind(&wanted, KIND_MAPPED);
        wanted.peer_devices = UINT64_C(1) << (1 - device);
    }
    WELL(moiety_pool_create(&wanted, pool));
    WELL(moiety_pool_add_context(*pool, world.contexts[1 - device]));
}

static void make_pools(void)
{
    for (int d = 0; d < DEVICES; d++)
        world.contexts[d] = twogpus_context(d);
    for (int d = 0; d < DEVICES; d++) {
        MUST(cu.cuCtxSetCurrent(world.contexts[d]));
        MUST(cu.cuCtxEnablePeerAccess(world.contexts[1 - d], 0));
    }
    for (int d = 0; d < DEVICES; d++)
        for (int kind = 0; kind < KINDS; kind++)
            make_pool(d, kind);
}

/* Returns blocks that were never freed. */
static uint64_t end_pool(int device, bool is_mapped)
{
    moiety_pool_stats stats = {.struct_size = sizeof(stats)};
    moiety_leaks leaks = {.struct_size = sizeof(leaks)};
    moiety_pool *pool = world.pools[device][is_mapped];
    WELL(moiety_pool_get_stats(pool, &stats));
    WELL(moiety_pool_destroy(pool, &leaks));
    printf("{\"kind\":\"twogpus-pool\",\"device\":%d,\"mapped\":%d,"
           "\"allocations\":%" PRIu64 ",\"hits\":%" PRIu64
           ",\"reserved_bytes\":%" PRIu64 ",\"moves\":%" PRIu64
           ",\"leaked_blocks\":%" PRIu64 "}\n",
           device, is_mapped, stats.allocation_allocated, stats.cache_hits,
           stats.reserved_bytes_current, stats.mapped_moves, leaks.block_count);
    return leaks.block_count;
}

static void watch(void)
{
    uint64_t begun_ns = kit_now_ns();
    uint64_t end_ns = options.seconds * UINT64_C(1000000000);
    while (atomic_load(&world.operations) < options.operations &&
           !(options.is_planted && atomic_load(&world.wrong)) &&
           !(options.seconds && kit_now_ns() - begun_ns > end_ns))
        kit_pause_us(LOOK_EVERY_US);
    atomic_store(&world.is_over, true);
}

static int run(void)
{
    static pthread_t threads[THREADS_MAX];
    static struct worker workers[THREADS_MAX];
    uint64_t leaked = 0;
    make_pools();
    for (uint32_t i = 0; i < options.threads; i++) {
        workers[i].random = random_start(options.seed, i);
        make_streams(&workers[i]);
    }
    for (uint32_t i = 0; i < options.threads; i++)
        kit_require(pthread_create(&threads[i], NULL, work, &workers[i]) == 0,
                    "pthread_create");
    watch();
    for (uint32_t i = 0; i < options.threads; i++)
        (void)pthread_join(threads[i], NULL);
    while (free_posted())
        continue;
    for (int i = 0; i < DEVICES * KINDS; i++)
        leaked += end_pool(i / KINDS, i % KINDS);
    printf("{\"kind\":\"twogpus\",\"planted\":%" PRIu64 ",\"threads\":%" PRIu64
           ",\"seed\":%" PRIu64 ",\"operations\":%" PRIu64
           ",\"crossing\":%" PRIu64 ",\"handed_on\":%" PRIu64
           ",\"denied\":%" PRIu64 ",\"copied_bytes\":%" PRIu64
           ",\"words\":%" PRIu64 ",\"wrong_words\":%" PRIu64
           ",\"leaked_blocks\":%" PRIu64 "}\n",
           options.is_planted, options.threads, options.seed, world.operations,
           world.crossing, world.handed, world.denied, world.copied_bytes,
           world.words, world.wrong, leaked);
    return world.wrong || leaked || !world.crossing ? EXIT_WRONG : EXIT_RIGHT;
}

int main(int argc, char **argv)
{
    static const struct argument arguments[] = {
        {"threads", &options.threads, 1, THREADS_MAX, NULL},
        {"operations", &options.operations, 1, UINT64_C(1) << 40, NULL},
        {"seconds", &options.seconds, 0, 86400, NULL},
        {"seed", &options.seed, 0, UINT64_MAX, NULL},
        {"planted", &options.is_planted, 0, 1, NULL},
        {"shared", &options.shared, 0, 64, NULL},
        {"driver", NULL, 0, 0, &options.driver},
        {NULL, NULL, 0, 0, NULL},
    };
    if (!kit_arguments(argc, argv, arguments, usage))
        return EXIT_USAGE;
    for (int i = 0; options.shared && i < 2 * DEVICES; i++) {
        int code = twogpus_share(options.driver, (uint32_t)options.shared,
                                 i / 2, i % 2);
        if (code != EXIT_RIGHT)
            return code;
    }
    twogpus_open(options.driver);
    return run();
}
