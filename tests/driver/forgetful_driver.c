/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A driver that is another one ($FAKE_BEHIND) but for one entry: it says that
 * it set device memory and does not. A check of bytes must notice.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "pool/driver/cuda_abi.h"

typedef CUresult get_fn(const char *base, void **out, int version,
                        cuuint64_t flags,
                        CUdriverProcAddressQueryResult *out_result);

static CUresult forget(CUdeviceptr address, unsigned char value, size_t count,
                       CUstream stream)
{
    (void)address;
    (void)value;
    (void)count;
    (void)stream;
    return CUDA_SUCCESS;
}

__attribute__((visibility("default"))) get_fn cuGetProcAddress_v2;

CUresult cuGetProcAddress_v2(const char *base, void **out, int version,
                             cuuint64_t flags,
                             CUdriverProcAddressQueryResult *out_result)
{
    CUresult (*forgetting)(CUdeviceptr, unsigned char, size_t, CUstream) =
        forget;
    if (strcmp(base, "cuMemsetD8Async") == 0) {
        memcpy(out, &forgetting, sizeof(*out));
        return CUDA_SUCCESS;
    }
    get_fn *get;
    const char *behind = getenv("FAKE_BEHIND");
    void *library = dlopen(behind ? behind : "", RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "cuGetProcAddress_v2") : NULL;
    if (!symbol)
        return CUDA_ERROR_FILE_NOT_FOUND;
    memcpy(&get, &symbol, sizeof(get));
    return get(base, out, version, flags, out_result);
}
