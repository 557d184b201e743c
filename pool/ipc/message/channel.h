/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The message that carries a block through a socket: a head with the block's
 * handle, and of mapped memory frames with the lengths of its pieces and their
 * file descriptors. A socket that carries none, as to another machine, has fabric
 * handles instead. Bytes and descriptors alone; the driver is called elsewhere.
 */
#ifndef MOIETY_POOL_IPC_MESSAGE_CHANNEL_H_
#define MOIETY_POOL_IPC_MESSAGE_CHANNEL_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "moiety/ipc.h"
#include "pool/driver/cuda_abi.h"

/* Pieces of a frame; the kernel takes 253 descriptors in one. */
#define MOIETYI_FRAME_PIECES 128U

struct moietyi_channel {
    int socket;
    bool has_descriptors; /* AF_UNIX */
    bool keeps_borders;   /* SOCK_SEQPACKET */
    bool is_begun;        /* a message is: it must be brought to its end */
    bool has_more;        /* the next part is sent at once: TCP need not send
                             this one by itself, and wait for its receipt */
};

/* Pieces of the frame that begins with the piece `at`. */
static inline size_t moietyi_frame_pieces(size_t piece_count, size_t at)
{
    return piece_count - at < MOIETYI_FRAME_PIECES ? piece_count - at
                                                   : MOIETYI_FRAME_PIECES;
}

/* MOIETY_OK, or MOIETY_E_INVALID: no socket of a kind that keeps order. */
MOIETY_MUST_USE moiety_status moietyi_channel_init(int socket,
                                                   struct moietyi_channel *out);
/* The statuses of both: moiety_ipc_send(). */
MOIETY_MUST_USE moiety_status
moietyi_channel_send_head(struct moietyi_channel *channel,
                          const moiety_ipc_handle *handle, size_t piece_count);
/* `count` is MOIETYI_FRAME_PIECES, or for the last what is left. */
MOIETY_MUST_USE moiety_status moietyi_channel_send_frame(
    struct moietyi_channel *channel, const uint64_t *sizes,
    const int *descriptors, size_t count);
/* The same where the channel carries no descriptors. */
MOIETY_MUST_USE moiety_status moietyi_channel_send_fabrics(
    struct moietyi_channel *channel, const uint64_t *sizes,
    const CUmemFabricHandle *fabrics, size_t count);

/* Descriptors or fabric handles; the other is NULL. */
struct moietyi_received {
    moiety_ipc_handle handle; /* sound in itself */
    size_t count;             /* of pieces; 0: the memory is not mapped */
    uint64_t *sizes;          /* their sum is the handle's segment_bytes */
    int *descriptors;
    CUmemFabricHandle *fabrics;
};

/* Statuses of moiety_ipc_receive(); after a failure no descriptor is left. */
MOIETY_MUST_USE moiety_status
moietyi_channel_receive(int socket, struct moietyi_received *out);
/* Closes all descriptors. */
void moietyi_received_fini(struct moietyi_received *received);

#endif
