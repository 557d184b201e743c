/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/oom/oracle/play.h"

#include "moiety/oom.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/oom/oracle/judge/fits.h"
#include "tests/support/tools/pools.h"

#define MIB UINT64_C(1048576)
#define TEXT_BYTES 4096U
/* Of the stand-in's 8 GiB a mapped pool gets at most so much. */
#define DRIVER_BYTES (4096 * MIB)

static void must(moiety_status status, const char *call)
{
    if (status == MOIETY_OK)
        return;
    (void)fprintf(stderr, "%s: %s: %s\n", call, moiety_status_name(status),
                  moiety_last_error_message());
    (void)fflush(NULL);
    _Exit(EXIT_DRIVER);
}

void play_begin(struct play *play, struct device *device,
                const struct setting *setting, size_t block_capacity,
                struct tally *tally)
{
    *play = (struct play){.device = device, .tally = tally};
    play->rules = (struct history_rules){
        .limit_bytes = setting->limit_bytes,
        .wait_ns = setting->wait_ms * UINT64_C(1000000),
        .is_mapped = setting->is_mapped,
    };
    play->history = history_create(block_capacity);
    kit_require(play->history != NULL, "history_create");
    device->is_mapped = setting->is_mapped;
    device_begin(device, play->history, setting->limit_bytes);
    moiety_source source = device_source(device);
    moiety_pool_options options = driver_options();
    if (setting->is_mapped)
        options.memory = MOIETY_MEMORY_MAPPED;
    else
        options.source = &source;
    options.limit_bytes = setting->limit_bytes;
    options.first_segment_bytes = setting->first_segment_bytes;
    options.largest_segment_bytes = setting->largest_segment_bytes;
    options.thread_cache_bytes = bytes_of(setting->thread_cache_bytes);
    options.wait_ms = wait_of(setting->wait_ms);
    must(moiety_pool_create(&options, &play->pool), "moiety_pool_create");
    if (setting->is_mapped)
        device_watch(device, play->pool);
    atomic_fetch_add(&tally->games, 1);
}

void play_end(struct play *play)
{
    device_finish_all(play->device);
    must(moiety_pool_destroy(play->pool, NULL), "moiety_pool_destroy");
    device_end(play->device);
    history_destroy(play->history);
}

static void note_refusal(const struct play *play, uint32_t stream,
                         uint64_t size_bytes, struct history_span call,
                         struct refusal *out)
{
    moiety_oom_report *report = &out->report;
    report->struct_size = sizeof(*report);
    must(moiety_pool_last_oom(play->pool, report), "moiety_pool_last_oom");
    kit_require(report->requested_bytes == size_bytes,
                "the match of report and failure");
    out->failure = (struct history_failure){
        .call = call,
        .needed_bytes = history_needed_bytes(size_bytes, report->needed_bytes),
        .stream = stream,
        .is_held_up = report->held_up_bytes != 0,
    };
    atomic_fetch_add(&play->tally->failures, 1);
}

static uint64_t extent_bytes(const struct play *play, moiety_devptr address)
{
    size_t bytes;
    must(moiety_usable_size(play->pool, address, &bytes), "moiety_usable_size");
    return (bytes + FITS_GRAIN_BYTES - 1) & ~(FITS_GRAIN_BYTES - 1);
}

struct history_block *play_alloc(struct play *play, uint32_t stream,
                                 uint64_t size_bytes, struct refusal *out)
{
    moiety_stream handle = stream == HISTORY_NO_STREAM
                               ? MOIETY_STREAM_ANY
                               : play->device->streams[stream];
    moiety_devptr address;
    struct history_span call;
    device_allocates_for(stream);
    call.begin = kit_now_ns();
    moiety_status status =
        moiety_alloc(play->pool, size_bytes, handle, &address);
    call.end = kit_now_ns();
    atomic_fetch_add_explicit(&play->tally->allocations, 1,
                              memory_order_relaxed);
    if (status == MOIETY_E_NO_DEVICE_MEMORY) {
        note_refusal(play, stream, size_bytes, call, out);
        return NULL;
    }
    must(status, "moiety_alloc");
    struct history_block *block = history_add_block(
        play->history, address, extent_bytes(play, address), call);
    kit_require(block != NULL, "the history's room");
    return block;
}

/* Frees after an event of the program's own. One that is not over then waits for
 * all streams, as the pool may not keep it. */
