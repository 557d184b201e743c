/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The memory of a region's part in this process: handles made or imported, and
 * their mapping in a context.
 */
#ifndef MOIETY_SERVE_CLIENT_MEMORY_H_
#define MOIETY_SERVE_CLIENT_MEMORY_H_

#include <stdbool.h>

#include "moiety/region.h"
#include "pool/driver/driver_table.h"
#include "serve/protocol/frame.h"

/* A part's addresses. The memory of what is mapped lives without its handles. */
struct moietyi_part_memory {
    const struct moietyi_driver *driver;
    CUcontext context; /* NULL: the part is not mapped */
    CUdevice device;
    CUdeviceptr address; /* 0: nothing is reserved */
    uint64_t size_bytes;
    uint64_t mapped_bytes; /* from the start on */
};

/* The driver, with every entry that regions need: or MOIETY_E_UNSUPPORTED, and
 * what moietyi_driver_open() returns. */
MOIETY_MUST_USE moiety_status
moietyi_part_driver(const struct moietyi_driver **out);
/* The device's UUID. MOIETY_OK, MOIETY_E_INVALID: there is no such ordinal. */
MOIETY_MUST_USE moiety_status
moietyi_part_device(const struct moietyi_driver *driver, int32_t ordinal,
                    CUdevice *out_device, uint8_t *out_uuid);

/* Reserves addresses, if the part has a context: all of `wanted` or none.
 * MOIETY_OK, MOIETY_E_INVALID: the context is not of the device;
 * MOIETY_E_IN_USE: the address is taken; or what the driver said. */
MOIETY_MUST_USE moiety_status
moietyi_part_reserve(struct moietyi_part_memory *memory,
                     const moiety_region_part *wanted, uint64_t size_bytes);
/* Makes a handle and a descriptor of it, and maps it behind what is mapped. */
MOIETY_MUST_USE moiety_status
moietyi_part_make(struct moietyi_part_memory *memory, uint64_t size_bytes,
                  int *out_descriptor);
/* The same with a handle that came; the descriptor stays the caller's. */
MOIETY_MUST_USE moiety_status moietyi_part_take(
    struct moietyi_part_memory *memory, uint64_t size_bytes, int descriptor);
/* The device's access to all that is mapped. */
MOIETY_MUST_USE moiety_status
moietyi_part_grant(const struct moietyi_part_memory *memory, bool is_writer);
/* Unmaps and frees the addresses. A failure leaves the rest for another call. */
MOIETY_MUST_USE moiety_status
moietyi_part_end(struct moietyi_part_memory *memory);

#endif
