/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What an open driver and one of its devices can do.
 */
#ifndef MOIETY_POOL_DRIVER_PROBE_H_
#define MOIETY_POOL_DRIVER_PROBE_H_

#include "moiety/probe.h"
#include "pool/driver/driver_table.h"

/* Fills all of `*out`, struct_size included. MOIETY_E_INVALID if there is no
 * such device, or what the driver's failure means; `*out` is then undefined. */
MOIETY_MUST_USE moiety_status moietyi_driver_probe(
    const struct moietyi_driver *driver, int device, moiety_caps *out);

/* Whether there is a device of this ordinal, and how many there are:
 * MOIETY_E_INVALID, or MOIETY_E_NO_DEVICE where there is none. */
MOIETY_MUST_USE moiety_status moietyi_check_device(
    const struct moietyi_driver *driver, int index, int *out_count);

/* That a device cannot access another one's memory: MOIETY_E_UNSUPPORTED, with a
 * message. */
moiety_status moietyi_no_access(const struct moietyi_driver *driver, int device,
                                int of);

#endif
