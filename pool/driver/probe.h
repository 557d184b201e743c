/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What an open driver and one of its devices can do.
 */
#ifndef BINADE_POOL_DRIVER_PROBE_H_
#define BINADE_POOL_DRIVER_PROBE_H_

#include "binade/probe.h"
#include "pool/driver/driver_table.h"

/* Fills all of `*out`, struct_size included. BINADE_E_INVALID if there is no
 * such device, or what the driver's failure means; `*out` is then undefined. */
BINADE_MUST_USE binade_status binadei_driver_probe(
    const struct binadei_driver *driver, int device, binade_caps *out);

/* Whether there is a device of this ordinal, and how many there are:
 * BINADE_E_INVALID, or BINADE_E_NO_DEVICE where there is none. */
BINADE_MUST_USE binade_status binadei_check_device(
    const struct binadei_driver *driver, int index, int *out_count);

#endif
