/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/studies/mapped/copies.h"

#include "bench/base/clock.h"
#include "bench/base/numbers.h"
#include "bench/studies/mapped/must.h"

#define COPIES 10U

double copies_speed(const struct moietyi_driver *driver, CUstream stream,
                    CUdeviceptr to, CUdeviceptr from, size_t size_bytes)
{
    double speeds[COPIES];
    for (unsigned i = 0; i < COPIES; i++) {
        uint64_t begun_ns = clock_now_ns();
        must(driver->cuMemcpyDtoDAsync(to, from, size_bytes, stream),
             "cuMemcpyDtoDAsync");
        must(driver->cuStreamSynchronize(stream), "cuStreamSynchronize");
        speeds[i] = (double)size_bytes / (double)(clock_now_ns() - begun_ns);
    }
    numbers_sort(speeds, COPIES);
    return numbers_median(speeds, COPIES);
}
