/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the driver's answers mean for our callers. Calls no driver but for the
 * name of a code that is newer than this library.
 */
#include "pool/driver/status.h"

#include <stddef.h>
#include <string.h>

#include "pool/base/failure.h"
#include "pool/driver/driver_table.h"

struct entry_words {
    const char *name;
    moiety_status exhausted; /* meaning of CUDA_ERROR_OUT_OF_MEMORY */
};

#define EXHAUSTED_DEVICE MOIETY_E_NO_DEVICE_MEMORY
#define EXHAUSTED_PINNED MOIETY_E_NO_PINNED_MEMORY
#define EXHAUSTED_HOST MOIETY_E_NO_HOST_MEMORY

static const struct entry_words entries[] = {
#define ENTRY(base, version, symbol, need, memory, parameters)                 \
    {#base, EXHAUSTED_##memory},
#include "pool/driver/cuda_entries.inc"
};

static _Thread_local struct {
    CUresult code;
    const char *name;
    const char *entry;
} last_error = {CUDA_SUCCESS, "", ""};

/* The list has every constant that we use; results are those of CUresult. */
static const struct {
    int value;
    const char *name;
} constants[] = {
#define ENUM(tag)
#define VALUE(name, value) {value, #name},
#define ENUM_END(tag)
#include "pool/driver/cuda_constants.inc"
};

/* NULL for a code that is newer than this library. */
static const char *known_name(CUresult code)
{
    static const char prefix[] = "CUDA_ERROR_";
    for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++)
        if (constants[i].value == (int)code &&
            strncmp(constants[i].name, prefix, strlen(prefix)) == 0)
            return constants[i].name;
    return NULL;
}

/* The driver's own name for an error; asks the open driver about codes that are
 * newer than this library. "CUDA_ERROR_UNKNOWN" if it does not know either;
 * never NULL. */
static const char *code_name(CUresult code)
{
    const char *name = known_name(code);
    const struct moietyi_driver *driver = moietyi_driver_opened();
    if (!name && driver && driver->cuGetErrorName(code, &name) != CUDA_SUCCESS)
        name = NULL;
    return name ? name : "CUDA_ERROR_UNKNOWN";
}

static moiety_status status_of(enum moietyi_entry entry, CUresult code)
{
    switch (code) {
    case CUDA_SUCCESS:
        return MOIETY_OK;
    case CUDA_ERROR_OUT_OF_MEMORY:
        return entries[entry].exhausted;
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_INVALID_HANDLE:
        return MOIETY_E_INVALID;
    case CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED:
        return MOIETY_E_FOREIGN;
    case CUDA_ERROR_NOT_READY:
        return MOIETY_E_WOULD_BLOCK;
    case CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
        return MOIETY_E_IN_USE;
    case CUDA_ERROR_NOT_SUPPORTED:
        return MOIETY_E_UNSUPPORTED;
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
        return MOIETY_E_NO_DRIVER;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
        return MOIETY_E_NO_DEVICE;
    case CUDA_ERROR_DEINITIALIZED:
        return MOIETY_E_DEINITIALIZED;
    /* We only pass contexts that were valid when we got them, so one that is
     * not valid any more was destroyed. */
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
        return MOIETY_E_CONTEXT_DESTROYED;
    default:
        return MOIETY_E_DRIVER;
    }
}

moiety_status moietyi_driver_status(enum moietyi_entry entry, CUresult code)
{
    if (code == CUDA_SUCCESS)
        return MOIETY_OK;
    last_error.code = code;
    last_error.name = code_name(code);
    last_error.entry = entries[entry].name;
    return moietyi_fail(status_of(entry, code), "%s: %s (%d)", last_error.entry,
                        last_error.name, (int)code);
}

moiety_driver_error moietyi_driver_last_error(void)
{
    return (moiety_driver_error){
        .code = (int32_t)last_error.code,
        .name = last_error.name,
        .entry = last_error.entry,
    };
}

bool moietyi_driver_has_stopped(void)
{
    switch (last_error.code) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
        return true;
    default:
        return false;
    }
}
