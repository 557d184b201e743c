/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which file is the driver: the policy of BINADE_DRIVER and BINADE_REQUIRE_GPU.
 * Opens the library and calls nothing in it.
 */
#ifndef BINADE_POOL_DRIVER_LOCATE_H_
#define BINADE_POOL_DRIVER_LOCATE_H_

#include <stdbool.h>

#include "binade/status.h"
#include "pool/driver/driver_table.h"

struct binadei_library {
    void *handle; /* dlopen's; one reference, for its holder to close */
    char path[BINADEI_PATH_BYTES]; /* as the loader names the file */
    bool is_standin;
};

/* Opens the library that the environment asks for. On failure nothing is open
 * and `*out` is not written: BINADE_E_INVALID for a setting, BINADE_E_NO_DRIVER
 * where there is no such library, BINADE_E_NO_DEVICE for a stand-in where a GPU
 * is required. */
BINADE_MUST_USE binade_status binadei_library_open(struct binadei_library *out);

void binadei_library_close(struct binadei_library *library);

#endif
