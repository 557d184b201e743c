/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The times are medians of one thread on one H200 host (driver 580); the
 * per-MiB part is the slope between 1 MiB and 512 MiB of host memory.
 */
#include "pool/standin/settings/cost.h"

#include <time.h>

#include "pool/standin/settings/settings.h"

#define MIB (1U << 20)

static const unsigned call_ns[ENTRY_COUNT] = {
    [ENTRY_cuMemAlloc_v2] = 35000,
    [ENTRY_cuMemFree_v2] = 30000,
    [ENTRY_cuMemAllocAsync] = 215,
    [ENTRY_cuMemFreeAsync] = 215,
    [ENTRY_cuMemAllocAsync_ptsz] = 215,
    [ENTRY_cuMemFreeAsync_ptsz] = 215,
    [ENTRY_cuMemHostAlloc] = 350000,
    [ENTRY_cuMemAllocHost_v2] = 350000,
    [ENTRY_cuMemFreeHost] = 152000,
    [ENTRY_cuMemHostRegister_v2] = 1067000,
    [ENTRY_cuMemHostUnregister] = 79000,
    [ENTRY_cuEventCreate] = 280,
    [ENTRY_cuEventRecord] = 190,
    [ENTRY_cuEventRecord_ptsz] = 190,
    [ENTRY_cuEventQuery] = 135,
    [ENTRY_cuStreamWaitEvent] = 110,
    [ENTRY_cuStreamWaitEvent_ptsz] = 110,
    [ENTRY_cuCtxRecordEvent] = 200,
    [ENTRY_cuStreamQuery] = 130,
    [ENTRY_cuStreamQuery_ptsz] = 130,
    [ENTRY_cuStreamWriteValue32_v2] = 660,
    [ENTRY_cuCtxGetCurrent] = 30,
    [ENTRY_cuMemGetInfo_v2] = 3300,
    [ENTRY_cuMemGetAddressRange_v2] = 70,
    [ENTRY_cuMemAddressReserve] = 18000,
    [ENTRY_cuMemCreate] = 16000,
    [ENTRY_cuMemMap] = 3000,
    [ENTRY_cuMemSetAccess] = 58000,
    [ENTRY_cuMemUnmap] = 42000,
    [ENTRY_cuMemRelease] = 14000,
    [ENTRY_cuMemExportToShareableHandle] = 600000,
    [ENTRY_cuIpcOpenMemHandle_v2] = 32000,
    [ENTRY_cuIpcCloseMemHandle] = 47000,
};

static const unsigned pinned_ns_per_mib[ENTRY_COUNT] = {
    [ENTRY_cuMemHostAlloc] = 275000,     [ENTRY_cuMemAllocHost_v2] = 275000,
    [ENTRY_cuMemFreeHost] = 63700,       [ENTRY_cuMemHostRegister_v2] = 22600,
    [ENTRY_cuMemHostUnregister] = 12000,
};

static unsigned long long now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (unsigned long long)time.tv_sec * 1000000000U +
           (unsigned long long)time.tv_nsec;
}

static void stay_busy(unsigned long long duration_ns)
{
    unsigned long long until = now_ns() + duration_ns;
    while (now_ns() < until)
        continue;
}

void cost_charge(enum standin_entry entry)
{
    if (call_ns[entry] && settings_get()->is_cost_h200)
        stay_busy(call_ns[entry]);
}

void cost_charge_pinned(enum standin_entry entry, size_t size_bytes)
{
    if (settings_get()->is_cost_h200)
        stay_busy((unsigned long long)pinned_ns_per_mib[entry] * size_bytes /
                  MIB);
}
