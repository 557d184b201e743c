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
    struct binadei_block block;
    binade_devptr start; /* of the block */
    binade_devptr end;
    struct binadei_pieces pieces;
};

/* A page's address never changes, so all of them are as one segment. */
static binade_status run_find_block(const struct binadei_engine *engine,
                                    binade_devptr address, struct run *out)
{
    binadei_grain grain;
    *out = (struct run){.start = 0};
    if (!binadei_grain_of(engine->lookup, address, &grain))
        return binadei_fail(BINADE_E_FOREIGN,
                            "address 0x%llx is not of this pool", address);
    const struct binadei_segment_info all = {
        .address = address - address % BINADEI_GRAIN_BYTES -
                   grain.index * BINADEI_GRAIN_BYTES};
    binade_status status =
        binadei_block_around(engine, &all, address, &out->block, &out->start);
    if (status == BINADE_OK)
        out->end = out->start + out->block.grains * BINADEI_GRAIN_BYTES;
    return status;
}

static binade_status run_take(const struct binadei_exports *exports,
                              const struct binadei_engine *engine,
                              binade_devptr address, struct run *out)
{
    binade_status status = run_find_block(engine, address, out);
    if (status != BINADE_OK)
        return status;
    status = binadei_segments_pin_run(exports->options.segments, out->start,
                                      out->end, &out->pieces);
    if (status == BINADE_E_NO_HOST_MEMORY)
        return binadei_export_no_memory();
    if (status != BINADE_OK)
        return binadei_fail(status, "address 0x%llx is in no live block",
                            address);
    return BINADE_OK;
}

static void run_give(const struct binadei_exports *exports, struct run *run)
{
    binadei_segments_unpin_run(exports->options.segments, run->pieces.address,
                               run->pieces.size_bytes);
    free(run->pieces.pieces);
}

/* Never 0. */
static uint64_t run_sum_of(const struct binadei_pieces *pieces)
{
    uint64_t sum = binadei_process_nonce();
    for (size_t i = 0; i < pieces->count; i++) {
        const uint64_t words[] = {sum, pieces->pieces[i].id,
                                  pieces->pieces[i].size_bytes};
        sum = binadei_checksum(words, sizeof(words));
    }
    return sum | 1;
}

static void name_run(const struct binadei_exports *exports,
                     const struct binadei_pieces *pieces,
                     binade_ipc_handle *out)
{
    const binade_ipc_handle *common = &exports->common;
    struct binadei_run_name name = {.sum = run_sum_of(pieces),
                                    .piece_count = pieces->count,
                                    .nonce = binadei_process_nonce()};
    memcpy(name.exporter.machine, common->machine, sizeof(common->machine));
    name.exporter.pid_namespace = common->pid_namespace;
    name.exporter.start_ticks = common->start_ticks;
    name.exporter.pid = common->pid;
    *out = *common;
    out->kind = BINADE_IPC_MAPPED;
    memcpy(out->driver_handle, &name, sizeof(name));
    out->segment_bytes = pieces->size_bytes;
    out->segment_id =
        exports->serial << 32 | (pieces->pieces[0].id & UINT32_MAX);
}

/* The run among the exports, which keep a pin of their own. Lock held; NULL: no
 * memory. */
static const struct binadei_export *run_enlist(struct binadei_exports *exports,
                                               const struct binadei_pieces *run)
{
    const struct binadei_export *known =
        binadei_export_run(exports, run->address, run->size_bytes);
    if (known)
        return known;
    struct binadei_export fresh = {
        .info = {.id = run->pieces[0].id,
                 .address = run->address,
                 .memory = run->address,
                 .memory_bytes = run->size_bytes,
                 .page_count =
                     (uint32_t)(run->size_bytes / BINADEI_PAGE_BYTES)}};
    name_run(exports, run, &fresh.common);
    fresh.common.generation = ++exports->last_generation;
    if (!binadei_export_insert(exports, &fresh))
        return NULL;
    /* The segments' lock is the only one that is taken after ours. */
    binadei_segments_pin_again(exports->options.segments, run->address,
                               run->size_bytes);
    return binadei_export_run(exports, run->address, run->size_bytes);
}

static binade_status share_run(struct binadei_exports *exports,
                               const struct binadei_engine *engine,
                               const struct run *run, binade_devptr address,
                               binade_ipc_handle *out)
{
    pthread_mutex_lock(&exports->lock);
    const struct binadei_export *listed = run_enlist(exports, &run->pieces);
    binade_status status =
        listed ? binadei_export_note(exports, engine, &run->block, run->start)
               : binadei_export_no_memory();
    if (listed && status == BINADE_OK) {
        *out = listed->common;
        out->offset_bytes = address - listed->info.address;
        out->size_bytes = run->end - address;
    }
    pthread_mutex_unlock(&exports->lock);
    if (status == BINADE_OK)
        binadei_handle_seal(out);
    return status;
}

binade_status binadei_share_ticket(struct binadei_exports *exports,
                                   const struct binadei_engine *engine,
                                   binade_devptr address,
                                   binade_ipc_handle *out)
{
    struct run run;
    binade_ipc_handle handle;
    binade_status status = run_take(exports, engine, address, &run);
    if (status != BINADE_OK)
        return status;
    status = share_run(exports, engine, &run, address, &handle);
    run_give(exports, &run);
    if (status == BINADE_OK)
        *out = handle;
    return status;
}

