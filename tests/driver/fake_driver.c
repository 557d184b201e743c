/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Imitation drivers that only the door can tell apart: they do nothing, but
 * each lacks something that a driver has. The build chooses:
 *
 *   FAKE_GETS      cuGetProcAddress: 0 none, 4 the form with four parameters,
 *                  5 both forms
 *   FAKE_SYMBOLS   1: all entries are in the symbol table as well
 *   FAKE_STANDIN   1: says that it is a stand-in
 *   FAKE_NOTHING   1: is no driver at all
 *
 * The environment chooses the rest: FAKE_VERSION is the driver's version
 * (13000), FAKE_INIT what cuInit returns (0), FAKE_HIDE a base name that
 * cuGetProcAddress does not know.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "pool/driver/cuda_abi.h"

#define EXPORT __attribute__((visibility("default")))

#if FAKE_NOTHING

EXPORT int fake_driver_is_nothing(void);
int fake_driver_is_nothing(void)
{
    return 1;
}

#else

static int number(const char *name, int otherwise)
{
    const char *value = getenv(name);
    return value ? atoi(value) : otherwise;
}

#if FAKE_STANDIN
EXPORT const char *moiety_standin_version(void);
const char *moiety_standin_version(void)
{
    return "fake";
}
#endif

#if FAKE_SYMBOLS
#define VISIBILITY EXPORT
#else
#define VISIBILITY __attribute__((visibility("hidden")))
#endif

#define ENTRY(base, version, symbol, need, memory, parameters)                 \
    VISIBILITY CUresult symbol parameters;
#include "pool/driver/cuda_entries.inc"

/* Every entry refuses, but for three that are written out below: those get out
 * of the way by another name. */
#define cuInit refusing_init
#define cuDriverGetVersion refusing_version
#define cuGetErrorName refusing_name
#define ENTRY(base, version, symbol, need, memory, parameters)                 \
    CUresult symbol parameters;                                                \
    CUresult symbol parameters                                                 \
    {                                                                          \
        return CUDA_ERROR_NOT_SUPPORTED;                                       \
    }
#include "pool/driver/cuda_entries.inc"
#undef cuInit
#undef cuDriverGetVersion
#undef cuGetErrorName

VISIBILITY CUresult cuInit(unsigned flags)
{
    return flags == 0 ? (CUresult)number("FAKE_INIT", 0)
                      : CUDA_ERROR_INVALID_VALUE;
}

VISIBILITY CUresult cuDriverGetVersion(int *out)
{
    *out = number("FAKE_VERSION", 13000);
    return CUDA_SUCCESS;
}

/* A code that only this driver knows. */
VISIBILITY CUresult cuGetErrorName(CUresult code, const char **out)
{
    *out = (int)code == 31337 ? "CUDA_ERROR_OF_A_NEWER_DRIVER" : NULL;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

#if FAKE_GETS

struct row {
    const char *base;
    void (*function)(void);
};

static const struct row rows[] = {
#define ENTRY(base, version, symbol, need, memory, parameters)                 \
    {#base, (void (*)(void))symbol},
#include "pool/driver/cuda_entries.inc"
};

/* Whatever version is asked for: a driver older than that hands out what it
 * has. */
static CUresult look_up(const char *base, void **out)
{
    const char *hidden = getenv("FAKE_HIDE");
    *out = NULL;
    if (hidden && strcmp(hidden, base) == 0)
        return CUDA_ERROR_NOT_FOUND;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(rows[i].base, base) != 0)
            continue;
        memcpy(out, &rows[i].function, sizeof(*out));
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuGetProcAddress(const char *base, void **out, int version,
                                 cuuint64_t flags);
CUresult cuGetProcAddress(const char *base, void **out, int version,
                          cuuint64_t flags)
{
    (void)version;
    (void)flags;
    return look_up(base, out);
}

#if FAKE_GETS == 5
EXPORT CUresult cuGetProcAddress_v2(const char *base, void **out, int version,
                                    cuuint64_t flags,
                                    CUdriverProcAddressQueryResult *out_result);
CUresult cuGetProcAddress_v2(const char *base, void **out, int version,
                             cuuint64_t flags,
                             CUdriverProcAddressQueryResult *out_result)
{
    (void)version;
    (void)flags;
    CUresult code = look_up(base, out);
    if (out_result)
        *out_result = code == CUDA_SUCCESS
                          ? CU_GET_PROC_ADDRESS_SUCCESS
                          : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return code;
}
#endif

#endif
#endif
