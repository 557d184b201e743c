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

moiety_status moietyi_export_no_memory(void)
{
    return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                        "no memory to note what was exported");
}

/* The driver's handle is of its whole allocation: that must be the segment, or
 * a peer would see what is not the pool's. */
static moiety_status check_whole(const struct moietyi_driver *driver,
                                 const struct moietyi_segment_info *info)
{
    CUdeviceptr base = 0;
    size_t size_bytes = 0;
    moiety_status status =
        MOIETYI_CALL(driver, cuMemGetAddressRange,
                     (&base, &size_bytes, (CUdeviceptr)info->memory));
    if (status != MOIETY_OK ||
        (base == info->memory && size_bytes == info->memory_bytes))
        return status;
    return moietyi_fail(MOIETY_E_UNSUPPORTED,
                        "the segment at 0x%llx is not a whole allocation of "
                        "the driver's: a handle would share %zu bytes at "
                        "0x%llx",
                        info->memory, size_bytes, base);
}

static moiety_status export_ask_driver(const struct moietyi_exports *exports,
                                       const struct moietyi_segment_info *info,
                                       CUipcMemHandle *out)
{
    const struct moietyi_driver *driver = exports->options.driver;
    struct moietyi_section section;
    moiety_status status =
        moietyi_context_enter(exports->options.own_context, &section);
    if (status != MOIETY_OK)
        return status;
    status = check_whole(driver, info);
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(driver, cuIpcGetMemHandle,
                              (out, (CUdeviceptr)info->memory));
    (void)moietyi_section_leave(&section);
    return status;
}

/* Unless another thread was faster, with which all is well too: then `fresh`'s
 * pin is one too many. */
static moiety_status export_list(struct moietyi_exports *exports,
                                 struct moietyi_export *fresh)
{
    moiety_status status = MOIETY_OK;
    bool is_listed = false;
    pthread_mutex_lock(&exports->lock);
    if (!moietyi_export_at(exports, fresh->info.address)) {
        fresh->common.generation = ++exports->last_generation;
        is_listed = moietyi_export_insert(exports, fresh);
        status = is_listed ? MOIETY_OK : moietyi_export_no_memory();
    }
    pthread_mutex_unlock(&exports->lock);
    if (!is_listed)
        moietyi_segments_unpin(exports->options.segments, fresh->info.id);
    return status;
}

static moiety_status describe(struct moietyi_exports *exports,
                              const struct moietyi_engine *engine,
                              moiety_devptr address,
                              struct moietyi_export *fresh)
{
    struct moietyi_block block;
    moiety_devptr start;
    CUipcMemHandle driver_handle;
    moiety_status status =
        moietyi_block_around(engine, &fresh->info, address, &block, &start);
    if (status == MOIETY_OK)
        status = export_ask_driver(exports, &fresh->info, &driver_handle);
    if (status != MOIETY_OK)
        return status;
    fresh->common = exports->common;
    memcpy(fresh->common.driver_handle, driver_handle.reserved,
           sizeof(fresh->common.driver_handle));
    fresh->common.segment_bytes = fresh->info.memory_bytes;
    fresh->common.segment_id =
        exports->serial << 32 | (fresh->info.id & UINT32_MAX);
    return MOIETY_OK;
}

/* The first export of the segment that has `address`. */
static moiety_status export_add_segment(struct moietyi_exports *exports,
                                        const struct moietyi_engine *engine,
                                        moiety_devptr address)
{
    struct moietyi_export fresh = {.import_count = 0};
    /* Before all else: what is pinned cannot be trimmed behind our back. */
    if (!moietyi_segments_pin(exports->options.segments, address, &fresh.info))
        return moietyi_fail(MOIETY_E_FOREIGN,
                            "address 0x%llx is not of this pool", address);
    moiety_status status = describe(exports, engine, address, &fresh);
    if (status == MOIETY_OK)
        return export_list(exports, &fresh);
    moietyi_segments_unpin(exports->options.segments, fresh.info.id);
    return status;
}

/* Lock held. From now on a free of the block looks further. */
moiety_status moietyi_export_note(struct moietyi_exports *exports,
                                  const struct moietyi_engine *engine,
                                  const struct moietyi_block *block,
                                  moiety_devptr start)
{
    const struct moietyi_held *held =
        moietyi_held_find(&exports->blocks, start);
    if (held && held->is_freed)
        return moietyi_fail(MOIETY_E_INVALID,
                            "the block at 0x%llx was freed before", start);
    if (held)
        return MOIETY_OK;
    if (!moietyi_held_add(&exports->blocks, start))
        return moietyi_export_no_memory();
    moietyi_tag_note_further(moietyi_tags(engine), block->start);
    moietyi_space_set_class(exports->options.space, block->start,
                            block->byte | MOIETYI_BYTE_SPECIAL);
    return MOIETY_OK;
}

/* Lock held. */
static moiety_status export_fill(struct moietyi_exports *exports,
                                 const struct moietyi_export *segment,
                                 const struct moietyi_engine *engine,
                                 moiety_devptr address, moiety_ipc_handle *out)
{
    struct moietyi_block block;
    moiety_devptr start;
    moiety_status status =
        moietyi_block_around(engine, &segment->info, address, &block, &start);
    if (status == MOIETY_OK)
        status = moietyi_export_note(exports, engine, &block, start);
    if (status != MOIETY_OK)
        return status;
    *out = segment->common;
    out->offset_bytes = address - segment->info.memory;
    out->size_bytes = start + block.grains * MOIETYI_GRAIN_BYTES - address;
    return MOIETY_OK;
}

/* False: the segment is not listed yet. */
static bool try_export(struct moietyi_exports *exports,
                       const struct moietyi_engine *engine,
                       moiety_devptr address, moiety_ipc_handle *out,
                       moiety_status *out_status)
{
    pthread_mutex_lock(&exports->lock);
    const struct moietyi_export *segment = moietyi_export_at(exports, address);
    if (segment)
        *out_status = export_fill(exports, segment, engine, address, out);
    pthread_mutex_unlock(&exports->lock);
    return segment != NULL;
}

moiety_status moietyi_export(struct moietyi_exports *exports,
                             const struct moietyi_engine *engine,
                             moiety_devptr address, moiety_ipc_handle *out)
{
    moiety_status status;
    moiety_ipc_handle handle;
    while (!try_export(exports, engine, address, &handle, &status)) {
        status = export_add_segment(exports, engine, address);
        if (status != MOIETY_OK)
            return status;
    }
    if (status != MOIETY_OK)
        return status;
    moietyi_handle_seal(&handle);
    *out = handle;
    return MOIETY_OK;
}

moiety_status moietyi_export_send(struct moietyi_exports *exports,
                                  const struct moietyi_engine *engine,
                                  moiety_devptr address, int socket)
{
    struct moietyi_channel channel;
    moiety_ipc_handle handle;
    moiety_status status = moietyi_channel_init(socket, &channel);
    if (status == MOIETY_OK)
        status = moietyi_export(exports, engine, address, &handle);
    return status == MOIETY_OK ? moietyi_channel_send_head(&channel, &handle, 0)
                               : status;
}
