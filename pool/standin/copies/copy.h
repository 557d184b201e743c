/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Copies: checked at the call, resolved again and done in stream order.
 */
#ifndef MOIETY_POOL_STANDIN_COPIES_COPY_H_
#define MOIETY_POOL_STANDIN_COPIES_COPY_H_

#include "pool/standin/work/work.h"

/* What a side of a copy may be. */
enum copy_side {
    SIDE_HOST,   /* the call says host memory */
    SIDE_DEVICE, /* memory that the GPU reaches */
    SIDE_ANY     /* the address tells */
};

struct copy_request {
    struct copy copy;
    enum copy_side dst_side, src_side;
    CUstream stream;
    bool is_per_thread;
    bool is_sync;
    bool is_between_peers; /* each side by its own device */
};

/* Lock held; a caller that must wait does so in here, the lock released. */
CUresult copy_submit(const struct copy_request *request);

/* Bytes from the first to the last one touched; false when that overflows. */
bool copy_extent(size_t width_bytes, size_t height, size_t pitch_bytes,
                 size_t *out);

#endif
