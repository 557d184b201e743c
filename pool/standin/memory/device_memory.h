/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The memory of one device: one sparse memfd. Its first part, the arena, backs
 * cuMemAlloc at addresses that are a constant away from file offsets; its
 * second part backs cuMemCreate; its last part tells importers which exports
 * are still alive. Arena and second part are larger than the device, so that,
 * as with a real device's page tables, only bytes run out and not room.
 *
 * All functions: lock held, unless said otherwise.
 */
#ifndef MOIETY_POOL_STANDIN_MEMORY_DEVICE_MEMORY_H_
#define MOIETY_POOL_STANDIN_MEMORY_DEVICE_MEMORY_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/standin/memory/address.h"
#include "pool/standin/memory/span.h"

/* The driver takes device memory in these steps. */
#define GRANULE_BYTES ((size_t)2 << 20)
/* Smaller allocations are carved from granules, in these steps. */
#define SMALL_ALIGNMENT_BYTES ((size_t)512)

struct device_memory {
    int fd;
    uint64_t base;         /* first device address; a multiple of a granule */
    unsigned char *shadow; /* of `base` */
    size_t arena_bytes;
    size_t used_bytes;
    struct span_set large;    /* free arena addresses, whole granules */
    struct span_set small;    /* free parts of granules in use */
    uint32_t *small_bytes;    /* in use per granule, for those of `small` */
    struct span_set physical; /* free file offsets of the second part */
    /* Edge: none; relaxed: the word is all that an importer reads. A word per 512
     * bytes of arena: what proves to an importer that its handle is valid. */
    _Atomic(uint64_t) *export;
};

static inline size_t round_up(size_t size_bytes, size_t step_bytes)
{
    return (size_bytes + step_bytes - 1) / step_bytes * step_bytes;
}

/* Counts `size_bytes` as used; false when the device has not that much left. */
bool device_memory_charge(struct device *device, size_t size_bytes);
void device_memory_uncharge(struct device *device, size_t size_bytes);

/* Addresses for `size_bytes`, as cuMemAlloc gives them: 512-byte aligned, from
 * 2 MiB up whole granules. OUT_OF_MEMORY when the device is full. */
CUresult device_memory_take(struct device *device, size_t size_bytes,
                            uint64_t *out_address);
void device_memory_give(struct device *device, uint64_t address,
                        size_t size_bytes);

/* The same for cuMemCreate: a file offset, whole granules. */
CUresult device_memory_take_physical(struct device *device, size_t size_bytes,
                                     uint64_t *out_offset);
void device_memory_give_physical(struct device *device, uint64_t offset,
                                 size_t size_bytes);

unsigned char *device_memory_shadow(const struct device *device,
                                    uint64_t address);

/* The word of the allocation at `address`: 0, or what its handle proves. */
_Atomic(uint64_t) *device_memory_export_word(const struct device *device,
                                             uint64_t address);

/* True for any address of the arena. */
bool device_memory_has(const struct device *device, uint64_t address);

#endif
