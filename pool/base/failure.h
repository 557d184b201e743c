/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The sentence that goes with a failed call, kept per thread. The function that
 * finds out that something is wrong says so here, once, and returns the result;
 * the layers above pass the status on without adding to it.
 */
#ifndef BINADE_POOL_BASE_FAILURE_H_
#define BINADE_POOL_BASE_FAILURE_H_

#include "binade/status.h"

/* Bytes of a message, its final 0 included; longer ones are cut. Promised by
 * binade_last_error_message(). */
#define BINADEI_MESSAGE_BYTES 1024

/* Notes why the calling thread's call fails and returns `status`:
 * `return binadei_fail(BINADE_E_INVALID, "device %d: ...", device);`.
 * Arguments may point into the previous message. Takes no lock; maps a page at
 * a thread's first failure, without which the message is a shorter one. */
binade_status binadei_fail(binade_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What each part says of a process that binadei_is_forked(): BINADE_E_FORKED;
 * and where binadei_fork_mark() fails: BINADE_E_NO_HOST_MEMORY. */
BINADE_MUST_USE binade_status binadei_refuse_child(void);
BINADE_MUST_USE binade_status binadei_refuse_unmarked(void);

/* The calling thread's last message, "" if it has none. */
const char *binadei_failure_message(void);

#endif
