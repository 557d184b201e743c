/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/truth/hold.h"

#include <string.h>

#include "tests/truth/kit.h"

/* A cache line each: the device reads them while the CPU writes others. */
#define WORD_BYTES 64
#define LOOK_EVERY_US 50

/* The watchdog calls no driver: one that is stuck in a call because of a hold
 * must not keep it from ending the hold. */
static void release_due(struct holds *holds, uint64_t now_ns)
{
    for (uint32_t i = 0; i < holds->count; i++) {
        struct hold *hold = &holds->hold[i];
        uint64_t until_ns = atomic_load(&hold->until_ns);
        if (until_ns <= 1 || until_ns > now_ns)
            continue;
        atomic_store(hold->word, hold->ticket);
        atomic_store(&hold->until_ns, 0);
    }
}

static void *watch(void *argument)
{
    struct holds *holds = argument;
    while (!atomic_load(&holds->is_over)) {
        release_due(holds, kit_now_ns());
        kit_pause_us(LOOK_EVERY_US);
    }
    release_due(holds, UINT64_MAX);
    return NULL;
}

void holds_begin(struct holds *holds, uint32_t count)
{
    void *words = NULL;
    CUdeviceptr address = 0;
    kit_require(cu.cuStreamWaitValue32 != NULL, "cuStreamWaitValue32");
    MUST(cu.cuMemHostAlloc(&words, (size_t)count * WORD_BYTES,
                           CU_MEMHOSTALLOC_PORTABLE |
                               CU_MEMHOSTALLOC_DEVICEMAP));
    memset(words, 0, (size_t)count * WORD_BYTES);
    MUST(cu.cuMemHostGetDevicePointer(&address, words, 0));
    for (uint32_t i = 0; i < count; i++) {
        size_t offset_bytes = (size_t)i * WORD_BYTES;
        holds->hold[i].word = (void *)((char *)words + offset_bytes);
        holds->hold[i].word_address = address + offset_bytes;
    }
    holds->count = count;
    kit_require(pthread_create(&holds->watchdog, NULL, watch, holds) == 0,
                "the watchdog");
}

void holds_end(struct holds *holds)
{
    atomic_store(&holds->is_over, true);
    (void)pthread_join(holds->watchdog, NULL);
    MUST(cu.cuCtxSynchronize());
    MUST(cu.cuMemFreeHost((void *)holds->hold[0].word));
}

void hold_stream(struct holds *holds, uint32_t index, CUstream stream,
                 uint32_t duration_us)
{
    struct hold *hold = &holds->hold[index];
    uint64_t nobody = 0;
    if (!atomic_compare_exchange_strong(&hold->until_ns, &nobody, 1))
        return;
    hold->ticket++;
    MUST(cu.cuStreamWaitValue32(stream, hold->word_address, hold->ticket,
                                CU_STREAM_WAIT_VALUE_GEQ));
    atomic_store(&hold->until_ns, kit_now_ns() + (uint64_t)duration_us * 1000);
}
