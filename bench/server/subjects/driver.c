/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Plain allocation by the driver. It knows no streams: cuMemFree() waits until
 * the work that may use the memory is over, and holds back everybody's launches
 * meanwhile. That makes it safe here, and slow.
 */
#include <stdatomic.h>

#include "bench/server/subjects/subject.h"

#define GRAIN_BYTES UINT64_C(512)

static const struct server_device *on;
/* Rounded as the driver aligns; it may have taken more from the device. No
 * edge: they only count, and are read when the threads have stopped. */
static _Atomic(uint64_t) live_bytes;
static _Atomic(uint64_t) most_bytes;

static uint64_t rounded(size_t size_bytes)
{
    return (size_bytes + GRAIN_BYTES - 1) / GRAIN_BYTES * GRAIN_BYTES;
}

static moiety_status start(const struct server_device *device)
{
    on = device;
    return MOIETY_OK;
}

static void note_alloc(uint64_t bytes)
{
    uint64_t live = atomic_fetch_add(&live_bytes, bytes) + bytes;
    uint64_t most = atomic_load(&most_bytes);
    while (most < live &&
           !atomic_compare_exchange_weak(&most_bytes, &most, live))
        continue;
}

static moiety_status alloc(size_t size_bytes, unsigned stream, CUdeviceptr *out)
{
    (void)stream;
    moiety_status status =
        MOIETYI_CALL(on->driver, cuMemAlloc, (out, size_bytes));
    if (status == MOIETY_OK)
        note_alloc(rounded(size_bytes));
    return status;
}

static moiety_status free_block(CUdeviceptr address, size_t size_bytes,
                                unsigned stream)
{
    (void)stream;
    moiety_status status = MOIETYI_CALL(on->driver, cuMemFree, (address));
    if (status == MOIETY_OK)
        (void)atomic_fetch_sub(&live_bytes, rounded(size_bytes));
    return status;
}

static uint64_t peak_bytes(void)
{
    return atomic_load(&most_bytes);
}

static uint64_t stop(void)
{
    return atomic_load(&live_bytes);
}

const struct server_subject server_subject_driver = {
    .name = "cuda_malloc",
    .description = "the driver alone: cuMemAlloc() and cuMemFree()",
    .is_default = true,
    .start = start,
    .alloc = alloc,
    .free = free_block,
    .peak_bytes = peak_bytes,
    .stop = stop,
};
