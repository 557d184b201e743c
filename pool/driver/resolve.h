/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Looks up the entries of cuda_entries.inc in an open driver library.
 */
#ifndef MOIETY_POOL_DRIVER_RESOLVE_H_
#define MOIETY_POOL_DRIVER_RESOLVE_H_

#include "moiety/status.h"
#include "pool/driver/driver_table.h"

/* Fills the entries and the version of `driver` from `driver->library`. Missing
 * entries stay NULL, and `*out_missing` is the first required one of those, or
 * NULL. Fails with MOIETY_E_NO_DRIVER if the library is no CUDA driver at all,
 * and with the driver's error if it does not report its version. */
MOIETY_MUST_USE moiety_status
moietyi_driver_resolve(struct moietyi_driver *driver, const char **out_missing);

#endif
