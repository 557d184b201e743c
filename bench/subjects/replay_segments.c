/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Called under the lock of the subject that uses it.
 */
#include "bench/subjects/replay_segments.h"

#include "bench/base/device.h"
#include "bench/subjects/replay_streams.h"
#include "pool/driver/driver_table.h"

static uint64_t limit_bytes;
static uint64_t reserved_bytes;
static uint64_t driver_calls;

const char *replay_segments_start(const struct replay_setup *setup)
{
    limit_bytes = setup->limit_bytes ? setup->limit_bytes : UINT64_MAX;
    reserved_bytes = 0;
    driver_calls = 0;
    return setup->needs_streams ? replay_streams_start(setup)
                                : bench_device_start(0);
}

uint64_t replay_segments_bytes_max(void)
{
    size_t free_bytes;
    size_t total_bytes;
    if (binadei_driver_opened()->cuMemGetInfo(&free_bytes, &total_bytes) !=
            CUDA_SUCCESS ||
        total_bytes > limit_bytes)
        return limit_bytes;
    return total_bytes;
}

uint64_t replay_segments_take(uint64_t size_bytes)
{
    CUdeviceptr address;
    if (size_bytes > limit_bytes - reserved_bytes)
        return 0;
    driver_calls++;
    if (binadei_driver_opened()->cuMemAlloc(&address, size_bytes) !=
        CUDA_SUCCESS)
        return 0;
    reserved_bytes += size_bytes;
    return address;
}

void replay_segments_give(uint64_t address, uint64_t size_bytes)
{
    driver_calls++;
    (void)binadei_driver_opened()->cuMemFree(address);
    reserved_bytes -= size_bytes;
}

struct replay_memory replay_segments_memory(uint64_t handed_bytes)
{
    return (struct replay_memory){
        .handed_bytes = handed_bytes,
        .cached_bytes = reserved_bytes - handed_bytes,
        .reserved_bytes = reserved_bytes,
        .driver_calls = driver_calls,
    };
}

void replay_segments_stop(void)
{
    bench_device_stop();
}
