/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The sentence that goes with a failed call, kept per thread. The function that
 * finds out that something is wrong says so here, once, and returns the result;
 * the layers above pass the status on without adding to it.
 */
#ifndef MOIETY_POOL_BASE_FAILURE_H_
#define MOIETY_POOL_BASE_FAILURE_H_

#include "moiety/status.h"

/* Bytes of a message, its final 0 included; longer ones are cut. Promised by
 * moiety_last_error_message(). */
#define MOIETYI_MESSAGE_BYTES 1024

/* Notes why the calling thread's call fails and returns `status`:
 * `return moietyi_fail(MOIETY_E_INVALID, "device %d: ...", device);`.
 * Arguments may point into the previous message. Takes no lock; maps a page at
 * a thread's first failure, without which the message is a shorter one. */
moiety_status moietyi_fail(moiety_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The failure of each part in a process that moietyi_is_forked():
 * MOIETY_E_FORKED; and if moietyi_fork_mark() fails:
 * MOIETY_E_NO_HOST_MEMORY. */
MOIETY_MUST_USE moiety_status moietyi_refuse_child(void);
MOIETY_MUST_USE moiety_status moietyi_refuse_unmarked(void);

/* The calling thread's last message, "" if it has none. */
const char *moietyi_failure_message(void);

/* For a part of a call whose own failure must not show: keep before it, restore
 * after it. */
struct moietyi_failure {
    char message[MOIETYI_MESSAGE_BYTES];
};
void moietyi_failure_keep(struct moietyi_failure *out);
void moietyi_failure_restore(const struct moietyi_failure *kept);

#endif
