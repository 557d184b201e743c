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

_Static_assert(sizeof(struct moietyi_wire_fabrics) % sizeof(uint64_t) == 0,
               "its checksum is of whole words");
_Static_assert(sizeof(struct moietyi_wire_head) ==
                   4 * sizeof(uint64_t) + sizeof(moiety_ipc_handle),
               "a head has no padding");

moiety_status moietyi_channel_send_head(struct moietyi_channel *channel,
                                        const moiety_ipc_handle *handle,
                                        size_t piece_count)
{
    bool is_fabric = piece_count && !channel->has_descriptors;
    struct moietyi_wire_head head = {
        .magic = is_fabric ? MOIETYI_WIRE_MAGIC_FABRIC : MOIETYI_WIRE_MAGIC,
        .version = MOIETYI_WIRE_VERSION,
        .head_bytes = sizeof(head),
        .piece_count = piece_count,
        .handle = *handle};
    head.checksum =
        moietyi_checksum(&head, offsetof(struct moietyi_wire_head, checksum));
    channel->has_more = is_fabric;
    return moietyi_wire_send(channel, &head, sizeof(head), NULL, 0);
}

moiety_status moietyi_channel_send_frame(struct moietyi_channel *channel,
                                         const uint64_t *sizes,
                                         const int *descriptors, size_t count)
{
    struct moietyi_wire_frame frame = {.count = count};
    memcpy(frame.sizes, sizes, count * sizeof(*sizes));
    frame.checksum =
        moietyi_checksum(&frame, offsetof(struct moietyi_wire_frame, checksum));
    return moietyi_wire_send(channel, &frame, sizeof(frame), descriptors,
                             descriptors ? count : 0);
}

moiety_status moietyi_channel_send_fabrics(struct moietyi_channel *channel,
                                           const uint64_t *sizes,
                                           const CUmemFabricHandle *fabrics,
                                           size_t count)
{
    struct moietyi_wire_fabrics part = {.checksum = 0};
    channel->has_more = true;
    moiety_status status =
        moietyi_channel_send_frame(channel, sizes, NULL, count);
    channel->has_more = false;
    if (status != MOIETY_OK)
        return status;
    memcpy(part.handles, fabrics, count * sizeof(*fabrics));
    part.checksum = moietyi_checksum(
        &part, offsetof(struct moietyi_wire_fabrics, checksum));
    return moietyi_wire_send(channel, &part, sizeof(part), NULL, 0);
}

static bool is_fabric_head(const struct moietyi_wire_head *head)
{
    return head->magic == MOIETYI_WIRE_MAGIC_FABRIC;
}

static moiety_status check_head(const struct moietyi_wire_head *head)
{
    if (head->magic != MOIETYI_WIRE_MAGIC && !is_fabric_head(head))
        return moietyi_fail(MOIETY_E_CORRUPT,
                            "what came is no message of moiety_ipc_send()");
    if (head->version != MOIETYI_WIRE_VERSION) {
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "the message has version %u; this library reads %u",
                            (unsigned)head->version,
                            (unsigned)MOIETYI_WIRE_VERSION);
    }
    if (head->head_bytes != sizeof(*head) || head->piece_count > PIECES_MOST ||
        head->checksum !=
            moietyi_checksum(head,
                             offsetof(struct moietyi_wire_head, checksum)))
        return moietyi_fail(MOIETY_E_CORRUPT,
                            "the message's bytes are not as they were made");
    return MOIETY_OK;
}

/* Whether head and handle agree. */
static moiety_status check_handle(const struct moietyi_wire_head *head,
                                  moiety_ipc_handle *out)
{
    moiety_status status =
        moietyi_handle_read(&head->handle, sizeof(head->handle), out);
    if (status != MOIETY_OK)
        return status;
    const struct moietyi_run_name name = moietyi_run_name_of(out);
    bool is_mapped = out->kind == MOIETY_IPC_MAPPED;
    if (is_mapped ? name.sum && head->piece_count &&
                        name.piece_count == head->piece_count
                  : head->piece_count == 0 && !is_fabric_head(head))
        return MOIETY_OK;
    return moietyi_fail(MOIETY_E_CORRUPT,
                        "the message has %llu pieces, its handle another "
                        "number",
                        (unsigned long long)head->piece_count);
}

static moiety_status check_frame(const struct moietyi_wire_frame *frame,
                                 size_t count)
{
    if (frame->count == count &&
        frame->checksum ==
            moietyi_checksum(frame,
                             offsetof(struct moietyi_wire_frame, checksum)))
        return MOIETY_OK;
    return moietyi_fail(MOIETY_E_CORRUPT,
                        "the bytes of a part of the message are not as they "
                        "were made");
}

/* Those from `first` on. */
static void received_close(const struct moietyi_received *received,
                           size_t first, size_t count)
{
    for (size_t i = first; received->descriptors && i < first + count; i++)
        (void)close(received->descriptors[i]);
}

