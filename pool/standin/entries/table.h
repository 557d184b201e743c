/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The table of all driver entries: since when it is there, and what it runs.
 */
#ifndef MOIETY_POOL_STANDIN_ENTRIES_TABLE_H_
#define MOIETY_POOL_STANDIN_ENTRIES_TABLE_H_

#include "pool/standin/entries/entry.h"

/* One declared entry of the driver, beside its name. */
struct entry_row {
    int version;        /* first driver version that has it */
    bool is_per_thread; /* null stream = the calling thread's own */
    void (*function)(void);
    bool is_implemented;
};

/* Row of `entry`; the table has ENTRY_COUNT rows, in the order of the enum. */
const struct entry_row *entry_row(enum standin_entry entry);

#endif
