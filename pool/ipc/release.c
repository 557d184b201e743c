/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What was exported comes back: blocks that were freed meanwhile, and the
 * segments, which may be trimmed again.
 */
#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/ipc/state.h"

enum moietyi_export_free moietyi_exports_free(struct moietyi_exports *exports,
                                              moiety_devptr block)
{
    enum moietyi_export_free found = MOIETYI_EXPORT_NONE;
    pthread_mutex_lock(&exports->lock);
    struct moietyi_held *held = moietyi_held_find(&exports->blocks, block);
    if (held) {
        found = held->is_freed ? MOIETYI_EXPORT_AGAIN : MOIETYI_EXPORT_KEPT;
        held->is_freed = true;
    }
    pthread_mutex_unlock(&exports->lock);
    return found;
}

bool moietyi_exports_has(struct moietyi_exports *exports, moiety_devptr block)
{
    pthread_mutex_lock(&exports->lock);
    bool is_there = moietyi_held_find(&exports->blocks, block) != NULL;
    pthread_mutex_unlock(&exports->lock);
    return is_there;
}

static bool release_is_within(const struct moietyi_export *segment,
                              const struct moietyi_export_range *range)
{
    return segment->info.address >= range->first &&
           segment->info.address < range->end;
}

/* Lock held. */
static bool is_imported(const struct moietyi_exports *exports,
                        const struct moietyi_export_range *range)
{
    for (size_t i = 0; i < exports->segment_count; i++)
        if (release_is_within(&exports->segments[i], range) &&
            exports->segments[i].import_count)
            return true;
    return false;
}

/* Lock held; the segments' lock is the only one that is taken after it. */
static void end_exports(struct moietyi_exports *exports,
                        const struct moietyi_export_range *range)
{
    for (size_t i = exports->segment_count; i-- > 0;) {
        if (!release_is_within(&exports->segments[i], range))
            continue;
        const struct moietyi_segment_info *info = &exports->segments[i].info;
        if (exports->options.mapper)
            moietyi_segments_repin(exports->options.segments, info->address,
                                   info->memory_bytes, false);
        else
            moietyi_segments_unpin(exports->options.segments, info->id);
        moietyi_export_remove(exports, i);
    }
    moietyi_held_forget(&exports->blocks, range->first, range->end);
}

/* Takes what was freed; if that is nothing, ends the exports. */
static moiety_status release_step(struct moietyi_exports *exports,
                                  const struct moietyi_export_range *range,
                                  struct moietyi_held **out_freed)
{
    moiety_status status = MOIETY_OK;
    *out_freed = NULL;
    pthread_mutex_lock(&exports->lock);
    if (is_imported(exports, range)) {
        status = moietyi_fail(MOIETY_E_IN_USE,
                              "this process has imported from the segment "
                              "itself, and not closed");
    } else {
        *out_freed =
            moietyi_held_take_freed(&exports->blocks, range->first, range->end);
        if (!*out_freed)
            end_exports(exports, range);
    }
    pthread_mutex_unlock(&exports->lock);
    return status;
}

static moiety_status release_put(struct moietyi_call *call,
                                 moiety_devptr address)
{
    struct moietyi_block block;
    moiety_status status = moietyi_block_at(call->engine, address, &block);
    return status == MOIETY_OK ? moietyi_put(call, &block, address) : status;
}

static moiety_status put_all(struct moietyi_exports *exports,
                             struct moietyi_call *call,
                             struct moietyi_held *freed)
{
    while (freed) {
        struct moietyi_held *held = freed;
        moiety_status status = release_put(call, held->address);
        if (status != MOIETY_OK) {
            pthread_mutex_lock(&exports->lock);
            moietyi_held_return(&exports->blocks, freed);
            pthread_mutex_unlock(&exports->lock);
            return status;
        }
        freed = held->next;
        free(held);
    }
    return MOIETY_OK;
}

/* The range of the segment that has `address`; empty where nothing of it is
 * exported. */
static moiety_status find_range(struct moietyi_exports *exports,
                                const struct moietyi_call *call,
                                moiety_devptr address,
                                struct moietyi_export_range *out)
{
    moietyi_grain grain;
    *out = (struct moietyi_export_range){0, 0};
    if (!moietyi_grain_of(call->engine->lookup, address, &grain))
        return moietyi_fail(MOIETY_E_FOREIGN,
                            "address 0x%llx is not of this pool", address);
    pthread_mutex_lock(&exports->lock);
    *out = moietyi_export_range_of(exports, address);
    pthread_mutex_unlock(&exports->lock);
    return MOIETY_OK;
}

moiety_status moietyi_exports_release(struct moietyi_exports *exports,
                                      struct moietyi_call *call,
                                      moiety_devptr address)
{
    struct moietyi_export_range range = {0, MOIETYI_ADDRESS_END};
    struct moietyi_held *freed;
    moiety_status status =
        address ? find_range(exports, call, address, &range) : MOIETY_OK;
    if (status == MOIETY_OK)
        status = release_step(exports, &range, &freed);
    while (status == MOIETY_OK && freed) {
        status = put_all(exports, call, freed);
        if (status == MOIETY_OK)
            status = release_step(exports, &range, &freed);
    }
    return status;
}
