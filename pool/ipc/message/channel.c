/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Messages: made, and believed. What a peer sends is checked before anything is
 * done with it, and a message that is refused is read to its end where its length
 * can be trusted, so that the next one is found.
 */
#include "pool/ipc/message/channel.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool/base/failure.h"
#include "pool/ipc/handle.h"
#include "pool/ipc/message/wire.h"

/* 2 TiB in pieces of 2 MiB. */
#define PIECES_MOST (UINT64_C(1) << 20)

_Static_assert(sizeof(struct binadei_wire_fabrics) % sizeof(uint64_t) == 0,
               "its checksum is of whole words");
_Static_assert(sizeof(struct binadei_wire_head) ==
                   4 * sizeof(uint64_t) + sizeof(binade_ipc_handle),
               "a head has no padding");

binade_status binadei_channel_send_head(struct binadei_channel *channel,
                                        const binade_ipc_handle *handle,
                                        size_t piece_count)
{
    bool is_fabric = piece_count && !channel->has_descriptors;
    struct binadei_wire_head head = {
        .magic = is_fabric ? BINADEI_WIRE_MAGIC_FABRIC : BINADEI_WIRE_MAGIC,
        .version = BINADEI_WIRE_VERSION,
        .head_bytes = sizeof(head),
        .piece_count = piece_count,
        .handle = *handle};
    head.checksum =
        binadei_checksum(&head, offsetof(struct binadei_wire_head, checksum));
    channel->has_more = is_fabric;
    return binadei_wire_send(channel, &head, sizeof(head), NULL, 0);
}

binade_status binadei_channel_send_frame(struct binadei_channel *channel,
                                         const uint64_t *sizes,
                                         const int *descriptors, size_t count)
{
    struct binadei_wire_frame frame = {.count = count};
    memcpy(frame.sizes, sizes, count * sizeof(*sizes));
    frame.checksum =
        binadei_checksum(&frame, offsetof(struct binadei_wire_frame, checksum));
    return binadei_wire_send(channel, &frame, sizeof(frame), descriptors,
                             descriptors ? count : 0);
}

binade_status binadei_channel_send_fabrics(struct binadei_channel *channel,
                                           const uint64_t *sizes,
                                           const CUmemFabricHandle *fabrics,
                                           size_t count)
{
    struct binadei_wire_fabrics part = {.checksum = 0};
    channel->has_more = true;
    binade_status status =
        binadei_channel_send_frame(channel, sizes, NULL, count);
    channel->has_more = false;
    if (status != BINADE_OK)
        return status;
    memcpy(part.handles, fabrics, count * sizeof(*fabrics));
    part.checksum = binadei_checksum(
        &part, offsetof(struct binadei_wire_fabrics, checksum));
    return binadei_wire_send(channel, &part, sizeof(part), NULL, 0);
}

static bool is_fabric_head(const struct binadei_wire_head *head)
{
    return head->magic == BINADEI_WIRE_MAGIC_FABRIC;
}

static binade_status check_head(const struct binadei_wire_head *head)
{
    if (head->magic != BINADEI_WIRE_MAGIC && !is_fabric_head(head))
        return binadei_fail(BINADE_E_CORRUPT,
                            "what came is no message of binade_ipc_send()");
    if (head->version != BINADEI_WIRE_VERSION) {
        return binadei_fail(BINADE_E_UNSUPPORTED,
                            "the message has version %u; this library reads %u",
                            (unsigned)head->version,
                            (unsigned)BINADEI_WIRE_VERSION);
    }
    if (head->head_bytes != sizeof(*head) || head->piece_count > PIECES_MOST ||
        head->checksum !=
            binadei_checksum(head,
                             offsetof(struct binadei_wire_head, checksum)))
        return binadei_fail(BINADE_E_CORRUPT,
                            "the message's bytes are not as they were made");
    return BINADE_OK;
}

/* Whether head and handle agree. */
static binade_status check_handle(const struct binadei_wire_head *head,
                                  binade_ipc_handle *out)
{
    binade_status status =
        binadei_handle_read(&head->handle, sizeof(head->handle), out);
    if (status != BINADE_OK)
        return status;
    const struct binadei_run_name name = binadei_run_name_of(out);
    bool is_mapped = out->kind == BINADE_IPC_MAPPED;
    if (is_mapped ? name.sum && head->piece_count &&
                        name.piece_count == head->piece_count
                  : head->piece_count == 0 && !is_fabric_head(head))
        return BINADE_OK;
    return binadei_fail(BINADE_E_CORRUPT,
                        "the message has %llu pieces, its handle another "
                        "number",
                        (unsigned long long)head->piece_count);
}

static binade_status check_frame(const struct binadei_wire_frame *frame,
                                 size_t count)
{
    if (frame->count == count &&
        frame->checksum ==
            binadei_checksum(frame,
                             offsetof(struct binadei_wire_frame, checksum)))
        return BINADE_OK;
    return binadei_fail(BINADE_E_CORRUPT,
                        "the bytes of a part of the message are not as they "
                        "were made");
}

