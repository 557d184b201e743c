/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Names of entries and of error codes.
 */
#ifndef BINADE_POOL_STANDIN_ENTRIES_NAMES_H_
#define BINADE_POOL_STANDIN_ENTRIES_NAMES_H_

#include <stdbool.h>

#include "pool/standin/entries/entry.h"

/* One declared entry of the driver. */
struct entry_row {
    const char *symbol;
    const char *base;
    int version;        /* first driver version that has it */
    bool is_per_thread; /* null stream = the calling thread's own */
    void (*function)(void);
    bool is_implemented;
};

/* Row of `entry`; the table has ENTRY_COUNT rows, in the order of the enum. */
const struct entry_row *entry_row(enum standin_entry entry);

/* `name` is the entry's symbol, its base name, or "*". */
bool entry_has_name(enum standin_entry entry, const char *name);
bool entry_name_is_known(const char *name);

/* "CUDA_ERROR_..." of a code, NULL when it has none; and the way back. */
const char *error_name(CUresult code);
bool error_from_name(const char *name, CUresult *out);

#endif
