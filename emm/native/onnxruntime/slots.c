/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Slots, and their functions, which a macro makes. A slot counts its live blocks,
 * so that it is not given back under a session. An allocation counts itself
 * before it looks whether the slot is open, and who gives the slot back closes it
 * before the look at the count: so one of the two sees the other.
 */
#include "emm/native/onnxruntime/slots.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "moiety/moiety.h"

struct slot {
    /* Whoever takes the slot; until it is given back. */
    moiety_pool *pool;
    moiety_tenant tenant;
    moiety_stream stream;
    /* Edge ON: a slot is filled, or closed -> a call that has counted itself. */
    atomic_bool is_open;
    /* Edge ON: a call counts itself, or a block is freed -> who closes the slot.
     * Live blocks, and calls under way but frees. */
    _Atomic uint64_t use_count;
};

static struct slot slots[MOIETY_ONNXRUNTIME_SLOTS_MAX];
/* So that the addresses of one that was given back rest for a while. */
static int next_slot;

static void slot_leave(struct slot *slot)
{
    /* ON.release: what was done with the pool comes before its end. */
    atomic_fetch_sub_explicit(&slot->use_count, 1, memory_order_release);
}

/* Whether the slot stays somebody's until slot_leave(). */
static bool slot_enter(struct slot *slot)
{
    /* ON.seq_cst: before the look at is_open; moiety_onnxruntime_give() has the
     * other order. */
    atomic_fetch_add_explicit(&slot->use_count, 1, memory_order_seq_cst);
    /* ON.seq_cst, which acquires: what the slot was filled with. */
    if (atomic_load_explicit(&slot->is_open, memory_order_seq_cst))
        return true;
    slot_leave(slot);
    return false;
}

/* The block is counted, by what slot_enter() did. */
static void *slot_alloc(struct slot *slot, size_t size_bytes)
{
    moiety_devptr address = 0;
    moiety_status status;
    if (!slot_enter(slot))
        return NULL;
    const moiety_alloc_options options = {.struct_size = sizeof(options),
                                          .tenant = slot->tenant};
    status = slot->tenant
                 ? moiety_alloc_with(NULL, size_bytes, slot->stream, &options,
                                     &address)
                 : moiety_alloc(slot->pool, size_bytes, slot->stream, &address);
    if (status != MOIETY_OK || !address)
        slot_leave(slot);
    return status == MOIETY_OK ? (void *)(uintptr_t)address : NULL;
}

static void slot_free(struct slot *slot, void *block)
{
    moiety_status status;
    if (!block)
        return;
    status = moiety_free(slot->pool, (uintptr_t)block, slot->stream);
    /* A child frees what is its parent's. */
    if (status == MOIETY_OK || status == MOIETY_E_FORKED)
        slot_leave(slot);
    else
        (void)fprintf(stderr,
                      "moiety: memory of ONNX Runtime was not freed: %s\n",
                      moiety_last_error_message());
}

static void slot_trim(struct slot *slot)
{
    moiety_status status;
    if (!slot_enter(slot))
        return;
    status = moiety_pool_trim(slot->pool, 0, NULL);
    /* It was a wish: what is not given back serves again. */
    (void)status;
    slot_leave(slot);
}

#define FUNCTIONS_OF(i)                                                        \
    static void *slot_alloc_##i(size_t size_bytes)                             \
    {                                                                          \
        return slot_alloc(&slots[i], size_bytes);                              \
    }                                                                          \
    static void slot_free_##i(void *block)                                     \
    {                                                                          \
        slot_free(&slots[i], block);                                           \
    }                                                                          \
    static void slot_trim_##i(void)                                            \
    {                                                                          \
        slot_trim(&slots[i]);                                                  \
    }
#define ROW_OF(i) {slot_alloc_##i, slot_free_##i, slot_trim_##i},
#define FOR_EACH_SLOT(do_it)                                                   \
    do_it(0) do_it(1) do_it(2) do_it(3) do_it(4) do_it(5) do_it(6) do_it(7)    \
        do_it(8) do_it(9) do_it(10) do_it(11) do_it(12) do_it(13) do_it(14)    \
            do_it(15)

FOR_EACH_SLOT(FUNCTIONS_OF)

static const moiety_onnxruntime_functions
    functions[MOIETY_ONNXRUNTIME_SLOTS_MAX] = {FOR_EACH_SLOT(ROW_OF)};

/* A free one, from next_slot on, or -1. */
static int slot_find(void)
{
    for (int i = 0; i < MOIETY_ONNXRUNTIME_SLOTS_MAX; i++) {
        int slot = (next_slot + i) % MOIETY_ONNXRUNTIME_SLOTS_MAX;
        /* relaxed: taken and given by one thread at a time. */
        if (!atomic_load_explicit(&slots[slot].is_open, memory_order_relaxed))
            return slot;
    }
    return -1;
}

int moiety_onnxruntime_take(moiety_pool *pool, moiety_tenant tenant,
                            moiety_stream stream,
                            moiety_onnxruntime_functions *out)
{
    int found = slot_find();
    if (found < 0)
        return -1;
    slots[found].pool = pool;
    slots[found].tenant = tenant;
    slots[found].stream = stream;
    next_slot = (found + 1) % MOIETY_ONNXRUNTIME_SLOTS_MAX;
    /* ON.release: the slot is whole. */
    atomic_store_explicit(&slots[found].is_open, true, memory_order_release);
    *out = functions[found];
    return found;
}

uint64_t moiety_onnxruntime_give(int slot)
{
    struct slot *given = &slots[slot];
    /* ON.acquire: as below. A session that has memory notices nothing. */
    uint64_t use_count =
        atomic_load_explicit(&given->use_count, memory_order_acquire);
    if (use_count)
        return use_count;
    /* ON.seq_cst: before the look at the count; see slot_enter(). */
    atomic_store_explicit(&given->is_open, false, memory_order_seq_cst);
    /* ON.seq_cst, which acquires: what the calls that are over did. */
    use_count = atomic_load_explicit(&given->use_count, memory_order_seq_cst);
    /* ON.release: as it was. */
    if (use_count)
        atomic_store_explicit(&given->is_open, true, memory_order_release);
    return use_count;
}
