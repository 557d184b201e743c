/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The table of operations of a pool that is checked or passes all through.
 */
#include "pool/base/failure.h"
#include "pool/checked/state.h"

static moiety_status checked_ops_recognise(struct moietyi_call *call,
                                           moiety_stream stream)
{
    return moietyi_checked_stream(call->pool->body->checked, stream);
}

static moiety_status checked_ops_alloc(struct moietyi_call *call,
                                       const struct moietyi_alloc_args *args,
                                       moiety_devptr *out)
{
    moiety_status status = moietyi_checked_stranger(call);
    if (status != MOIETY_OK)
        return status;
    return call->capture.kind >= MOIETYI_CAPTURE_BROKEN
               ? moietyi_block_record_alloc_captured(call, args, out)
               : moietyi_block_record_alloc(call, args, 0, NULL, out);
}

/* In a capture the scope says which arena is charged. */
static moiety_status checked_ops_alloc_private(
    struct moietyi_call *call, const struct moietyi_private_ref *arena_ref,
    moiety_scope number, const struct moietyi_alloc_args *args,
    moiety_devptr *out)
{
    moiety_status status = moietyi_checked_stranger(call);
    (void)number;
    if (status != MOIETY_OK)
        return status;
    return call->capture.kind >= MOIETYI_CAPTURE_BROKEN
               ? moietyi_block_record_alloc_captured(call, args, out)
               : moietyi_block_record_alloc_for(call, 0, arena_ref, args, out);
}

static moiety_status
checked_ops_claim(struct moietyi_call *call,
                  const struct moietyi_private_ref *arena_ref,
                  moiety_devptr address, size_t size_bytes)
{
    (void)call;
    (void)arena_ref;
    return moietyi_fail(MOIETY_E_UNSUPPORTED,
                        "%zu bytes at 0x%llx: in a pool that is checked or "
                        "passes all through nothing can be claimed",
                        size_bytes, address);
}

/* Frees of checked pools are noted without the size of their blocks. */
static moiety_status checked_ops_free_block(
    struct moietyi_call *call, moiety_devptr address, size_t size_bytes,
    /* NOLINTNEXTLINE(readability-non-const-parameter): the table's. */
    uint64_t *out_bytes)
{
    (void)out_bytes;
    return moietyi_checked_free(call, address, size_bytes, NULL);
}

static moiety_status checked_ops_free_after(struct moietyi_call *call,
                                            moiety_devptr address,
                                            moiety_event event)
{
    return moietyi_checked_free(call, address, 0, event);
}

/* Behind a block are its bounds, or another allocation of the driver. */
static moiety_status checked_ops_resize(struct moietyi_call *call,
                                        moiety_devptr address,
                                        size_t size_bytes)
{
    size_t held_bytes;
    moiety_status status = moietyi_checked_size(call, address, &held_bytes);
    if (status != MOIETY_OK || held_bytes == size_bytes)
        return status;
    return call->pool->body->checked->is_passing
               ? moietyi_fail(MOIETY_E_UNSUPPORTED,
                              "a block of a pool that passes all through keeps "
                              "its length")
               : moietyi_fail(MOIETY_E_NO_ROOM,
                              "a block of a checked pool keeps its length");
}

const struct moietyi_pool_ops moietyi_checked_ops = {
    .has_records = true,
    .recognise = checked_ops_recognise,
    .alloc = checked_ops_alloc,
    .claim = checked_ops_claim,
    .alloc_private = checked_ops_alloc_private,
    .free = checked_ops_free_block,
    .free_after = checked_ops_free_after,
    .release = moietyi_checked_release,
    .turn = moietyi_checked_turn,
    .use = moietyi_checked_use,
    .usable_size = moietyi_checked_size,
    .live_bytes = moietyi_checked_live_bytes,
    .resize = checked_ops_resize,
    .forget = moietyi_checked_forget,
    .sweep = moietyi_checked_sweep,
    .reset_peaks = moietyi_checked_reset_peaks,
    .fill = moietyi_checked_fill,
    .end = moietyi_checked_end,
};
