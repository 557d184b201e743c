/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lets one system call of what is linked statically fail, or say that the other
 * side of a socket is another user's.
 */
#ifndef MOIETY_TESTS_EXPOSE_FAILING_CALLS_H_
#define MOIETY_TESTS_EXPOSE_FAILING_CALLS_H_

#ifdef __cplusplus
extern "C" {
#endif

/* Every call of that name fails with `error` from now on; NULL: none does. */
void failing_calls_set(const char *name, int error);
/* Calls that have failed since then. */
unsigned failing_calls_failed(void);
/* Peers have another user id from now on; 0: their own. */
void failing_calls_make_peers_foreign(int is_foreign);

#ifdef __cplusplus
}
#endif

#endif
