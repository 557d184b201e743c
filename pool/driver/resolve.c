/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Entry lookup. The driver's own cuGetProcAddress is asked first, because only
 * it knows entries by version; the symbol table is for drivers and imitations
 * that do not have it or do not list an entry in it.
 */
#include "pool/driver/resolve.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "pool/base/failure.h"

typedef CUresult get_v1_fn(const char *base, void **out, int version,
                           cuuint64_t flags);
typedef CUresult get_v2_fn(const char *base, void **out, int version,
                           cuuint64_t flags,
                           CUdriverProcAddressQueryResult *out_result);

struct finder {
    void *library;
    get_v1_fn *get_v1; /* four parameters, CUDA 11.3 */
    get_v2_fn *get_v2; /* five, CUDA 12.0 */
};

struct row {
    const char *base;
    const char *symbol;
    int version;
    bool is_required;
    size_t offset_bytes; /* of the field in the table */
};

#define REQUIRED true
#define OPTIONAL false

static const struct row rows[] = {
#define ENTRY(base, version, symbol, need, memory, parameters)                 \
    {#base, #symbol, version, need, offsetof(struct moietyi_driver, base)},
#include "pool/driver/cuda_entries.inc"
};

/* Or the message to users of a driver that is too old would be wrong. */
#define ENTRY(base, version, symbol, need, memory, parameters)                 \
    _Static_assert(!(need) || (version) <= MOIETYI_DRIVER_VERSION_MIN,         \
                   #base " is newer than the oldest driver that is accepted");
#include "pool/driver/cuda_entries.inc"

/* ISO C has no cast from an object pointer to a function pointer; the bytes are
 * the same wherever dlsym() works. */
static void put_function(void *function, void *out)
{
    memcpy(out, &function, sizeof(function));
}

/* Entries that take the stream 0 mean the legacy stream, as plain symbols do:
 * callers say per-thread with a handle of its own. */
static void *resolve_ask_driver(const struct finder *finder,
                                const struct row *row)
{
    void *function = NULL;
    cuuint64_t flags = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    CUresult code = CUDA_ERROR_NOT_FOUND;
    if (finder->get_v2)
        code = finder->get_v2(row->base, &function, row->version, flags, NULL);
    else if (finder->get_v1)
        code = finder->get_v1(row->base, &function, row->version, flags);
    return code == CUDA_SUCCESS ? function : NULL;
}

static void *resolve_find(const struct finder *finder, const struct row *row)
{
    void *function = resolve_ask_driver(finder, row);
    return function ? function : dlsym(finder->library, row->symbol);
}

static struct finder finder_of(void *library)
{
    struct finder finder = {.library = library};
    put_function(dlsym(library, "cuGetProcAddress"), &finder.get_v1);
    put_function(dlsym(library, "cuGetProcAddress_v2"), &finder.get_v2);
    return finder;
}

static bool is_driver(const struct finder *finder)
{
    return finder->get_v1 || finder->get_v2 || dlsym(finder->library, "cuInit");
}

/* A driver that is asked for a version newer than itself answers with the
 * newest it has, which is another function; so it is not asked. */
static bool is_known(const struct moietyi_driver *driver, const struct row *row)
{
    return row->version <= driver->version;
}

/* Fills cuDriverGetVersion and version, ahead of everything else. A driver
 * without that entry is older than all others of the table: version stays 0. */
static moiety_status find_version(const struct finder *finder,
                                  struct moietyi_driver *driver)
{
    const struct row *row = &rows[MOIETYI_ENTRY_cuDriverGetVersion];
    put_function(resolve_find(finder, row), &driver->cuDriverGetVersion);
    if (!driver->cuDriverGetVersion)
        return MOIETY_OK;
    return MOIETYI_CALL(driver, cuDriverGetVersion, (&driver->version));
}

moiety_status moietyi_driver_resolve(struct moietyi_driver *driver,
                                     const char **out_missing)
{
    struct finder finder = finder_of(driver->library);
    *out_missing = NULL;
    if (!is_driver(&finder)) {
        return moietyi_fail(MOIETY_E_NO_DRIVER,
                            "%s is not a CUDA driver: it has neither "
                            "cuGetProcAddress nor cuInit",
                            driver->library_path);
    }
    moiety_status status = find_version(&finder, driver);
    if (status != MOIETY_OK)
        return status;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        void *function =
            is_known(driver, &rows[i]) ? resolve_find(&finder, &rows[i]) : NULL;
        put_function(function, (char *)driver + rows[i].offset_bytes);
        if (!function && rows[i].is_required && !*out_missing)
            *out_missing = rows[i].base;
    }
    return MOIETY_OK;
}
