/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What every entry of the stand-in does first: is the process still able to
 * call the driver, was it initialised, does the fault plan want this call to
 * fail, what does the call cost, and does it break a capture under way.
 *
 * An entry that no file defines is a weak stub (table.c) that counts the call
 * and returns CUDA_ERROR_NOT_SUPPORTED; defining the symbol replaces it.
 */
#ifndef MOIETY_POOL_STANDIN_ENTRIES_ENTRY_H_
#define MOIETY_POOL_STANDIN_ENTRIES_ENTRY_H_

#include <stdint.h>

#include "pool/standin/base/names.h"
#include "pool/standin/base/process.h"

#define STANDIN_EXPORT __attribute__((visibility("default")))

/* What an entry asks of the process before it runs; or-ed. */
enum standin_needs {
    NEEDS_NOTHING = 0,
    NEEDS_INIT = 1,     /* cuInit has succeeded */
    BREAKS_CAPTURE = 2, /* may not be called while a capture is under way,
                           unless the caller's mode allows it */
};

/* Takes no lock that the caller may hold; call before standin_lock(). */
CUresult standin_enter(enum standin_entry entry, unsigned needs);

/* First statement of every entry. */
#define ENTER(symbol, needs)                                                   \
    do {                                                                       \
        CUresult entered_ = standin_enter(ENTRY_##symbol, (needs));            \
        if (entered_ != CUDA_SUCCESS)                                          \
            return entered_;                                                   \
    } while (0)

/* Defines two versions of an entry, `symbol` and `symbol##_v2`, that do the
 * same: body(...), lock held. */
#define DEFINE_VERSIONS(symbol, parameters, body, ...)                         \
    STANDIN_EXPORT CUresult symbol parameters                                  \
    {                                                                          \
        ENTER(symbol, NEEDS_INIT);                                             \
        standin_lock();                                                        \
        return standin_leave(body(__VA_ARGS__));                               \
    }                                                                          \
    STANDIN_EXPORT CUresult symbol##_v2 parameters                             \
    {                                                                          \
        ENTER(symbol##_v2, NEEDS_INIT);                                        \
        standin_lock();                                                        \
        return standin_leave(body(__VA_ARGS__));                               \
    }

/* Counts the calls of every entry. Any thread, no lock needed. */
void calls_count(enum standin_entry entry);
void calls_watch(void (*called)(const char *entry));
void calls_reset(void);
uint64_t calls_of(enum standin_entry entry);

#endif
