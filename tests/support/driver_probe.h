/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lets tests in C++ look into pool/driver, whose headers are C only: what a
 * CUresult means, and what the open driver's table holds. Calls and reads;
 * asserts nothing.
 */
#ifndef MOIETY_TESTS_SUPPORT_DRIVER_PROBE_H_
#define MOIETY_TESTS_SUPPORT_DRIVER_PROBE_H_

#include <stddef.h>

#include "moiety/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Entries of the driver table, in its order. */
size_t driver_probe_entry_count(void);
const char *driver_probe_entry_name(size_t index);

/* What the product makes of `code` from an entry, as if the driver had just
 * returned it to this thread. -1 for an entry that is not in the table. */
int driver_probe_status(const char *entry, int code);

/* Opens the driver that the environment names, as the product does. */
moiety_status driver_probe_open(void);

/* The open driver's function for an entry: NULL if the driver lacks it, if
 * there is no such entry, or if no driver is open. */
void *driver_probe_function(const char *entry);

/* A symbol of the open driver's library, its controls among them; or NULL. */
void *driver_probe_symbol(const char *name);

#ifdef __cplusplus
}
#endif

#endif
