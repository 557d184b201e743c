/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Opens the stand-in as a program opens a driver, and finds its entries and
 * controls by name. For tests of what only the stand-in has; what it shares
 * with a real driver is in tests/conformance.
 */
#ifndef MOIETY_TESTS_STANDIN_STANDIN_UNDER_TEST_H_
#define MOIETY_TESTS_STANDIN_STANDIN_UNDER_TEST_H_

#include "pool/driver/cuda_abi.h"
#include "pool/standin/standin.h"

namespace standin
{

// The library's handle; the process ends with a message when it cannot open.
void *Handle();

// The function `name` as type T, found with dlsym(); the process ends with a
// message when there is none.
void *Find(const char *name);

template <typename T> T *Get(const char *name)
{
    return reinterpret_cast<T *>(Find(name));
}

// The entries that these tests call, by their driver names.
CUresult Init();
CUresult MemAlloc(CUdeviceptr *out, size_t size_bytes);
CUresult MemFree(CUdeviceptr address);

// Init, and the primary context of device 0 made current.
void StartOnDevice0();

} // namespace standin

#endif
