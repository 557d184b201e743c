/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * One stream-ordered journey: pinned host memory, to the device, a part of it
 * set there, back to the host; then every byte is compared.
 */
#ifndef BINADE_BENCH_SERVER_ROUND_TRIP_H_
#define BINADE_BENCH_SERVER_ROUND_TRIP_H_

#include <stddef.h>

#include <binade/status.h>

struct round_trip {
    size_t size_bytes;  /* sent each way */
    size_t set_bytes;   /* of those, set on the device */
    size_t wrong_bytes; /* that did not come back as they should */
};

/* Makes the journey on `device` and takes down whatever it put up, also when it
 * fails. `*out` is written only when BINADE_OK is returned; wrong bytes are no
 * failure of the call. The calling thread's current context stays. */
BINADE_MUST_USE binade_status round_trip(int device, struct round_trip *out);

#endif
