/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Physical and virtual memory apart from each other, as tests of several
 * topics need it.
 */
#ifndef MOIETY_TESTS_CONFORMANCE_MEMORY_VMM_H_
#define MOIETY_TESTS_CONFORMANCE_MEMORY_VMM_H_

#include "tests/conformance/device.h"

namespace conformance
{

/* What the granularity is known to be; a check compares it. */
constexpr size_t kGranule = 2 * kMiB;

CUmemAllocationProp
PinnedOnDevice(CUmemAllocationHandleType exported = CU_MEM_HANDLE_TYPE_NONE);
CUmemAccessDesc ReadWriteByDevice();

/* A range with one mapped, accessible allocation. */
struct MappedRange {
    explicit MappedRange(size_t size_bytes, CUmemAllocationHandleType exported =
                                                CU_MEM_HANDLE_TYPE_NONE);
    ~MappedRange();
    MappedRange(const MappedRange &) = delete;
    MappedRange &operator=(const MappedRange &) = delete;
    /* Early; the destructor then leaves it alone. */
    CUresult Unmap();

    size_t size_bytes;
    CUdeviceptr address = 0;
    CUmemGenericAllocationHandle memory = 0;
    bool is_mapped = false;
};

} // namespace conformance

#endif
