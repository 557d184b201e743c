/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Making handles. The driver is asked once for a segment; every other handle of
 * it is a copy with another offset and a checksum.
 */
#include <string.h>

#include "pool/base/failure.h"
#include "pool/driver/section.h"
#include "pool/ipc/handle.h"
#include "pool/ipc/message/channel.h"
#include "pool/ipc/state.h"

binade_status binadei_export_no_memory(void)
{
    return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                        "no memory to note what was exported");
}

/* The driver's handle is of its whole allocation: that must be the segment, or
 * a peer would see what is not the pool's. */
static binade_status check_whole(const struct binadei_driver *driver,
                                 const struct binadei_segment_info *info)
{
    CUdeviceptr base = 0;
    size_t size_bytes = 0;
    binade_status status =
        BINADEI_CALL(driver, cuMemGetAddressRange,
                     (&base, &size_bytes, (CUdeviceptr)info->memory));
    if (status != BINADE_OK ||
        (base == info->memory && size_bytes == info->memory_bytes))
        return status;
    return binadei_fail(BINADE_E_UNSUPPORTED,
                        "the segment at 0x%llx is not a whole allocation of "
                        "the driver's: a handle would share %zu bytes at "
                        "0x%llx",
                        info->memory, size_bytes, base);
}

static binade_status export_ask_driver(const struct binadei_exports *exports,
                                       const struct binadei_segment_info *info,
                                       CUipcMemHandle *out)
{
    const struct binadei_driver *driver = exports->options.driver;
    struct binadei_section section;
    binade_status status =
        binadei_context_enter(exports->options.own_context, &section);
    if (status != BINADE_OK)
        return status;
    status = check_whole(driver, info);
    if (status == BINADE_OK)
        status = BINADEI_CALL(driver, cuIpcGetMemHandle,
                              (out, (CUdeviceptr)info->memory));
    (void)binadei_section_leave(&section);
    return status;
}

/* Unless another thread was faster, with which all is well too: then `fresh`'s
 * pin is one too many. */
static binade_status export_list(struct binadei_exports *exports,
                                 struct binadei_export *fresh)
{
    binade_status status = BINADE_OK;
    bool is_listed = false;
    pthread_mutex_lock(&exports->lock);
    if (!binadei_export_at(exports, fresh->info.address)) {
        fresh->common.generation = ++exports->last_generation;
        is_listed = binadei_export_insert(exports, fresh);
        status = is_listed ? BINADE_OK : binadei_export_no_memory();
    }
    pthread_mutex_unlock(&exports->lock);
    if (!is_listed)
        binadei_segments_unpin(exports->options.segments, fresh->info.id);
    return status;
}

static binade_status describe(struct binadei_exports *exports,
                              const struct binadei_engine *engine,
                              binade_devptr address,
                              struct binadei_export *fresh)
{
    struct binadei_block block;
    binade_devptr start;
    CUipcMemHandle driver_handle;
    binade_status status =
        binadei_block_around(engine, &fresh->info, address, &block, &start);
    if (status == BINADE_OK)
        status = export_ask_driver(exports, &fresh->info, &driver_handle);
    if (status != BINADE_OK)
        return status;
    fresh->common = exports->common;
    memcpy(fresh->common.driver_handle, driver_handle.reserved,
           sizeof(fresh->common.driver_handle));
    fresh->common.segment_bytes = fresh->info.memory_bytes;
    fresh->common.segment_id =
        exports->serial << 32 | (fresh->info.id & UINT32_MAX);
    return BINADE_OK;
}

/* The first export of the segment that has `address`. */
static binade_status export_add_segment(struct binadei_exports *exports,
                                        const struct binadei_engine *engine,
                                        binade_devptr address)
{
    struct binadei_export fresh = {.import_count = 0};
    /* Before all else: what is pinned cannot be trimmed behind our back. */
    if (!binadei_segments_pin(exports->options.segments, address, &fresh.info))
        return binadei_fail(BINADE_E_FOREIGN,
                            "address 0x%llx is not of this pool", address);
    binade_status status = describe(exports, engine, address, &fresh);
    if (status == BINADE_OK)
        return export_list(exports, &fresh);
    binadei_segments_unpin(exports->options.segments, fresh.info.id);
    return status;
}

/* Lock held. From now on a free of the block looks further. */
binade_status binadei_export_note(struct binadei_exports *exports,
                                  const struct binadei_engine *engine,
                                  const struct binadei_block *block,
                                  binade_devptr start)
{
    const struct binadei_held *held =
        binadei_held_find(&exports->blocks, start);
    if (held && held->is_freed)
        return binadei_fail(BINADE_E_INVALID,
                            "the block at 0x%llx was freed before", start);
    if (held)
        return BINADE_OK;
    if (!binadei_held_add(&exports->blocks, start))
        return binadei_export_no_memory();
    binadei_tag_note_further(binadei_tags(engine), block->start);
    binadei_buddy_set_class(exports->options.buddy, block->start,
                            block->byte | BINADEI_BYTE_SPECIAL);
    return BINADE_OK;
}

/* Lock held. */
static binade_status export_fill(struct binadei_exports *exports,
                                 const struct binadei_export *segment,
                                 const struct binadei_engine *engine,
                                 binade_devptr address, binade_ipc_handle *out)
{
    struct binadei_block block;
    binade_devptr start;
    binade_status status =
        binadei_block_around(engine, &segment->info, address, &block, &start);
    if (status == BINADE_OK)
        status = binadei_export_note(exports, engine, &block, start);
    if (status != BINADE_OK)
        return status;
    *out = segment->common;
    out->offset_bytes = address - segment->info.memory;
    out->size_bytes = start + block.grains * BINADEI_GRAIN_BYTES - address;
    return BINADE_OK;
}

/* False: the segment is not listed yet. */
static bool try_export(struct binadei_exports *exports,
                       const struct binadei_engine *engine,
                       binade_devptr address, binade_ipc_handle *out,
                       binade_status *out_status)
{
    pthread_mutex_lock(&exports->lock);
    const struct binadei_export *segment = binadei_export_at(exports, address);
    if (segment)
        *out_status = export_fill(exports, segment, engine, address, out);
    pthread_mutex_unlock(&exports->lock);
    return segment != NULL;
}

binade_status binadei_export(struct binadei_exports *exports,
                             const struct binadei_engine *engine,
                             binade_devptr address, binade_ipc_handle *out)
{
    binade_status status;
    binade_ipc_handle handle;
    while (!try_export(exports, engine, address, &handle, &status)) {
        status = export_add_segment(exports, engine, address);
        if (status != BINADE_OK)
            return status;
    }
    if (status != BINADE_OK)
        return status;
    binadei_handle_seal(&handle);
    *out = handle;
    return BINADE_OK;
}

binade_status binadei_export_send(struct binadei_exports *exports,
                                  const struct binadei_engine *engine,
                                  binade_devptr address, int socket)
{
    struct binadei_channel channel;
    binade_ipc_handle handle;
    binade_status status = binadei_channel_init(socket, &channel);
    if (status == BINADE_OK)
        status = binadei_export(exports, engine, address, &handle);
    return status == BINADE_OK ? binadei_channel_send_head(&channel, &handle, 0)
                               : status;
}
