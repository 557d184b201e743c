/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Memory of the stand-in. A device address is reserved PROT_NONE, so that a
 * CPU that touches it crashes as on a GPU; the stand-in itself reads and
 * writes through a second mapping of the same memfd, the "shadow".
 *
 * All functions: lock held, unless said otherwise.
 */
#ifndef MOIETY_POOL_STANDIN_MEMORY_MEMORY_H_
#define MOIETY_POOL_STANDIN_MEMORY_MEMORY_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/standin/base/context.h"

/* Makes device->memory: one memfd as large as the device, its PROT_NONE
 * address range and its shadow; pages are committed when touched. */
CUresult memory_device_init(struct device *device);

/* Frees what `context` owns: its allocations, mappings, pinned memory and
 * registrations, opened IPC handles. Its streams are gone already. */
void memory_context_fini(struct CUctx_st *context);

/* Where the stand-in itself may read or write `size_bytes` at `address`.
 * Device, managed, pinned, registered and plain host memory all resolve (plain
 * host memory to itself: the address space is unified); a device address
 * outside any live allocation, a range that leaves its allocation, or a VMM
 * range without access gives INVALID_VALUE. */
CUresult memory_resolve(CUdeviceptr address, size_t size_bytes,
                        unsigned char **out);

/* Whether the device may access all of that: VMM memory says for which
 * devices it is, other memory is for all. */
bool memory_is_for(CUdeviceptr address, size_t size_bytes, int device);

/* True when the GPU cannot reach `address` by itself: plain host memory, whose
 * asynchronous copies are staged by the caller's thread. */
bool memory_is_pageable(CUdeviceptr address);

/* True for an address that is a device's, whether or not it is live. */
bool memory_is_device_like(uint64_t address);

/* Bytes of `device`'s memory that are taken, in the driver's granules. */
size_t memory_used_bytes(int device);

/* Live "allocations" (device memory of all kinds), "host" (pinned and
 * registered), "vmm" (mappings and reservations, without handles) or "ipc"
 * (open imports); -1 for another kind. */
int64_t memory_live(const char *kind);

#endif
