/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The table is one reserved range, committed as it is touched, so a slot's
 * address never changes.
 */
#include "pool/standin/base/handle.h"

#include <stddef.h>
#include <sys/mman.h>

#define SLOT_COUNT (1U << 22)

struct slot {
    void *object;  /* NULL: free, or an orphan */
    uint32_t next; /* free list of its kind: index, 0 ends it */
    uint16_t kind; /* of the last object; 0: never used */
    uint16_t is_orphan;
};

static struct slot *slots; /* [SLOT_COUNT]; slot 0 stays unused */
static uint32_t used_count = 1;
static uint32_t free_first[HANDLE_KIND_COUNT];
static int64_t live[HANDLE_KIND_COUNT];

static bool make_table(void)
{
    if (slots)
        return true;
    void *range =
        mmap(NULL, SLOT_COUNT * sizeof(*slots), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED)
        return false;
    slots = range;
    return true;
}

static struct slot *take_slot(enum handle_kind kind)
{
    uint32_t index = free_first[kind];
    if (index) {
        free_first[kind] = slots[index].next;
        return &slots[index];
    }
    return used_count < SLOT_COUNT ? &slots[used_count++] : NULL;
}

void *handle_make(enum handle_kind kind, void *object)
{
    struct slot *slot = make_table() ? take_slot(kind) : NULL;
    if (!slot)
        return NULL;
    *slot = (struct slot){.object = object, .kind = (uint16_t)kind};
    live[kind]++;
    return slot;
}

/* The slot that `handle` is the address of, or NULL. */
static struct slot *handle_slot_of(enum handle_kind kind, const void *handle)
{
    uintptr_t offset = (uintptr_t)handle - (uintptr_t)slots;
    if (!slots || offset >= used_count * sizeof(*slots) ||
        offset % sizeof(*slots) != 0)
        return NULL;
    struct slot *slot = &slots[offset / sizeof(*slots)];
    return slot->kind == kind ? slot : NULL;
}

void *handle_object(enum handle_kind kind, const void *handle, CUresult *why)
{
    const struct slot *slot = handle_slot_of(kind, handle);
    *why = CUDA_SUCCESS;
    if (slot && slot->object)
        return slot->object;
    *why = slot && slot->is_orphan ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                   : CUDA_ERROR_INVALID_HANDLE;
    return NULL;
}

bool handle_was_freed(enum handle_kind kind, const void *handle)
{
    const struct slot *slot = handle_slot_of(kind, handle);
    return slot && !slot->object && !slot->is_orphan;
}

void handle_free(enum handle_kind kind, void *handle)
{
    struct slot *slot = handle_slot_of(kind, handle);
    slot->object = NULL;
    slot->is_orphan = 0;
    slot->next = free_first[kind];
    free_first[kind] = (uint32_t)(slot - slots);
    live[kind]--;
}

void *handle_take(enum handle_kind kind, void *handle, CUresult *why)
{
    void *object = handle_object(kind, handle, why);
    if (object)
        handle_free(kind, handle);
    return object;
}

void handle_orphan(enum handle_kind kind, void *handle)
{
    struct slot *slot = handle_slot_of(kind, handle);
    slot->object = NULL;
    slot->is_orphan = 1;
    live[kind]--;
}

void *handle_next(enum handle_kind kind, uint32_t *cursor)
{
    while (++*cursor < used_count)
        if (slots[*cursor].kind == kind && slots[*cursor].object)
            return slots[*cursor].object;
    return NULL;
}

int64_t handle_live(enum handle_kind kind)
{
    return live[kind];
}
