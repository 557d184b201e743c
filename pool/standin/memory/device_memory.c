/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/standin/memory/device_memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pool/standin/memory/memory.h"

/* Room in addresses per byte of device, at best and at least. */
#define ROOM_MAX 4
#define ROOM_MIN 1

static bool map_arena(struct device_memory *memory)
{
    memory->base = address_reserve(memory->arena_bytes, GRANULE_BYTES, 0, NULL);
    if (!memory->base)
        return false;
    memory->shadow = mmap(NULL, memory->arena_bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_NORESERVE, memory->fd, 0);
    if (memory->shadow != MAP_FAILED)
        return true;
    munmap((void *)(uintptr_t)memory->base, memory->arena_bytes);
    return false;
}

static bool map_exports(struct device_memory *memory, size_t size_bytes)
{
    void *words = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_NORESERVE, memory->fd,
                       (off_t)(2 * memory->arena_bytes));
    if (words == MAP_FAILED) {
        munmap((void *)(uintptr_t)memory->base, memory->arena_bytes);
        munmap(memory->shadow, memory->arena_bytes);
        return false;
    }
    memory->export = words;
    return true;
}

static bool device_memory_lay_out(struct device_memory *memory,
                                  size_t arena_bytes)
{
    size_t export_bytes =
        arena_bytes / SMALL_ALIGNMENT_BYTES * sizeof(memory->export[0]);
    memory->arena_bytes = arena_bytes;
    return ftruncate(memory->fd, (off_t)(2 * arena_bytes + export_bytes)) ==
               0 &&
           map_arena(memory) && map_exports(memory, export_bytes);
}

static bool device_memory_fill(struct device_memory *memory,
                               size_t device_bytes)
{
    memory->fd = memfd_create("moiety_standin_device", MFD_CLOEXEC);
    if (memory->fd < 0)
        return false;
    size_t granules = round_up(device_bytes, GRANULE_BYTES);
    size_t room = ROOM_MAX;
    while (room >= ROOM_MIN && !device_memory_lay_out(memory, room * granules))
        room /= 2;
    if (room < ROOM_MIN)
        return false;
    memory->small_bytes = calloc(memory->arena_bytes / GRANULE_BYTES,
                                 sizeof(memory->small_bytes[0]));
    memory->small.boundary = GRANULE_BYTES;
    span_give(&memory->large, memory->base, memory->base + memory->arena_bytes);
    span_give(&memory->physical, memory->arena_bytes, 2 * memory->arena_bytes);
    return memory->small_bytes && memory->large.count && memory->physical.count;
}

CUresult memory_device_init(struct device *device)
{
    struct device_memory *memory = calloc(1, sizeof(*memory));
    if (!memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    /* A failure here fails cuInit for good: what was mapped so far stays. */
    if (!device_memory_fill(memory, device->memory_bytes)) {
        free(memory);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    device->memory = memory;
    return CUDA_SUCCESS;
}

bool device_memory_charge(struct device *device, size_t size_bytes)
{
    struct device_memory *memory = device->memory;
    if (size_bytes > device->memory_bytes - memory->used_bytes)
        return false;
    memory->used_bytes += size_bytes;
    return true;
}

void device_memory_uncharge(struct device *device, size_t size_bytes)
{
    device->memory->used_bytes -= size_bytes;
}

/* The host gets its pages back; the next reader finds zeros. */
static void decommit(struct device_memory *memory, uint64_t offset,
                     size_t size_bytes)
{
    (void)fallocate(memory->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    (off_t)offset, (off_t)size_bytes);
}

static CUresult take_granules(struct device *device, struct span_set *set,
                              size_t size_bytes, uint64_t *out)
{
    if (!device_memory_charge(device, size_bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (span_take(set, size_bytes, GRANULE_BYTES, out))
        return CUDA_SUCCESS;
    device_memory_uncharge(device, size_bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static void give_granules(struct device *device, uint64_t address,
                          size_t size_bytes)
{
    struct device_memory *memory = device->memory;
    decommit(memory, address - memory->base, size_bytes);
    span_give(&memory->large, address, address + size_bytes);
    device_memory_uncharge(device, size_bytes);
}

static uint32_t *small_bytes_at(struct device_memory *memory, uint64_t address)
{
    return &memory->small_bytes[(address - memory->base) / GRANULE_BYTES];
}

static CUresult device_memory_take_small(struct device *device,
                                         size_t size_bytes, uint64_t *out)
{
    struct device_memory *memory = device->memory;
    if (!span_take(&memory->small, size_bytes, SMALL_ALIGNMENT_BYTES, out)) {
        uint64_t granule;
        CUresult code =
            take_granules(device, &memory->large, GRANULE_BYTES, &granule);
        if (code != CUDA_SUCCESS)
            return code;
        if (size_bytes < GRANULE_BYTES)
            span_give(&memory->small, granule + size_bytes,
                      granule + GRANULE_BYTES);
        *out = granule;
    }
    *small_bytes_at(memory, *out) += (uint32_t)size_bytes;
    return CUDA_SUCCESS;
}

static void give_small(struct device *device, uint64_t address,
                       size_t size_bytes)
{
    struct device_memory *memory = device->memory;
    uint32_t *in_use = small_bytes_at(memory, address);
    span_give(&memory->small, address, address + size_bytes);
    *in_use -= (uint32_t)size_bytes;
    if (*in_use)
        return;
    uint64_t granule = address - (address - memory->base) % GRANULE_BYTES;
    span_take_exactly(&memory->small, granule, granule + GRANULE_BYTES);
    give_granules(device, granule, GRANULE_BYTES);
}

static size_t step_of(size_t size_bytes)
{
    return size_bytes < GRANULE_BYTES ? SMALL_ALIGNMENT_BYTES : GRANULE_BYTES;
}

CUresult device_memory_take(struct device *device, size_t size_bytes,
                            uint64_t *out_address)
{
    if (size_bytes > device->memory_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t taken_bytes = round_up(size_bytes, step_of(size_bytes));
    if (taken_bytes < GRANULE_BYTES)
        return device_memory_take_small(device, taken_bytes, out_address);
    return take_granules(device, &device->memory->large, taken_bytes,
                         out_address);
}

void device_memory_give(struct device *device, uint64_t address,
                        size_t size_bytes)
{
    size_t taken_bytes = round_up(size_bytes, step_of(size_bytes));
    if (taken_bytes < GRANULE_BYTES)
        give_small(device, address, taken_bytes);
    else
        give_granules(device, address, taken_bytes);
}

CUresult device_memory_take_physical(struct device *device, size_t size_bytes,
                                     uint64_t *out_offset)
{
    return take_granules(device, &device->memory->physical, size_bytes,
                         out_offset);
}

void device_memory_give_physical(struct device *device, uint64_t offset,
                                 size_t size_bytes)
{
    decommit(device->memory, offset, size_bytes);
    span_give(&device->memory->physical, offset, offset + size_bytes);
    device_memory_uncharge(device, size_bytes);
}

unsigned char *device_memory_shadow(const struct device *device,
                                    uint64_t address)
{
    return device->memory->shadow + (address - device->memory->base);
}

bool device_memory_has(const struct device *device, uint64_t address)
{
    return address - device->memory->base < device->memory->arena_bytes;
}

_Atomic(uint64_t) *device_memory_export_word(const struct device *device,
                                             uint64_t address)
{
    const struct device_memory *memory = device->memory;
    return &memory->export[(address - memory->base) / SMALL_ALIGNMENT_BYTES];
}
