/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What was exported comes back: blocks that were freed meanwhile, and the
 * segments, which may be trimmed again.
 */
#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/ipc/state.h"

enum binadei_export_free binadei_exports_free(struct binadei_exports *exports,
                                              binade_devptr block)
{
    enum binadei_export_free found = BINADEI_EXPORT_NONE;
    pthread_mutex_lock(&exports->lock);
    struct binadei_held *held = binadei_held_find(&exports->blocks, block);
    if (held) {
        found = held->is_freed ? BINADEI_EXPORT_AGAIN : BINADEI_EXPORT_KEPT;
        held->is_freed = true;
    }
    pthread_mutex_unlock(&exports->lock);
    return found;
}

bool binadei_exports_has(struct binadei_exports *exports, binade_devptr block)
{
    pthread_mutex_lock(&exports->lock);
    bool is_there = binadei_held_find(&exports->blocks, block) != NULL;
    pthread_mutex_unlock(&exports->lock);
    return is_there;
}

static bool release_is_within(const struct binadei_export *segment,
                              const struct binadei_export_range *range)
{
    return segment->info.address >= range->first &&
           segment->info.address < range->end;
}

/* Lock held. */
static bool is_imported(const struct binadei_exports *exports,
                        const struct binadei_export_range *range)
{
    for (size_t i = 0; i < exports->segment_count; i++)
        if (release_is_within(&exports->segments[i], range) &&
            exports->segments[i].import_count)
            return true;
    return false;
}

/* Lock held; the segments' lock is the only one that is taken after it. */
static void end_exports(struct binadei_exports *exports,
                        const struct binadei_export_range *range)
{
    for (size_t i = exports->segment_count; i-- > 0;) {
        if (!release_is_within(&exports->segments[i], range))
            continue;
        const struct binadei_segment_info *info = &exports->segments[i].info;
        if (exports->options.mapper)
            binadei_segments_unpin_run(exports->options.segments, info->address,
                                       info->memory_bytes);
        else
            binadei_segments_unpin(exports->options.segments, info->id);
        binadei_export_remove(exports, i);
    }
    binadei_held_forget(&exports->blocks, range->first, range->end);
}

/* Takes what was freed; if that is nothing, ends the exports. */
static binade_status release_step(struct binadei_exports *exports,
                                  const struct binadei_export_range *range,
                                  struct binadei_held **out_freed)
{
    binade_status status = BINADE_OK;
    *out_freed = NULL;
    pthread_mutex_lock(&exports->lock);
    if (is_imported(exports, range)) {
        status = binadei_fail(BINADE_E_BUSY,
                              "this process has imported from the segment "
                              "itself, and not closed");
    } else {
        *out_freed =
            binadei_held_take_freed(&exports->blocks, range->first, range->end);
        if (!*out_freed)
            end_exports(exports, range);
    }
    pthread_mutex_unlock(&exports->lock);
    return status;
}

static binade_status release_put(struct binadei_call *call,
                                 binade_devptr address)
{
    struct binadei_block block;
    binade_status status = binadei_block_at(call->engine, address, &block);
    return status == BINADE_OK ? binadei_put(call, &block, address) : status;
}

static binade_status put_all(struct binadei_exports *exports,
                             struct binadei_call *call,
                             struct binadei_held *freed)
{
    while (freed) {
        struct binadei_held *held = freed;
        binade_status status = release_put(call, held->address);
        if (status != BINADE_OK) {
            pthread_mutex_lock(&exports->lock);
            binadei_held_return(&exports->blocks, freed);
            pthread_mutex_unlock(&exports->lock);
            return status;
        }
        freed = held->next;
        free(held);
    }
    return BINADE_OK;
}

/* The range of the segment that has `address`; empty where nothing of it is
 * exported. */
static binade_status find_range(struct binadei_exports *exports,
                                const struct binadei_call *call,
                                binade_devptr address,
                                struct binadei_export_range *out)
{
    binadei_grain grain;
    *out = (struct binadei_export_range){0, 0};
    if (!binadei_grain_of(call->engine->lookup, address, &grain))
        return binadei_fail(BINADE_E_FOREIGN,
                            "address 0x%llx is not of this pool", address);
    pthread_mutex_lock(&exports->lock);
    *out = binadei_export_range_of(exports, address);
    pthread_mutex_unlock(&exports->lock);
    return BINADE_OK;
}

binade_status binadei_exports_release(struct binadei_exports *exports,
                                      struct binadei_call *call,
                                      binade_devptr address)
{
    struct binadei_export_range range = {0, BINADEI_ADDRESS_END};
    struct binadei_held *freed;
    binade_status status =
        address ? find_range(exports, call, address, &range) : BINADE_OK;
    if (status == BINADE_OK)
        status = release_step(exports, &range, &freed);
    while (status == BINADE_OK && freed) {
        status = put_all(exports, call, freed);
        if (status == BINADE_OK)
            status = release_step(exports, &range, &freed);
    }
    return status;
}
