/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The other end of pool/base/step.h: stops one thread at a named step, for as
 * long as the test wants. All other threads pass every step without touching
 * anything that they share, so that no race is hidden from a sanitizer.
 */
#ifndef MOIETY_TESTS_PROGRESS_FREEZE_H_
#define MOIETY_TESTS_PROGRESS_FREEZE_H_

#include <stdbool.h>
#include <stdint.h>

/* Where a thread is to stop. */
struct freeze_wish {
    const char *step;
    uint32_t visits_left; /* stops at the last of them; 0: not again */
};

/* The calling thread, which has none yet, follows this wish, until it ends or
 * is given NULL. One thread at a time may follow one. */
void freeze_follow(struct freeze_wish *wish);
/* The one that it follows, or NULL. */
struct freeze_wish *freeze_followed(void);

/* Whether a thread stands still now. Any thread. */
bool freeze_is_on(void);

/* Lets it go on, until it has visited its step so many more times; 0: for
 * good. */
void freeze_release_until(uint32_t visits);
/* For good. */
void freeze_release(void);

#endif
