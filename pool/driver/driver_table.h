/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The door to the CUDA driver. Everything of Binade that calls the driver does
 * so through the table that binadei_driver_open() hands out; nothing links
 * libcuda. Entries marked OPTIONAL in cuda_entries.inc may be NULL: test the
 * field, or the feature in binade_caps, before use.
 *
 *     status = BINADEI_CALL(driver, cuMemAlloc, (&address, size_bytes));
 */
#ifndef BINADE_POOL_DRIVER_DRIVER_TABLE_H_
#define BINADE_POOL_DRIVER_DRIVER_TABLE_H_

#include <stdbool.h>

#include "binade/status.h"
#include "pool/driver/cuda_abi.h"
#include "pool/driver/status.h"

/* Oldest driver that has every required entry: CUDA 11.4, as 1000 * major +
 * 10 * minor. */
#define BINADEI_DRIVER_VERSION_MIN 11040

/* Bytes of a path, its final 0 included: Linux's own limit. */
#define BINADEI_PATH_BYTES 4096

/* Written by the loader before anyone else can see it, constant after that. */
struct binadei_driver {
#define ENTRY(base, version, symbol, need, memory, parameters)                 \
    CUresult(*base) parameters;
#include "pool/driver/cuda_entries.inc"
    void *library; /* dlopen handle, never closed once published */
    char library_path[BINADEI_PATH_BYTES]; /* file, as the loader names it */
    int version;                           /* 1000 * major + 10 * minor */
    bool is_standin;
};

/* Opens the driver that BINADE_DRIVER names, once per process; any thread. A
 * failure leaves nothing open and the next call tries again. May block while
 * another thread opens. Statuses: those of binade_probe(). */
BINADE_MUST_USE binade_status
binadei_driver_open(const struct binadei_driver **out);

/* The driver if it is open, or NULL; never opens it. Wait-free. */
const struct binadei_driver *binadei_driver_opened(void);
/* Makes a filled table of an initialised driver the process's, for driver.c.
 * False: another thread was first, and this one is still the caller's. */
bool binadei_driver_publish(const struct binadei_driver *driver);

/* Calls an entry and turns what it returns into a status, with the error noted
 * for binade_last_driver_error() unless it is CUDA_SUCCESS. */
#define BINADEI_CALL(driver, base, arguments)                                  \
    binadei_driver_status(BINADEI_ENTRY_##base, (driver)->base arguments)

#endif
