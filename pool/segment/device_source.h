/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The source that every device has: cuMemAlloc. Its memory is aligned to
 * 2 MiB from that size on, and can be shared with other processes.
 */
#ifndef BINADE_POOL_SEGMENT_DEVICE_SOURCE_H_
#define BINADE_POOL_SEGMENT_DEVICE_SOURCE_H_

#include "binade/source.h"
#include "pool/driver/driver_table.h"

/* In its owner's storage; constant once initialised. */
struct binadei_device_source {
    const struct binadei_driver *driver;
    CUcontext context; /* the pool's; need not be current */
};

/* The table of a source whose memory lies in `context`. `source` must stay
 * where it is, and the context valid or destroyed but not another, as long as
 * the table is in use. Makes no driver call.
 *
 * The table's functions make the context current for their call, in RELAXED
 * capture mode, so that no capture of another thread is invalidated, and
 * restore both. Any thread; they block in the driver. */
binade_source binadei_device_source_init(struct binadei_device_source *source,
                                         const struct binadei_driver *driver,
                                         CUcontext context);

#endif
