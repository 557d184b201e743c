/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The door to the CUDA driver. Everything of Moiety that calls the driver does
 * so through the table that moietyi_driver_open() hands out; nothing links
 * libcuda. Entries marked OPTIONAL in cuda_entries.inc may be NULL: test the
 * field, or the feature in moiety_caps, before use.
 *
 *     status = MOIETYI_CALL(driver, cuMemAlloc, (&address, size_bytes));
 */
#ifndef MOIETY_POOL_DRIVER_DRIVER_TABLE_H_
#define MOIETY_POOL_DRIVER_DRIVER_TABLE_H_

#include <stdbool.h>

#include "moiety/status.h"
#include "pool/driver/cuda_abi.h"
#include "pool/driver/status.h"

/* Oldest driver that has every required entry: CUDA 11.4, as 1000 * major +
 * 10 * minor. */
#define MOIETYI_DRIVER_VERSION_MIN 11040

/* Bytes of a path, its final 0 included: Linux's own limit. */
#define MOIETYI_PATH_BYTES 4096

/* Written by the loader before anyone else can see it, constant after that. */
struct moietyi_driver {
#define ENTRY(base, version, symbol, need, memory, parameters)                 \
    CUresult(*base) parameters;
#include "pool/driver/cuda_entries.inc"
    void *library; /* dlopen handle, never closed once published */
    char library_path[MOIETYI_PATH_BYTES]; /* file, as the loader names it */
    int version;                           /* 1000 * major + 10 * minor */
    bool is_standin;
};

/* Opens the driver that MOIETY_DRIVER names, once per process; any thread. A
 * failure leaves nothing open and the next call tries again. May block while
 * another thread opens. Statuses: those of moiety_probe(). */
MOIETY_MUST_USE moiety_status
moietyi_driver_open(const struct moietyi_driver **out);

/* The driver if it is open, or NULL; never opens it. Wait-free. */
const struct moietyi_driver *moietyi_driver_opened(void);
/* Makes a filled table of an initialised driver the process's, for driver.c.
 * False: another thread was first, and this one is still the caller's. */
bool moietyi_driver_publish(const struct moietyi_driver *driver);

/* Calls an entry and turns what it returns into a status, with the error noted
 * for moiety_last_driver_error() unless it is CUDA_SUCCESS. */
#define MOIETYI_CALL(driver, base, arguments)                                  \
    moietyi_driver_status(MOIETYI_ENTRY_##base, (driver)->base arguments)

#endif
