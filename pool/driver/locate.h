/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which file is the driver: the policy of MOIETY_DRIVER and MOIETY_REQUIRE_GPU.
 * Opens the library and calls nothing in it.
 */
#ifndef MOIETY_POOL_DRIVER_LOCATE_H_
#define MOIETY_POOL_DRIVER_LOCATE_H_

#include <stdbool.h>

#include "moiety/status.h"
#include "pool/driver/driver_table.h"

struct moietyi_library {
    void *handle; /* dlopen's; one reference, for its holder to close */
    char path[MOIETYI_PATH_BYTES]; /* as the loader names the file */
    bool is_standin;
};

/* Opens the library that the environment asks for. On failure nothing is open
 * and `*out` is not written: MOIETY_E_INVALID for a setting, MOIETY_E_NO_DRIVER
 * where there is no such library, MOIETY_E_NO_DEVICE for a stand-in where a GPU
 * is required. */
MOIETY_MUST_USE moiety_status moietyi_library_open(struct moietyi_library *out);

void moietyi_library_close(struct moietyi_library *library);

#endif
