/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The library's locks and its door to the driver, built so that each thread
 * counts the locks that it holds.
 */
#ifndef MOIETY_TESTS_DRIVER_LOCKS_H_
#define MOIETY_TESTS_DRIVER_LOCKS_H_

#ifdef __cplusplus
extern "C" {
#endif

/* What is done while the lock is held. Only sanitizers see malloc(). */
enum locks_deed {
    LOCKS_NOTHING,
    LOCKS_CALL,
    LOCKS_NAP,
    LOCKS_RESERVE,
    LOCKS_ALLOCATE
};

/* Opens the driver; 0: it did. */
int locks_open(void);
/* Does it without the lock, with it, and after it. */
void locks_do_without(enum locks_deed deed);
void locks_do_with(enum locks_deed deed);

#ifdef __cplusplus
}
#endif

#endif
