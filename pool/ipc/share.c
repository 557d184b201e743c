/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sharing mapped memory. A block may be in several handles of the driver's: such
 * a run is pinned, named and sent as one, so that an importer maps it in one piece
 * too. Two blocks whose runs overlap are two runs; a handle that is in both is
 * pinned twice, and mapped twice where both were sent.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool/base/failure.h"
#include "pool/ipc/handle.h"
#include "pool/ipc/message/channel.h"
#include "pool/ipc/state.h"

/* A block, and the handles that it is in, pinned once. */
struct run {
    struct moietyi_block block;
    moiety_devptr start; /* of the block */
    moiety_devptr end;
    struct moietyi_pieces pieces;
};

/* A page's address never changes, so all of them are as one segment. */
static moiety_status run_find_block(const struct moietyi_engine *engine,
                                    moiety_devptr address, struct run *out)
{
    moietyi_grain grain;
    *out = (struct run){.start = 0};
    if (!moietyi_grain_of(engine->lookup, address, &grain))
        return moietyi_fail(MOIETY_E_FOREIGN,
                            "address 0x%llx is not of this pool", address);
    const struct moietyi_segment_info all = {
        .address = address - address % MOIETYI_GRAIN_BYTES -
                   grain.index * MOIETYI_GRAIN_BYTES};
    moiety_status status =
        moietyi_block_around(engine, &all, address, &out->block, &out->start);
    if (status == MOIETY_OK)
        out->end = out->start + out->block.grains * MOIETYI_GRAIN_BYTES;
    return status;
}

static moiety_status run_take(const struct moietyi_exports *exports,
                              const struct moietyi_engine *engine,
                              moiety_devptr address, struct run *out)
{
    moiety_status status = run_find_block(engine, address, out);
    if (status != MOIETY_OK)
        return status;
    status = moietyi_segments_pin_run(exports->options.segments, out->start,
                                      out->end, &out->pieces);
    if (status == MOIETY_E_NO_HOST_MEMORY)
        return moietyi_export_no_memory();
    if (status != MOIETY_OK)
        return moietyi_fail(status, "address 0x%llx is in no live block",
                            address);
    return MOIETY_OK;
}

static void run_give(const struct moietyi_exports *exports, struct run *run)
{
    moietyi_segments_repin(exports->options.segments, run->pieces.address,
                           run->pieces.size_bytes, false);
    free(run->pieces.pieces);
}

/* Never 0. */
static uint64_t run_sum_of(const struct moietyi_pieces *pieces)
{
    uint64_t sum = moietyi_process_nonce();
    for (size_t i = 0; i < pieces->count; i++) {
        const uint64_t words[] = {sum, pieces->pieces[i].id,
                                  pieces->pieces[i].size_bytes};
        sum = moietyi_checksum(words, sizeof(words));
    }
    return sum | 1;
}

static void name_run(const struct moietyi_exports *exports,
                     const struct moietyi_pieces *pieces,
                     moiety_ipc_handle *out)
{
    const moiety_ipc_handle *common = &exports->common;
    struct moietyi_run_name name = {.sum = run_sum_of(pieces),
                                    .piece_count = pieces->count,
                                    .nonce = moietyi_process_nonce()};
    memcpy(name.exporter.machine, common->machine, sizeof(common->machine));
    name.exporter.pid_namespace = common->pid_namespace;
    name.exporter.start_ticks = common->start_ticks;
    name.exporter.pid = common->pid;
    *out = *common;
    out->kind = MOIETY_IPC_MAPPED;
    memcpy(out->driver_handle, &name, sizeof(name));
    out->segment_bytes = pieces->size_bytes;
    out->segment_id =
        exports->serial << 32 | (pieces->pieces[0].id & UINT32_MAX);
}

/* The run among the exports, which keep a pin of their own. Lock held; NULL: no
 * memory. */
static const struct moietyi_export *run_enlist(struct moietyi_exports *exports,
                                               const struct moietyi_pieces *run)
{
    const struct moietyi_export *known =
        moietyi_export_run(exports, run->address, run->size_bytes);
    if (known)
        return known;
    struct moietyi_export fresh = {
        .info = {.id = run->pieces[0].id,
                 .address = run->address,
                 .memory = run->address,
                 .memory_bytes = run->size_bytes,
                 .page_count =
                     (uint32_t)(run->size_bytes / MOIETYI_PAGE_BYTES)}};
    name_run(exports, run, &fresh.common);
    fresh.common.generation = ++exports->last_generation;
    if (!moietyi_export_insert(exports, &fresh))
        return NULL;
    /* The segments' lock is the only one that is taken after ours. */
    moietyi_segments_repin(exports->options.segments, run->address,
                           run->size_bytes, true);
    return moietyi_export_run(exports, run->address, run->size_bytes);
}

static moiety_status share_run(struct moietyi_exports *exports,
                               const struct moietyi_engine *engine,
                               const struct run *run, moiety_devptr address,
                               moiety_ipc_handle *out)
{
    pthread_mutex_lock(&exports->lock);
    const struct moietyi_export *listed = run_enlist(exports, &run->pieces);
    moiety_status status =
        listed ? moietyi_export_note(exports, engine, &run->block, run->start)
               : moietyi_export_no_memory();
    if (listed && status == MOIETY_OK) {
        *out = listed->common;
        out->offset_bytes = address - listed->info.address;
        out->size_bytes = run->end - address;
    }
    pthread_mutex_unlock(&exports->lock);
    if (status == MOIETY_OK)
        moietyi_handle_seal(out);
    return status;
}

