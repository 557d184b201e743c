/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in driver as the driver of this process, and the few of its entries
 * and controls that these tests need.
 */
#ifndef MOIETY_TESTS_SEGMENT_DEVICE_UNDER_TEST_H_
#define MOIETY_TESTS_SEGMENT_DEVICE_UNDER_TEST_H_

#include <cstdint>
#include <string>

#include "moiety/source.h"
#include "pool/driver/cuda_abi.h"

namespace segment_test
{

// The source of device memory in `context`, or in the primary context. The
// process ends with a message when there is none.
moiety_source DeviceSource(CUcontext context = nullptr);

// A function of the driver's table; the process ends when it has none.
void *Entry(const char *name);
template <typename T> T *Get(const char *name)
{
    return reinterpret_cast<T *>(Entry(name));
}

// Controls of the stand-in.
void SetFaults(const std::string &plan);
int64_t LiveAllocations();
uint64_t Calls();

CUcontext Current();
void SetCurrent(CUcontext context);
CUcontext NewContext();
// Sets the thread's capture mode and returns what it was.
CUstreamCaptureMode ExchangeMode(CUstreamCaptureMode mode);

} // namespace segment_test

#endif
