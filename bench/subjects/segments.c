/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Called under the lock of the subject that uses it.
 */
#include "bench/subjects/segments.h"

#include "bench/base/device.h"
#include "pool/driver/driver_table.h"

static uint64_t limit_bytes;
static uint64_t reserved_bytes;
static uint64_t driver_calls;

const char *subject_streams_start(const struct subject_setup *setup)
{
    return setup->stream_count > BENCH_STREAMS_MAX
               ? "the trace has more than 1024 streams"
               : bench_device_start(setup->stream_count);
}

const char *segments_start(const struct subject_setup *setup)
{
    limit_bytes = setup->limit_bytes ? setup->limit_bytes : UINT64_MAX;
    reserved_bytes = 0;
    driver_calls = 0;
    return setup->needs_streams ? subject_streams_start(setup)
                                : bench_device_start(0);
}

uint64_t segments_bytes_max(void)
{
    size_t free_bytes;
    size_t total_bytes;
    if (binadei_driver_opened()->cuMemGetInfo(&free_bytes, &total_bytes) !=
            CUDA_SUCCESS ||
        total_bytes > limit_bytes)
        return limit_bytes;
    return total_bytes;
}

uint64_t segments_take(uint64_t size_bytes)
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

void segments_give(uint64_t address, uint64_t size_bytes)
{
    driver_calls++;
    (void)binadei_driver_opened()->cuMemFree(address);
    reserved_bytes -= size_bytes;
}

struct subject_memory segments_memory(uint64_t handed_bytes)
{
    return (struct subject_memory){
        .handed_bytes = handed_bytes,
        .cached_bytes = reserved_bytes - handed_bytes,
        .reserved_bytes = reserved_bytes,
        .driver_calls = driver_calls,
    };
}

void segments_stop(void)
{
    bench_device_stop();
}
