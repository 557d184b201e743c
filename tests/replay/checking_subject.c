/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/replay/checking_subject.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCKS_MAX (1U << 21)
#define FIRST_ADDRESS 4096U

struct block {
    size_t size_bytes;
    uint32_t thread;
    bool is_live;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    uint64_t low_bytes;
    uint64_t high_bytes;
} gap;
static struct checking_account account;
static struct subject_setup now;
static struct block *blocks;
static uint64_t block_count;
static uint64_t live_bytes;
static uint64_t live_count;
static uint64_t resets = 1;

static void demand(bool is_so, const char *what)
{
    if (is_so)
        return;
    (void)fprintf(stderr, "checking_subject: %s\n", what);
    abort();
}

static const char *start(const struct subject_setup *setup)
{
    demand(!blocks, "started twice");
    now = *setup;
    blocks = calloc(BLOCKS_MAX, sizeof(*blocks));
    block_count = 0;
    live_bytes = 0;
    live_count = 0;
    account.starts++;
    return blocks ? NULL : "no memory";
}

/* The lock held. */
static void see_caller(void)
{
    static _Thread_local uint64_t seen_since;
    if (seen_since == resets)
        return;
    seen_since = resets;
    account.callers_seen++;
}

static void see(uint32_t thread, uint32_t stream)
{
    see_caller();
    demand(thread < now.thread_count, "a thread beyond the setup");
    if (thread >= account.threads_seen)
        account.threads_seen = thread + 1;
    if (stream >= SUBJECT_STREAM_DONE)
        return;
    demand(stream < now.stream_count, "a stream beyond the setup");
    if (stream >= account.streams_seen)
        account.streams_seen = stream + 1;
}

static uint64_t take(uint32_t thread, size_t size_bytes)
{
    size_t taken = size_bytes + CHECKING_EXTRA_BYTES;
    bool is_in_gap =
        now.limit_bytes >= gap.low_bytes && now.limit_bytes < gap.high_bytes;
    if (is_in_gap ||
        (now.limit_bytes && live_bytes + taken > now.limit_bytes)) {
        account.refused++;
        return 0;
    }
    demand(block_count < BLOCKS_MAX, "too many blocks");
    blocks[block_count] = (struct block){size_bytes, thread, true};
    live_bytes += taken;
    live_count++;
    account.allocs++;
    return FIRST_ADDRESS + block_count++;
}

static uint64_t alloc(uint32_t thread, size_t size_bytes, uint32_t stream)
{
    (void)pthread_mutex_lock(&lock);
    demand(stream < SUBJECT_STREAM_DONE, "an allocation without a stream");
    demand(size_bytes > 0, "an allocation of nothing");
    see(thread, stream);
    uint64_t address = take(thread, size_bytes);
    (void)pthread_mutex_unlock(&lock);
    return address;
}

static void give(uint32_t thread, uint64_t address, size_t size_bytes,
                 uint32_t stream)
{
    (void)pthread_mutex_lock(&lock);
    see(thread, stream);
    demand(address >= FIRST_ADDRESS && address - FIRST_ADDRESS < block_count,
           "a free of what never was");
    struct block *block = &blocks[address - FIRST_ADDRESS];
    demand(block->is_live, "a free of what is not live");
    demand(block->size_bytes == size_bytes, "a free with another size");
    block->is_live = false;
    live_bytes -= size_bytes + CHECKING_EXTRA_BYTES;
    live_count--;
    account.frees++;
    account.foreign_frees += block->thread != thread;
    account.frees_any += stream == SUBJECT_STREAM_ANY;
    account.frees_done += stream == SUBJECT_STREAM_DONE;
    (void)pthread_mutex_unlock(&lock);
}

static void measure(struct subject_memory *out)
{
    *out = (struct subject_memory){
        .handed_bytes = live_bytes,
        .cached_bytes = SUBJECT_UNKNOWN,
        .reserved_bytes = live_bytes,
        .driver_calls = account.allocs,
    };
}

static void each_segment(void (*take_one)(void *context, uint64_t address,
                                          uint64_t size_bytes),
                         void *context)
{
    take_one(context, FIRST_ADDRESS, block_count);
}

static void stop(void)
{
    demand(blocks, "stopped without a start");
    account.live_at_stop += live_count;
    free(blocks);
    blocks = NULL;
}

const struct subject checking_subject = {
    .name = "checking",
    .description = "keeps account of how it is called",
    .has_limit = true,
    .start = start,
    .alloc = alloc,
    .free = give,
    .measure = measure,
    .each_segment = each_segment,
    .stop = stop,
};

void checking_set_gap(uint64_t low_bytes, uint64_t high_bytes)
{
    gap.low_bytes = low_bytes;
    gap.high_bytes = high_bytes;
}

void checking_reset(void)
{
    account = (struct checking_account){0};
    checking_set_gap(0, 0);
    resets++;
}

struct checking_account checking_account_now(void)
{
    return account;
}
