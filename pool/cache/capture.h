/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the driver says of a stream's capture.
 */
#ifndef BINADE_POOL_CACHE_CAPTURE_H_
#define BINADE_POOL_CACHE_CAPTURE_H_

#include <stdint.h>

/* Whether a stream captures a graph. */
enum binadei_capture_kind {
    BINADEI_CAPTURE_NONE,
    BINADEI_CAPTURE_IMPLICIT, /* none: the legacy stream's, while a blocking one
                               * does and nothing can be put on this */
    BINADEI_CAPTURE_BROKEN,   /* but its capture is invalid */
    BINADEI_CAPTURE_ACTIVE
};
struct binadei_capture {
    enum binadei_capture_kind kind;
    uint64_t id; /* the driver's, of an active one */
};

#endif
