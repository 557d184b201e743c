/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The few driver entries that the facts need, found by dlsym: nothing links
 * the driver, so that the program also runs, and says so, where there is none.
 */
#ifndef MOIETY_TESTS_HOST_FACTS_DRIVER_DOOR_H_
#define MOIETY_TESTS_HOST_FACTS_DRIVER_DOOR_H_

#include <stdbool.h>

#include "pool/driver/cuda_abi.h"

struct driver {
    CUresult (*init)(unsigned flags);
    CUresult (*driver_get_version)(int *out);
    CUresult (*get_error_name)(CUresult code, const char **out);
    CUresult (*device_get_count)(int *out);
    CUresult (*device_get_name)(char *out, int out_bytes, CUdevice device);
    CUresult (*primary_retain)(CUcontext *out, CUdevice device);
    CUresult (*ctx_set_current)(CUcontext context);
    CUresult (*mem_alloc)(CUdeviceptr *out, size_t size_bytes);
    CUresult (*mem_free)(CUdeviceptr address);
    CUresult (*ipc_get)(CUipcMemHandle *out, CUdeviceptr address);
    CUresult (*ipc_open)(CUdeviceptr *out, CUipcMemHandle handle,
                         unsigned flags);
    CUresult (*ipc_close)(CUdeviceptr address);
    CUresult (*mem_create)(CUmemGenericAllocationHandle *out, size_t size_bytes,
                           const CUmemAllocationProp *property,
                           unsigned long long flags);
    CUresult (*mem_release)(CUmemGenericAllocationHandle memory);
    CUresult (*mem_export)(void *out, CUmemGenericAllocationHandle memory,
                           CUmemAllocationHandleType type,
                           unsigned long long flags);
    bool is_standin;
};

/* Opens the file that MOIETY_DRIVER names, if that holds a '/', else
 * libcuda.so.1. NULL when everything was found, else why not. */
const char *driver_open(struct driver *driver);

/* The driver's own name for `code`. */
const char *driver_name_of(const struct driver *driver, CUresult code);

/* cuInit and the primary context of device 0 made current. */
CUresult driver_begin(const struct driver *driver);

#endif
