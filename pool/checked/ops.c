/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The table of operations of a pool that is checked or passes all through.
 */
#include "pool/base/failure.h"
#include "pool/checked/state.h"

static binade_status checked_ops_recognise(struct binadei_call *call,
                                           binade_stream stream)
{
    return binadei_checked_stream(call->pool->body->checked, stream);
}

static binade_status checked_ops_alloc(struct binadei_call *call,
                                       const struct binadei_alloc_args *args,
                                       binade_devptr *out)
{
    binade_status status = binadei_checked_stranger(call);
    if (status != BINADE_OK)
        return status;
    return call->capture.kind >= BINADEI_CAPTURE_BROKEN
               ? binadei_block_record_alloc_captured(call, args, out)
               : binadei_block_record_alloc(call, args, 0, NULL, out);
}

/* In a capture the scope says which arena is charged. */
static binade_status checked_ops_alloc_private(
    struct binadei_call *call, const struct binadei_private_ref *arena_ref,
    binade_scope number, size_t size_bytes, binade_devptr *out)
{
    const struct binadei_alloc_args args = {.size_bytes = size_bytes,
                                            .alignment_bytes = 1,
                                            .may_wait = true,
                                            .is_exact = true};
    binade_status status = binadei_checked_stranger(call);
    (void)number;
    if (status != BINADE_OK)
        return status;
    return call->capture.kind >= BINADEI_CAPTURE_BROKEN
               ? binadei_block_record_alloc_captured(call, &args, out)
               : binadei_block_record_alloc_for(call, 0, arena_ref, &args, out);
}

static binade_status
checked_ops_claim(struct binadei_call *call,
                  const struct binadei_private_ref *arena_ref,
                  binade_devptr address, size_t size_bytes)
{
    (void)call;
    (void)arena_ref;
    return binadei_fail(BINADE_E_UNSUPPORTED,
                        "%zu bytes at 0x%llx: in a pool that is checked or "
                        "passes all through nothing can be claimed",
                        size_bytes, address);
}

/* Frees of checked pools are noted without the size of their blocks. */
static binade_status checked_ops_free_block(
    struct binadei_call *call, binade_devptr address, size_t size_bytes,
    /* NOLINTNEXTLINE(readability-non-const-parameter): the table's. */
    uint64_t *out_bytes)
{
    (void)out_bytes;
    return binadei_checked_free(call, address, size_bytes, NULL);
}

static binade_status checked_ops_free_after(struct binadei_call *call,
                                            binade_devptr address,
                                            binade_event event)
{
    return binadei_checked_free(call, address, 0, event);
}

/* What comes after a block are its bounds, or another allocation of the
 * driver's. */
static binade_status checked_ops_resize(struct binadei_call *call,
                                        binade_devptr address,
                                        size_t size_bytes)
{
    size_t held_bytes;
    binade_status status = binadei_checked_size(call, address, &held_bytes);
    if (status != BINADE_OK || held_bytes == size_bytes)
        return status;
    return call->pool->body->checked->is_passing
               ? binadei_fail(BINADE_E_UNSUPPORTED,
                              "a block of a pool that passes all through keeps "
                              "its length")
               : binadei_fail(BINADE_E_BUSY,
                              "a block of a checked pool keeps its length");
}

const struct binadei_pool_ops binadei_checked_ops = {
    .has_records = true,
    .recognise = checked_ops_recognise,
    .alloc = checked_ops_alloc,
    .claim = checked_ops_claim,
    .alloc_private = checked_ops_alloc_private,
    .free = checked_ops_free_block,
    .free_after = checked_ops_free_after,
    .release = binadei_checked_release,
    .turn = binadei_checked_turn,
    .use = binadei_checked_use,
    .usable_size = binadei_checked_size,
    .live_bytes = binadei_checked_live_bytes,
    .resize = checked_ops_resize,
    .forget = binadei_checked_forget,
    .sweep = binadei_checked_sweep,
    .reset_peaks = binadei_checked_reset_peaks,
    .fill = binadei_checked_fill,
    .end = binadei_checked_end,
};