static moiety_status free_after(const struct play *play, uint32_t stream,
                                moiety_devptr address,
                                struct history_free *freed)
{
    CUevent event = NULL;
    MUST(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    MUST(cu.cuEventRecord(event, play->device->streams[stream]));
    freed->streams =
        cu.cuEventQuery(event) == CUDA_SUCCESS ? 0 : HISTORY_ALL_STREAMS;
    freed->call.begin = kit_now_ns();
    moiety_status status = moiety_free_on_event(play->pool, address, event);
    freed->call.end = kit_now_ns();
    MUST(cu.cuEventDestroy(event));
    return status;
}

static moiety_status free_on(const struct play *play, moiety_devptr address,
                             moiety_stream stream, struct history_free *freed)
{
    freed->call.begin = kit_now_ns();
    moiety_status status = moiety_free(play->pool, address, stream);
    freed->call.end = kit_now_ns();
    return status;
}

void play_free(struct play *play, struct history_block *block, enum how how,
               uint32_t stream, uint32_t other)
{
    const uint64_t bit = UINT64_C(1) << stream;
    CUstream handle = play->device->streams[stream];
    struct history_free freed = {.streams = bit,
                                 .own_stream = HISTORY_NO_STREAM};
    moiety_status status = MOIETY_OK;
    switch (how) {
    case FREE_USED:
        must(moiety_record_use(play->pool, block->address,
                               play->device->streams[other]),
             "moiety_record_use");
        freed.streams |= UINT64_C(1) << other;
        status = free_on(play, block->address, handle, &freed);
        break;
    case FREE_AFTER:
        status = free_after(play, stream, block->address, &freed);
        break;
    case FREE_ANY:
        freed.streams = HISTORY_ALL_STREAMS;
        status = free_on(play, block->address, MOIETY_STREAM_ANY, &freed);
        break;
    case FREE_DONE:
        freed.streams = 0;
        status = free_on(play, block->address, MOIETY_STREAM_DONE, &freed);
        break;
    case FREE_ON:
    default:
        freed.own_stream = stream;
        status = free_on(play, block->address, handle, &freed);
        break;
    }
    must(status, "a free");
    block->freed = freed;
}

enum history_verdict play_judge(struct play *play, struct refusal *refusal)
{
    enum history_verdict verdict = history_judge(
        play->history, &refusal->failure, &play->rules, &refusal->answer);
    atomic_fetch_add(&play->tally->verdicts[verdict], 1);
    if (verdict == HISTORY_FALSE && !refusal->report.is_exact)
        atomic_fetch_add(&play->tally->inexact, 1);
    return verdict;
}

void play_print(const struct refusal *refusal)
{
    char text[TEXT_BYTES];
    (void)moiety_oom_text(&refusal->report, text, sizeof(text));
    printf("%s  it fits: %" PRIu64
           " bytes are needed; the longest hole has %" PRIu64
           ", and all but %" PRIu64 " may be grown anew\n",
           text, refusal->failure.needed_bytes, refusal->answer.hole_bytes,
           refusal->answer.pinned_bytes);
}

void play_check(struct play *play, const struct refusal *refusal,
                enum history_verdict verdict)
{
    moiety_devptr address;
    device_finish_all(play->device);
    must(moiety_pool_trim(play->pool, 0, NULL), "moiety_pool_trim");
    must(moiety_pool_trim(play->pool, 0, NULL), "moiety_pool_trim");
    bool is_served = moiety_alloc(play->pool, refusal->report.requested_bytes,
                                  MOIETY_STREAM_DONE, &address) == MOIETY_OK;
    if (is_served)
        must(moiety_free(play->pool, address, MOIETY_STREAM_DONE),
             "moiety_free");
    if (is_served && verdict == HISTORY_TRUE)
        atomic_fetch_add(&play->tally->served, 1);
    if (!is_served && verdict != HISTORY_TRUE)
        atomic_fetch_add(&play->tally->refused, 1);
}

struct setting random_setting(uint64_t *random, const struct chances *chances)
{
    static const uint64_t limits_mib[] = {64,  64,  96,   130,
                                          256, 512, 1024, 8192};
    struct setting setting;
    setting.limit_bytes = MIB * limits_mib[random_below(random, 8)];
    setting.first_segment_bytes = (2 * MIB) << random_below(random, 5);
    setting.largest_segment_bytes = (32 * MIB) << random_below(random, 6);
    setting.thread_cache_bytes = random_once_in(random, 3) ? 0 : 64 * MIB;
    setting.wait_ms = 0;
    if (random_once_in(random, 24))
        setting.wait_ms = random_once_in(random, 4) ? 50 : 5;
    if (chances->wait_ms != CHANCES_RANDOM)
        setting.wait_ms = (uint32_t)chances->wait_ms;
    setting.queue_percent = 20 * random_below(random, 4);
    setting.thread_count =
        1 + random_below(random, (uint32_t)chances->thread_most);
    setting.is_mapped = chances->is_mapped;
    /* The driver's memory ends, and others have some of it. */
    if (setting.is_mapped && setting.limit_bytes > DRIVER_BYTES)
        setting.limit_bytes = DRIVER_BYTES;
    if (chances->has_one_segment)
        setting.first_segment_bytes = setting.largest_segment_bytes =
            setting.limit_bytes;
    return setting;
}

/* Of each order of magnitude about as many. */
static uint64_t size_between(uint64_t *random, uint64_t least, uint64_t most)
{
    uint32_t orders = 0;
    while (least << (orders + 1) <= most)
        orders++;
    uint64_t base = least << random_below(random, orders + 1);
    uint64_t size = base + random_next(random) % base;
    return size < most ? size : most;
}

uint64_t random_size(uint64_t *random, uint64_t limit_bytes)
{
    switch (random_below(random, 8)) {
    case 0:
    case 1:
        return size_between(random, 512, limit_bytes / 1024);
    case 2:
    case 3:
    case 4:
        return size_between(random, limit_bytes / 32, limit_bytes / 2);
    default:
        return size_between(random, 512, limit_bytes / 2);
    }
}

enum how random_how(uint64_t *random)
{
    return random_once_in(random, 2)
               ? FREE_ON
               : (enum how)random_below(random, HOW_COUNT);
}
