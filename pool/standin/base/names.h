/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The entries that CUDA declares, by number and by name; names of error codes.
 */
#ifndef MOIETY_POOL_STANDIN_BASE_NAMES_H_
#define MOIETY_POOL_STANDIN_BASE_NAMES_H_

#include <stdbool.h>

#include "pool/driver/cuda_abi.h"

enum standin_entry {
#define ENTRY(symbol, base, version, flavour) ENTRY_##symbol,
#include "pool/standin/entries.inc"
    ENTRY_COUNT
};

/* The name without version and flavour: that which programs ask for. */
const char *entry_base(enum standin_entry entry);
/* `name` is the entry's symbol, its base name, or "*". */
bool entry_has_name(enum standin_entry entry, const char *name);
bool entry_name_is_known(const char *name);

/* "CUDA_ERROR_..." of a code, NULL when it has none; and the way back. */
const char *error_name(CUresult code);
bool error_from_name(const char *name, CUresult *out);

#endif
