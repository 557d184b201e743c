/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Messages for the program's log function (moiety/callbacks.h). They are queued
 * for the calling thread, also under a lock, and delivered after its call, when
 * it holds none.
 */
#ifndef MOIETY_POOL_BASE_LOG_H_
#define MOIETY_POOL_BASE_LOG_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "moiety/callbacks.h"
#include "moiety/status.h"

/* The highest level that is wanted; 0: none. And whether there has ever been a
 * function, so that a thread may have messages. Edge: none; relaxed: a thread
 * that sees either late reports less, or looks for nothing. */
extern atomic_uint moietyi_log_level __attribute__((visibility("hidden")));
extern atomic_bool moietyi_log_is_used __attribute__((visibility("hidden")));

/* Whether to make a message at all. */
static inline bool moietyi_log_wants(uint32_t level)
{
    /* relaxed: see above. */
    return level <=
           atomic_load_explicit(&moietyi_log_level, memory_order_relaxed);
}

/* Queues a message, which ends without a newline, if its level is wanted.
 * Without memory for it, it is lost. */
void moietyi_log(uint32_t level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same for messages that go to stderr if there is no function. */
void moietyi_log_or_print(uint32_t level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Delivers the messages of the calling thread. It holds no lock, is in no call,
 * and its cancellation is held back. */
void moietyi_log_tell_all(void);
static inline void moietyi_log_tell(void)
{
    /* relaxed: see above. */
    if (atomic_load_explicit(&moietyi_log_is_used, memory_order_relaxed))
        moietyi_log_tell_all();
}

/* As moiety_set_log(), of a process that is no child. */
MOIETY_MUST_USE moiety_status moietyi_log_set(uint32_t level,
                                              moiety_log_callback callback,
                                              void *user);

#endif
