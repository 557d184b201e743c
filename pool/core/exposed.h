/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * All pools of the process, for a thread that looks at them from outside. None
 * is destroyed while it is being looked at: its end waits.
 */
#ifndef MOIETY_POOL_CORE_EXPOSED_H_
#define MOIETY_POOL_CORE_EXPOSED_H_

#include <stdbool.h>
#include <stdint.h>

#include "moiety/types.h"

struct moietyi_pool_body;

/* A pool's place in the list. The list's lock. */
struct moietyi_exposed {
    struct moietyi_pool_body *next;
    struct moietyi_pool_body *previous;
    uint64_t id; /* from 1 on, never used again */
    uint32_t visitor_count;
};

/* Puts a pool in; with a new id, if it has none. */
void moietyi_exposed_add(struct moietyi_pool_body *body);
/* Takes it out; waits for a thread that looks at it, up to a second, and until
 * no other pool's thread visits it. */
void moietyi_exposed_remove(struct moietyi_pool_body *body);

typedef void moietyi_look_fn(const struct moietyi_pool_body *body,
                             void *context);
/* Calls `look` with the pool of the lowest id from `least` on. Its id, or 0 and
 * no call: there is none. */
uint64_t moietyi_exposed_look(uint64_t least, moietyi_look_fn *look,
                              void *context);

typedef bool moietyi_choose_fn(const struct moietyi_pool_body *body,
                               const void *context);
/* The pool of the lowest id from `least` on that is chosen, which is not destroyed
 * before moietyi_exposed_leave(); NULL: there is none. The visitor calls no
 * function of the program's, which may wait for the pool's end. */
struct moietyi_pool_body *moietyi_exposed_visit(uint64_t least,
                                                moietyi_choose_fn *choose,
                                                const void *context);
void moietyi_exposed_leave(struct moietyi_pool_body *body);

#endif