/* Those from `first` on. */
static void received_close(const struct binadei_received *received,
                           size_t first, size_t count)
{
    for (size_t i = first; received->descriptors && i < first + count; i++)
        (void)close(received->descriptors[i]);
}

static binade_status receive_fabrics(struct binadei_channel *channel,
                                     struct binadei_received *out, size_t count,
                                     bool *out_is_read)
{
    struct binadei_wire_fabrics part;
    binade_status status = binadei_wire_receive(channel, &part, sizeof(part),
                                                NULL, 0, out_is_read);
    if (status != BINADE_OK)
        return status;
    if (part.checksum !=
        binadei_checksum(&part,
                         offsetof(struct binadei_wire_fabrics, checksum)))
        return binadei_fail(BINADE_E_CORRUPT,
                            "the fabric handles of the message are not as they "
                            "were made");
    memcpy(&out->fabrics[out->count], part.handles,
           count * sizeof(part.handles[0]));
    return BINADE_OK;
}

/* One frame, into `out` behind what is there. False in `*out_is_read`: the place
 * of the next is not known. */
static binade_status receive_frame(struct binadei_channel *channel,
                                   struct binadei_received *out, size_t count,
                                   bool *out_is_read)
{
    struct binadei_wire_frame frame;
    bool is_fabric = out->fabrics != NULL;
    binade_status status =
        binadei_wire_receive(channel, &frame, sizeof(frame),
                             is_fabric ? NULL : &out->descriptors[out->count],
                             is_fabric ? 0 : count, out_is_read);
    if (is_fabric && *out_is_read) {
        /* Both parts are read, whichever is wrong. */
        binade_status second =
            receive_fabrics(channel, out, count, out_is_read);
        status = status == BINADE_OK ? second : status;
    }
    if (status != BINADE_OK)
        return status;
    status = check_frame(&frame, count);
    if (status != BINADE_OK) {
        received_close(out, out->count, count);
        return status;
    }
    memcpy(&out->sizes[out->count], frame.sizes,
           count * sizeof(frame.sizes[0]));
    out->count += count;
    return BINADE_OK;
}

/* Reads all frames; the first failure counts. What is left of a refused message
 * goes the way of its descriptors. */
static binade_status receive_frames(struct binadei_channel *channel,
                                    size_t piece_count,
                                    struct binadei_received *out)
{
    binade_status first = BINADE_OK;
    bool is_read = true;
    for (size_t at = 0; at < piece_count && is_read;
         at += BINADEI_FRAME_PIECES) {
        size_t count = binadei_frame_pieces(piece_count, at);
        binade_status status = receive_frame(channel, out, count, &is_read);
        if (first != BINADE_OK || status == BINADE_OK)
            continue;
        first = status;
        /* There is room for those to come, which are dropped as well. */
        received_close(out, 0, out->count);
        out->count = 0;
    }
    if (first != BINADE_OK) {
        received_close(out, 0, out->count);
        out->count = 0;
    }
    return first;
}

static binade_status check_piece_sizes(const struct binadei_received *received)
{
    uint64_t left = received->handle.segment_bytes;
    for (size_t i = 0; i < received->count; i++) {
        if (!received->sizes[i] || received->sizes[i] > left)
            left = UINT64_MAX;
        else
            left -= received->sizes[i];
    }
    if (!received->count || !left)
        return BINADE_OK;
    return binadei_fail(BINADE_E_CORRUPT,
                        "the message's pieces are not together the %llu bytes "
                        "that its handle says",
                        (unsigned long long)received->handle.segment_bytes);
}

static binade_status receive_pieces(struct binadei_channel *channel,
                                    const struct binadei_wire_head *head,
                                    struct binadei_received *out)
{
    size_t piece_count = head->piece_count;
    if (!piece_count)
        return BINADE_OK;
    out->sizes = calloc(piece_count, sizeof(*out->sizes));
    if (is_fabric_head(head))
        out->fabrics = calloc(piece_count, sizeof(*out->fabrics));
    else
        out->descriptors = calloc(piece_count, sizeof(*out->descriptors));
    if (!out->sizes || (!out->descriptors && !out->fabrics))
        return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                            "no memory for what was sent");
    binade_status status = receive_frames(channel, piece_count, out);
    return status == BINADE_OK ? check_piece_sizes(out) : status;
}

binade_status binadei_channel_receive(int socket, struct binadei_received *out)
{
    struct binadei_channel channel;
    struct binadei_wire_head head;
    bool is_read;
    *out = (struct binadei_received){.count = 0};
    binade_status status = binadei_channel_init(socket, &channel);
    if (status == BINADE_OK)
        status = binadei_wire_receive(&channel, &head, sizeof(head), NULL, 0,
                                      &is_read);
    if (status == BINADE_OK)
        status = check_head(&head);
    if (status == BINADE_OK)
        status = check_handle(&head, &out->handle);
    if (status == BINADE_OK)
        status = receive_pieces(&channel, &head, out);
    if (status != BINADE_OK)
        binadei_received_fini(out);
    return status;
}

void binadei_received_fini(struct binadei_received *received)
{
    received_close(received, 0, received->count);
    free(received->sizes);
    free(received->descriptors);
    free(received->fabrics);
    *received = (struct binadei_received){.count = 0};
}
