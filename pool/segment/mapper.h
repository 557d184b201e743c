/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a pool needs to map memory itself: addresses, which are reserved once
 * and have no memory; handles, which are memory without an address; and
 * mappings of any handle at any place. A handle is mapped and unmapped as a
 * whole.
 */
#ifndef MOIETY_POOL_SEGMENT_MAPPER_H_
#define MOIETY_POOL_SEGMENT_MAPPER_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "moiety/source.h"
#include "moiety/status.h"
#include "pool/driver/context.h"

/* All functions: any thread, no lock held; they may block, but not for work of
 * the device. After a failure nothing has changed, except as `map` says. */
struct moietyi_mapper {
    void *context;
    /* Addresses for `size_bytes`, at a multiple of 64 MiB. */
    moiety_status (*reserve)(void *context, uint64_t size_bytes,
                             moiety_devptr *out);
    /* All of them back; nothing is mapped there. */
    moiety_status (*release)(void *context, moiety_devptr address,
                             uint64_t size_bytes);
    moiety_status (*create)(void *context, uint64_t size_bytes,
                            uint64_t *out_handle);
    /* Bytes that can be created now, as far as the device reports them. */
    moiety_status (*look_free)(void *context, uint64_t *out_bytes);
    /* The memory goes with the last mapping, or at once if there is none. */
    moiety_status (*destroy)(void *context, uint64_t handle);
    /* Readable and writable afterwards, for the mapper's device and those whose
     * ordinals are bits of `peers`. `is_mapped`: the handle is at the address,
     * before and after; after a failure it is if the driver does not unmap it
     * again. */
    moiety_status (*map)(void *context, moiety_devptr address,
                         uint64_t size_bytes, uint64_t handle, uint64_t peers,
                         bool *is_mapped);
    /* The same for one more device, of mapped memory; or no longer. */
    moiety_status (*grant)(void *context, moiety_devptr address,
                           uint64_t size_bytes, int32_t device,
                           bool is_granted);
    /* Work that used these addresses is over. */
    moiety_status (*unmap)(void *context, moiety_devptr address,
                           uint64_t size_bytes);
    /* A descriptor by which another process maps a handle; the caller closes it.
     * NULL: the handles that it creates cannot be shared. */
    moiety_status (*share)(void *context, uint64_t handle, int *out);
    /* Bytes by which a process on another machine maps it, while it is not
     * destroyed. MOIETY_E_UNSUPPORTED names what is missing. NULL as above. */
    moiety_status (*share_fabric)(void *context, uint64_t handle,
                                  CUmemFabricHandle *out);
};

enum moietyi_fabric {
    MOIETYI_FABRIC_NONE, /* the device has no fabric handles */
    MOIETYI_FABRIC_ASKED_FOR,
    MOIETYI_FABRIC_REFUSED /* it has, but creates no memory with them */
};

/* What the mapper knows of a device; in its owner's storage. */
struct moietyi_mapped_device {
    struct moietyi_context *context; /* constant; outlives it */
    /* Edge: none; relaxed: it orders no other memory. Whether handles are
     * created with fabric handles: a moietyi_fabric. */
    atomic_int fabric;
};

/* cuMemCreate, cuMemMap and their like on the device. `is_shared`: handles are
 * created so that other processes can map them. */
struct moietyi_mapper
moietyi_device_mapper_init(struct moietyi_mapped_device *device,
                           bool is_shared);

/* MOIETY_OK, or MOIETY_E_UNSUPPORTED: the driver or the device has no mapped
 * memory, or not in pieces of 2 MiB. Or the driver's error. */
MOIETY_MUST_USE moiety_status
moietyi_device_mapper_probe(struct moietyi_context *context);
/* The same for handles that other processes map; notes whether the device has
 * fabric handles. */
MOIETY_MUST_USE moiety_status
moietyi_device_mapper_probe_shared(struct moietyi_mapped_device *device);

/* Maps 2 MiB and unmaps them again: a driver may report mapped memory and
 * refuse it. MOIETY_OK also if the device has no 2 MiB left; or the driver's
 * error. */
MOIETY_MUST_USE moiety_status
moietyi_device_mapper_try(struct moietyi_context *context);

/* MOIETY_OK if each device whose ordinal is a bit of `peers` can access memory
 * of the context's device; MOIETY_E_INVALID: there is none with that ordinal;
 * MOIETY_E_UNSUPPORTED: one cannot. Or the driver's error. */
MOIETY_MUST_USE moiety_status moietyi_device_mapper_probe_peers(
    struct moietyi_context *context, uint64_t peers);

/* A source that reserves addresses and maps one handle there, for each of its
 * reservations. `mapper` is its context. */
moiety_source moietyi_mapped_source_init(struct moietyi_mapper *mapper);

#endif