static moiety_status receive_fabrics(struct moietyi_channel *channel,
                                     struct moietyi_received *out, size_t count,
                                     bool *out_is_read)
{
    struct moietyi_wire_fabrics part;
    moiety_status status = moietyi_wire_receive(channel, &part, sizeof(part),
                                                NULL, 0, out_is_read);
    if (status != MOIETY_OK)
        return status;
    if (part.checksum !=
        moietyi_checksum(&part,
                         offsetof(struct moietyi_wire_fabrics, checksum)))
        return moietyi_fail(MOIETY_E_CORRUPT,
                            "the fabric handles of the message are not as they "
                            "were made");
    memcpy(&out->fabrics[out->count], part.handles,
           count * sizeof(part.handles[0]));
    return MOIETY_OK;
}

/* One frame, into `out` behind what is there. False in `*out_is_read`: the place
 * of the next is not known. */
static moiety_status receive_frame(struct moietyi_channel *channel,
                                   struct moietyi_received *out, size_t count,
                                   bool *out_is_read)
{
    struct moietyi_wire_frame frame;
    bool is_fabric = out->fabrics != NULL;
    moiety_status status =
        moietyi_wire_receive(channel, &frame, sizeof(frame),
                             is_fabric ? NULL : &out->descriptors[out->count],
                             is_fabric ? 0 : count, out_is_read);
    if (is_fabric && *out_is_read) {
        /* Both parts are read, whichever is wrong. */
        moiety_status second =
            receive_fabrics(channel, out, count, out_is_read);
        status = status == MOIETY_OK ? second : status;
    }
    if (status != MOIETY_OK)
        return status;
    status = check_frame(&frame, count);
    if (status != MOIETY_OK) {
        received_close(out, out->count, count);
        return status;
    }
    memcpy(&out->sizes[out->count], frame.sizes,
           count * sizeof(frame.sizes[0]));
    out->count += count;
    return MOIETY_OK;
}

/* Reads all frames; the first failure counts. The rest of a refused message
 * ends with its descriptors. */
static moiety_status receive_frames(struct moietyi_channel *channel,
                                    size_t piece_count,
                                    struct moietyi_received *out)
{
    moiety_status first = MOIETY_OK;
    bool is_read = true;
    for (size_t at = 0; at < piece_count && is_read;
         at += MOIETYI_FRAME_PIECES) {
        size_t count = moietyi_frame_pieces(piece_count, at);
        moiety_status status = receive_frame(channel, out, count, &is_read);
        if (first != MOIETY_OK || status == MOIETY_OK)
            continue;
        first = status;
        /* There is room for those to come, which are dropped as well. */
        received_close(out, 0, out->count);
        out->count = 0;
    }
    if (first != MOIETY_OK) {
        received_close(out, 0, out->count);
        out->count = 0;
    }
    return first;
}

static moiety_status check_piece_sizes(const struct moietyi_received *received)
{
    uint64_t left = received->handle.segment_bytes;
    for (size_t i = 0; i < received->count; i++) {
        if (!received->sizes[i] || received->sizes[i] > left)
            left = UINT64_MAX;
        else
            left -= received->sizes[i];
    }
    if (!received->count || !left)
        return MOIETY_OK;
    return moietyi_fail(MOIETY_E_CORRUPT,
                        "the message's pieces are not together the %llu bytes "
                        "that its handle says",
                        (unsigned long long)received->handle.segment_bytes);
}

static moiety_status receive_pieces(struct moietyi_channel *channel,
                                    const struct moietyi_wire_head *head,
                                    struct moietyi_received *out)
{
    size_t piece_count = head->piece_count;
    if (!piece_count)
        return MOIETY_OK;
    out->sizes = calloc(piece_count, sizeof(*out->sizes));
    if (is_fabric_head(head))
        out->fabrics = calloc(piece_count, sizeof(*out->fabrics));
    else
        out->descriptors = calloc(piece_count, sizeof(*out->descriptors));
    if (!out->sizes || (!out->descriptors && !out->fabrics))
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory for what was sent");
    moiety_status status = receive_frames(channel, piece_count, out);
    return status == MOIETY_OK ? check_piece_sizes(out) : status;
}

moiety_status moietyi_channel_receive(int socket, struct moietyi_received *out)
{
    struct moietyi_channel channel;
    struct moietyi_wire_head head;
    bool is_read;
    *out = (struct moietyi_received){.count = 0};
    moiety_status status = moietyi_channel_init(socket, &channel);
    if (status == MOIETY_OK)
        status = moietyi_wire_receive(&channel, &head, sizeof(head), NULL, 0,
                                      &is_read);
    if (status == MOIETY_OK)
        status = check_head(&head);
    if (status == MOIETY_OK)
        status = check_handle(&head, &out->handle);
    if (status == MOIETY_OK)
        status = receive_pieces(&channel, &head, out);
    if (status != MOIETY_OK)
        moietyi_received_fini(out);
    return status;
}

void moietyi_received_fini(struct moietyi_received *received)
{
    received_close(received, 0, received->count);
    free(received->sizes);
    free(received->descriptors);
    free(received->fabrics);
    *received = (struct moietyi_received){.count = 0};
}
