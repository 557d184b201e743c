/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Something else in the middle of an allocation: the call ends before it and
 * begins anew behind it, so that the thread is in no call and may make others.
 */
#ifndef BINADE_POOL_OOM_BESIDE_H_
#define BINADE_POOL_OOM_BESIDE_H_

#include <stdbool.h>

#include "pool/cache/cache.h"

typedef void binadei_beside_fn(void *context);

/* Calls the function, with no lock held and the caches kept from others. What the
 * call led to may have changed afterwards. The status of binadei_call_begin(); the
 * call can be ended as any other in any case. */
BINADE_MUST_USE binade_status binadei_call_beside(struct binadei_call *call,
                                                  binadei_beside_fn *function,
                                                  void *context);
/* The same mark for who goes outside in the middle of a call by itself: the pool
 * is used, and the thread's caches are not to be taken. */
void binadei_set_beside(struct binadei_call *call, bool is_beside);
/* Whether this call is made by such a function, of an allocation in its pool. */
bool binadei_is_beside(const struct binadei_call *call);

#endif
