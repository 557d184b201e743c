/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Something else in the middle of an allocation: the call ends before it and
 * begins anew behind it, so that the thread is in no call and may make others.
 */
#ifndef MOIETY_POOL_OOM_BESIDE_H_
#define MOIETY_POOL_OOM_BESIDE_H_

#include <stdbool.h>

#include "pool/cache/cache.h"

typedef void moietyi_beside_fn(void *context);

/* Calls the function, with no lock held and the caches kept from others. What the
 * call led to may have changed afterwards. The status of moietyi_call_begin(); the
 * call can be ended as any other in any case. */
MOIETY_MUST_USE moiety_status moietyi_call_beside(struct moietyi_call *call,
                                                  moietyi_beside_fn *function,
                                                  void *context);
/* The same mark for who goes outside in the middle of a call by itself: the pool
 * is used, and the thread's caches are not to be taken. */
void moietyi_set_beside(struct moietyi_call *call, bool is_beside);
/* Whether this call is made by such a function, of an allocation in its pool. */
bool moietyi_is_beside(const struct moietyi_call *call);

#endif
