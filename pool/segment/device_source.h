/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The source that every device has: cuMemAlloc. Its memory is aligned to
 * 2 MiB from that size on, and can be shared with other processes.
 */
#ifndef MOIETY_POOL_SEGMENT_DEVICE_SOURCE_H_
#define MOIETY_POOL_SEGMENT_DEVICE_SOURCE_H_

#include "moiety/source.h"
#include "pool/driver/context.h"

/* The table of a source whose memory lies in `context`, which need not be
 * current; it must stay where it is as long as the table is in use. Makes no
 * driver call. Once the context is lost, so is the memory: then the functions
 * say that and call no driver.
 *
 * The table's functions make the context current for their call, in RELAXED
 * capture mode, so that no capture of another thread is invalidated, and
 * restore both. Any thread; they block in the driver. */
moiety_source moietyi_device_source_init(struct moietyi_context *context);

#endif
