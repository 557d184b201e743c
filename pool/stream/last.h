/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Whether all work of a pool's contexts is over: what its end waits for, or asks.
 */
#ifndef MOIETY_POOL_STREAM_LAST_H_
#define MOIETY_POOL_STREAM_LAST_H_

#include "pool/stream/streams.h"

/* Waits for all work of all contexts, as an old driver can; outside of a
 * section, and between the calls of a recorder (capture_guard.h). MOIETY_OK, or
 * the first thing that the driver refused: then some may not be over. */
moiety_status moietyi_synchronise(const struct moietyi_streams *streams);
/* Sleeps between two questions, as moietyi_nap_longer() does. */
typedef void moietyi_nap_fn(long *duration_ns, long most_ns);
/* The same before the pool's memory goes; no call is under way. A guard that
 * begins meanwhile is not held up, unless the driver refuses events.
 * MOIETY_OK; MOIETY_E_BUSY: a guard or a capture is in the way, and work may go
 * on; anything else: all is over, because the driver's context is, or counts as
 * lost, since the driver refused every way to wait. */
moiety_status moietyi_synchronise_last(struct moietyi_streams *streams,
                                       moietyi_nap_fn *nap);
/* The same without a wait, and the driver has events of contexts: whether all is
 * over that the contexts had been given at the first of these calls; `at_rest`:
 * and whether they have nothing to do now. MOIETY_E_BUSY also where the driver
 * refuses. */
moiety_status moietyi_look_last(struct moietyi_streams *streams, bool at_rest);

#endif
