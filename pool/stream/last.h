/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Whether all work of a pool's contexts is over: the pool's end waits for that,
 * or asks.
 */
#ifndef MOIETY_POOL_STREAM_LAST_H_
#define MOIETY_POOL_STREAM_LAST_H_

#include "pool/stream/streams.h"

/* Waits for all work of all contexts, as an old driver can; outside of a
 * section, and between the calls of a recorder (capture_guard.h). MOIETY_OK, or
 * the driver's first refusal: then some work may go on. */
moiety_status moietyi_synchronise(const struct moietyi_streams *streams);
/* Sleeps between two questions, as moietyi_nap_longer() does. */
typedef void moietyi_nap_fn(long *duration_ns, long most_ns);
/* The same before the pool's memory is released; no call is under way. A guard
 * that begins meanwhile is not held up, unless the driver refuses events.
 * MOIETY_OK; a refusal (later.h): it met a guard or a capture, or the wait was
 * interrupted, and work may go on;
 * anything else: all work is over, because the context is gone, or counts as
 * lost since the driver refused every way to wait. */
moiety_status moietyi_synchronise_last(struct moietyi_streams *streams,
                                       moietyi_nap_fn *nap);
/* The same without a wait, if the driver has events of contexts: whether all
 * work is over that the contexts had at the first of these calls; `at_rest`:
 * and whether they have no work now. MOIETY_OK; a refusal (later.h), which is
 * MOIETY_E_WOULD_BLOCK also if the driver refuses; or as above. */
moiety_status moietyi_look_last(struct moietyi_streams *streams, bool at_rest);

#endif