/* Without leave to have one more descriptor the driver has no code of its own. */
static binade_status share_refuse(const struct binadei_channel *channel,
                                  binade_status status)
{
    int spare = fcntl(channel->socket, F_DUPFD_CLOEXEC, 0);
    if (spare >= 0)
        (void)close(spare);
    else if (errno == EMFILE || errno == ENFILE)
        return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                            "there can be no more file descriptors");
    return status;
}

/* The piece at `at` and those behind it that go with it. Before the first ones
 * goes the head, when nothing can fail any more but the socket. */
static binade_status send_frame(const struct binadei_mapper *mapper,
                                struct binadei_channel *channel,
                                const struct binadei_pieces *run, size_t at,
                                const binade_ipc_handle *handle)
{
    uint64_t sizes[BINADEI_FRAME_PIECES];
    int descriptors[BINADEI_FRAME_PIECES];
    const struct binadei_piece *pieces = &run->pieces[at];
    size_t count = binadei_frame_pieces(run->count, at);
    binade_status status = BINADE_OK;
    size_t made = 0;
    for (; made < count; made++) {
        sizes[made] = pieces[made].size_bytes;
        status = mapper->share(mapper->context, pieces[made].handle,
                               &descriptors[made]);
        if (status != BINADE_OK) {
            status = share_refuse(channel, status);
            break;
        }
    }
    if (status == BINADE_OK && at == 0)
        status = binadei_channel_send_head(channel, handle, run->count);
    if (status == BINADE_OK)
        status = binadei_channel_send_frame(channel, sizes, descriptors, count);
    while (made-- > 0)
        (void)close(descriptors[made]);
    return status;
}

static binade_status send_descriptors(const struct binadei_mapper *mapper,
                                      struct binadei_channel *channel,
                                      const struct binadei_pieces *run,
                                      const binade_ipc_handle *handle)
{
    binade_status status = BINADE_OK;
    for (size_t at = 0; at < run->count && status == BINADE_OK;
         at += BINADEI_FRAME_PIECES)
        status = send_frame(mapper, channel, run, at, handle);
    return status;
}

/* Of all pieces, or of none: the caller frees `*out`. */
static binade_status take_fabrics(const struct binadei_mapper *mapper,
                                  const struct binadei_pieces *run,
                                  CUmemFabricHandle **out)
{
    CUmemFabricHandle *fabrics = calloc(run->count, sizeof(*fabrics));
    if (!fabrics)
        return binadei_export_no_memory();
    binade_status status = BINADE_OK;
    for (size_t i = 0; i < run->count && status == BINADE_OK; i++)
        status = mapper->share_fabric(mapper->context, run->pieces[i].handle,
                                      &fabrics[i]);
    if (status == BINADE_OK)
        *out = fabrics;
    else
        free(fabrics);
    return status;
}

static binade_status send_fabrics(struct binadei_channel *channel,
                                  const struct binadei_pieces *run,
                                  const CUmemFabricHandle *fabrics,
                                  const binade_ipc_handle *handle)
{
    binade_status status =
        binadei_channel_send_head(channel, handle, run->count);
    for (size_t at = 0; at < run->count && status == BINADE_OK;
         at += BINADEI_FRAME_PIECES) {
        uint64_t sizes[BINADEI_FRAME_PIECES];
        size_t count = binadei_frame_pieces(run->count, at);
        for (size_t i = 0; i < count; i++)
            sizes[i] = run->pieces[at + i].size_bytes;
        status =
            binadei_channel_send_fabrics(channel, sizes, &fabrics[at], count);
    }
    return status;
}

static binade_status send_run(struct binadei_exports *exports,
                              const struct binadei_engine *engine,
                              const struct run *run, binade_devptr address,
                              struct binadei_channel *channel)
{
    const struct binadei_mapper *mapper = exports->options.mapper;
    CUmemFabricHandle *fabrics = NULL;
    binade_ipc_handle handle;
    binade_status status = BINADE_OK;
    /* Before it counts as exported: most devices have none. */
    if (!channel->has_descriptors)
        status = take_fabrics(mapper, &run->pieces, &fabrics);
    if (status == BINADE_OK)
        status = share_run(exports, engine, run, address, &handle);
    if (status == BINADE_OK)
        status = fabrics
                     ? send_fabrics(channel, &run->pieces, fabrics, &handle)
                     : send_descriptors(mapper, channel, &run->pieces, &handle);
    free(fabrics);
    return status;
}

binade_status binadei_share_send(struct binadei_exports *exports,
                                 const struct binadei_engine *engine,
                                 binade_devptr address, int socket)
{
    struct run run;
    struct binadei_channel channel;
    binade_status status = binadei_channel_init(socket, &channel);
    if (status == BINADE_OK)
        status = run_take(exports, engine, address, &run);
    if (status != BINADE_OK)
        return status;
    status = send_run(exports, engine, &run, address, &channel);
    run_give(exports, &run);
    return status;
}
