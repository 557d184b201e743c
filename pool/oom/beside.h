/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Calls a function of the program in the middle of an allocation: the call ends
 * before it and begins anew behind it, so that the thread is in no call and may
 * make others.
 */
#ifndef MOIETY_POOL_OOM_BESIDE_H_
#define MOIETY_POOL_OOM_BESIDE_H_

#include <stdbool.h>

#include "pool/cache/cache.h"

typedef void moietyi_beside_fn(void *context);

/* Calls the function, with no lock held; others cannot take the thread's
 * caches. The caches of the call may have changed afterwards. The status of
 * moietyi_call_begin(); in any case the call can be ended like any other. */
MOIETY_MUST_USE moiety_status moietyi_call_beside(struct moietyi_call *call,
                                                  moietyi_beside_fn *function,
                                                  void *context);
/* The same mark for a thread that leaves its call by itself: the pool is in
 * use, and the thread's caches must not be taken. */
void moietyi_set_beside(struct moietyi_call *call, bool is_beside);
/* Whether this call comes from such a function, of an allocation in its
 * pool. */
bool moietyi_is_beside(const struct moietyi_call *call);

#endif