moiety_status moietyi_share_ticket(struct moietyi_exports *exports,
                                   const struct moietyi_engine *engine,
                                   moiety_devptr address,
                                   moiety_ipc_handle *out)
{
    struct run run;
    moiety_ipc_handle handle;
    moiety_status status = run_take(exports, engine, address, &run);
    if (status != MOIETY_OK)
        return status;
    status = share_run(exports, engine, &run, address, &handle);
    run_give(exports, &run);
    if (status == MOIETY_OK)
        *out = handle;
    return status;
}

/* Without leave to have one more descriptor the driver has no code of its own. */
static moiety_status share_refuse(const struct moietyi_channel *channel,
                                  moiety_status status)
{
    int spare = fcntl(channel->socket, F_DUPFD_CLOEXEC, 0);
    if (spare >= 0)
        (void)close(spare);
    else if (errno == EMFILE || errno == ENFILE)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "there can be no more file descriptors");
    return status;
}

/* The piece at `at` and those behind it that go with it. Before the first ones
 * goes the head, when nothing can fail any more but the socket. */
static moiety_status send_frame(const struct moietyi_mapper *mapper,
                                struct moietyi_channel *channel,
                                const struct moietyi_pieces *run, size_t at,
                                const moiety_ipc_handle *handle)
{
    uint64_t sizes[MOIETYI_FRAME_PIECES];
    int descriptors[MOIETYI_FRAME_PIECES];
    const struct moietyi_piece *pieces = &run->pieces[at];
    size_t count = moietyi_frame_pieces(run->count, at);
    moiety_status status = MOIETY_OK;
    size_t made = 0;
    for (; made < count; made++) {
        sizes[made] = pieces[made].size_bytes;
        status = mapper->share(mapper->context, pieces[made].handle,
                               &descriptors[made]);
        if (status != MOIETY_OK) {
            status = share_refuse(channel, status);
            break;
        }
    }
    if (status == MOIETY_OK && at == 0)
        status = moietyi_channel_send_head(channel, handle, run->count);
    if (status == MOIETY_OK)
        status = moietyi_channel_send_frame(channel, sizes, descriptors, count);
    while (made-- > 0)
        (void)close(descriptors[made]);
    return status;
}

static moiety_status send_descriptors(const struct moietyi_mapper *mapper,
                                      struct moietyi_channel *channel,
                                      const struct moietyi_pieces *run,
                                      const moiety_ipc_handle *handle)
{
    moiety_status status = MOIETY_OK;
    for (size_t at = 0; at < run->count && status == MOIETY_OK;
         at += MOIETYI_FRAME_PIECES)
        status = send_frame(mapper, channel, run, at, handle);
    return status;
}

/* Of all pieces, or of none: the caller frees `*out`. */
static moiety_status take_fabrics(const struct moietyi_mapper *mapper,
                                  const struct moietyi_pieces *run,
                                  CUmemFabricHandle **out)
{
    CUmemFabricHandle *fabrics = calloc(run->count, sizeof(*fabrics));
    if (!fabrics)
        return moietyi_export_no_memory();
    moiety_status status = MOIETY_OK;
    for (size_t i = 0; i < run->count && status == MOIETY_OK; i++)
        status = mapper->share_fabric(mapper->context, run->pieces[i].handle,
                                      &fabrics[i]);
    if (status == MOIETY_OK)
        *out = fabrics;
    else
        free(fabrics);
    return status;
}

static moiety_status send_fabrics(struct moietyi_channel *channel,
                                  const struct moietyi_pieces *run,
                                  const CUmemFabricHandle *fabrics,
                                  const moiety_ipc_handle *handle)
{
    moiety_status status =
        moietyi_channel_send_head(channel, handle, run->count);
    for (size_t at = 0; at < run->count && status == MOIETY_OK;
         at += MOIETYI_FRAME_PIECES) {
        uint64_t sizes[MOIETYI_FRAME_PIECES];
        size_t count = moietyi_frame_pieces(run->count, at);
        for (size_t i = 0; i < count; i++)
            sizes[i] = run->pieces[at + i].size_bytes;
        status =
            moietyi_channel_send_fabrics(channel, sizes, &fabrics[at], count);
    }
    return status;
}

static moiety_status send_run(struct moietyi_exports *exports,
                              const struct moietyi_engine *engine,
                              const struct run *run, moiety_devptr address,
                              struct moietyi_channel *channel)
{
    const struct moietyi_mapper *mapper = exports->options.mapper;
    CUmemFabricHandle *fabrics = NULL;
    moiety_ipc_handle handle;
    moiety_status status = MOIETY_OK;
    /* Before it counts as exported: most devices have none. */
    if (!channel->has_descriptors)
        status = take_fabrics(mapper, &run->pieces, &fabrics);
    if (status == MOIETY_OK)
        status = share_run(exports, engine, run, address, &handle);
    if (status == MOIETY_OK)
        status = fabrics
                     ? send_fabrics(channel, &run->pieces, fabrics, &handle)
                     : send_descriptors(mapper, channel, &run->pieces, &handle);
    free(fabrics);
    return status;
}

moiety_status moietyi_share_send(struct moietyi_exports *exports,
                                 const struct moietyi_engine *engine,
                                 moiety_devptr address, int socket)
{
    struct run run;
    struct moietyi_channel channel;
    moiety_status status = moietyi_channel_init(socket, &channel);
    if (status == MOIETY_OK)
        status = run_take(exports, engine, address, &run);
    if (status != MOIETY_OK)
        return status;
    status = send_run(exports, engine, &run, address, &channel);
    run_give(exports, &run);
    return status;
}
