/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * cuGetProcAddress in both its forms. Works before cuInit, as the driver's
 * does. Every entry that CUDA 13.0 declares resolves by base name, version and
 * stream flavour, implemented or not; what a driver of the configured version
 * would not have does not.
 */
#include <string.h>

#include "pool/standin/entries/core_api.h"
#include "pool/standin/entries/table.h"
#include "pool/standin/settings/settings.h"

#define FLAGS_ALL                                                              \
    ((cuuint64_t)CU_GET_PROC_ADDRESS_LEGACY_STREAM |                           \
     (cuuint64_t)CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)

/* The newest entry of `base` that `version` has. A per-thread entry is taken
 * where one exists and is asked for. */
static const struct entry_row *entries_find(const char *base, int version,
                                            bool is_per_thread,
                                            bool *out_is_known)
{
    const struct entry_row *best = NULL;
    *out_is_known = false;
    for (int i = 0; i < ENTRY_COUNT; i++) {
        const struct entry_row *row = entry_row((enum standin_entry)i);
        if (strcmp(entry_base((enum standin_entry)i), base) != 0)
            continue;
        *out_is_known = true;
        if (row->version > version || (row->is_per_thread && !is_per_thread))
            continue;
        if (!best || row->is_per_thread > best->is_per_thread ||
            (row->is_per_thread == best->is_per_thread &&
             row->version > best->version))
            best = row;
    }
    return best;
}

static CUdriverProcAddressQueryResult
entries_resolve(const char *base, int version, bool is_per_thread, void **out)
{
    bool is_known;
    int newest = settings_get()->driver_version;
    const struct entry_row *row = entries_find(
        base, version < newest ? version : newest, is_per_thread, &is_known);
    *out = NULL;
    if (row) {
        /* ISO C has no cast between function and object pointers; the POSIX
         * way is to copy the bytes. */
        memcpy(out, &row->function, sizeof(*out));
        return CU_GET_PROC_ADDRESS_SUCCESS;
    }
    return is_known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                    : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
}

static bool is_good_request(const char *symbol, void **out, cuuint64_t flags)
{
    return symbol && *symbol && out && (flags & ~FLAGS_ALL) == 0 &&
           flags != FLAGS_ALL;
}

/* Writes nothing when there is nothing to write. */
STANDIN_EXPORT CUresult cuGetProcAddress(const char *symbol, void **out,
                                         int version, cuuint64_t flags)
{
    ENTER(cuGetProcAddress, NEEDS_NOTHING);
    if (!is_good_request(symbol, out, flags))
        return CUDA_ERROR_INVALID_VALUE;
    bool is_per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    void *found;
    if (entries_resolve(symbol, version, is_per_thread, &found) !=
        CU_GET_PROC_ADDRESS_SUCCESS)
        return CUDA_ERROR_NOT_FOUND;
    *out = found;
    return CUDA_SUCCESS;
}

/* Not finding the entry is a success of this form, with a NULL address; the
 * status, which is optional, says why. */
STANDIN_EXPORT CUresult cuGetProcAddress_v2(
    const char *symbol, void **out, int version, cuuint64_t flags,
    CUdriverProcAddressQueryResult *out_status)
{
    ENTER(cuGetProcAddress_v2, NEEDS_NOTHING);
    if (!is_good_request(symbol, out, flags))
        return CUDA_ERROR_INVALID_VALUE;
    bool is_per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    CUdriverProcAddressQueryResult status =
        entries_resolve(symbol, version, is_per_thread, out);
    if (out_status)
        *out_status = status;
    return CUDA_SUCCESS;
}
