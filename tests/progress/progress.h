/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What lock-free means: one thread stops for good in the middle of an
 * operation, and the others get on all the same. A thread that waits for the
 * stopped one, be it in a loop that no lock is named in, is found out.
 */
#ifndef MOIETY_TESTS_PROGRESS_PROGRESS_H_
#define MOIETY_TESTS_PROGRESS_PROGRESS_H_

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PROGRESS_WORKERS 3U
#define PROGRESS_THREADS (PROGRESS_WORKERS + 1U)
/* What each worker must complete while one thread stands still. */
#define PROGRESS_OPERATIONS 10000U
#define PROGRESS_MESSAGE_BYTES 256U

/* What is shared and how it is used. Threads are numbered from 0; the last
 * number is that of the thread which is to stop. */
struct progress_subject {
    /* NULL when there is no memory. */
    void *(*create)(void);
    /* A thread's first words, before anybody stops: it may take every lock. */
    void (*enter)(void *state, unsigned thread);
    /* One operation of a worker. With `is_locked` it may be none that a
     * documented lock can hold up. True if it was completed; false where it
     * only found out that it cannot be done at the moment. */
    bool (*work)(void *state, unsigned worker, bool is_locked);
    /* One operation of any kind, of the thread that is to stop. With `is_locked`
     * it may be none that makes workers take locks. */
    void (*roam)(void *state, unsigned thread, bool is_locked);
    /* A thread's last words, when nobody stands still any more. */
    void (*leave)(void *state, unsigned thread);
    /* At rest. NULL, or what is wrong; constant text. */
    const char *(*destroy)(void *state);
};

struct progress_case {
    const struct progress_subject *subject;
    /* Where one thread stops, and at which of its visits there. A name that
     * begins with "locked." is inside of a lock. */
    const char *step;
    uint32_t visit;
    /* A worker that completes nothing in so many seconds waits in vain. */
    uint32_t patience_s;
};

/* False: `message` says what went wrong. */
bool progress_run(const struct progress_case *test,
                  char message[PROGRESS_MESSAGE_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
