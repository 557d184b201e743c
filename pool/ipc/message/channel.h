/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The message that carries a block through a socket: a head with the block's
 * handle, and of mapped memory frames with the lengths of its pieces and their
 * file descriptors. A socket that carries none, as to another machine, has fabric
 * handles instead. Bytes and descriptors alone; the driver is called elsewhere.
 */
#ifndef BINADE_POOL_IPC_MESSAGE_CHANNEL_H_
#define BINADE_POOL_IPC_MESSAGE_CHANNEL_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "binade/ipc.h"
#include "pool/driver/cuda_abi.h"

/* Pieces of a frame; the kernel takes 253 descriptors in one. */
#define BINADEI_FRAME_PIECES 128U

struct binadei_channel {
    int socket;
    bool has_descriptors; /* AF_UNIX */
    bool keeps_borders;   /* SOCK_SEQPACKET */
    bool is_begun;        /* a message is: it must be brought to its end */
    bool has_more;        /* the next part is sent at once: TCP need not send
                             this one by itself, and wait for its receipt */
};

/* Pieces of the frame that begins with the piece `at`. */
static inline size_t binadei_frame_pieces(size_t piece_count, size_t at)
{
    return piece_count - at < BINADEI_FRAME_PIECES ? piece_count - at
                                                   : BINADEI_FRAME_PIECES;
}

/* BINADE_OK, or BINADE_E_INVALID: no socket of a kind that keeps order. */
BINADE_MUST_USE binade_status binadei_channel_init(int socket,
                                                   struct binadei_channel *out);
/* The statuses of both: binade_ipc_send(). */
BINADE_MUST_USE binade_status
binadei_channel_send_head(struct binadei_channel *channel,
                          const binade_ipc_handle *handle, size_t piece_count);
/* `count` is BINADEI_FRAME_PIECES, or for the last what is left. */
BINADE_MUST_USE binade_status binadei_channel_send_frame(
    struct binadei_channel *channel, const uint64_t *sizes,
    const int *descriptors, size_t count);
/* The same where the channel carries no descriptors. */
BINADE_MUST_USE binade_status binadei_channel_send_fabrics(
    struct binadei_channel *channel, const uint64_t *sizes,
    const CUmemFabricHandle *fabrics, size_t count);

/* What came: descriptors or fabric handles; the other is NULL. */
struct binadei_received {
    binade_ipc_handle handle; /* sound in itself */
    size_t count;             /* of pieces; 0: the memory is not mapped */
    uint64_t *sizes;          /* their sum is the handle's segment_bytes */
    int *descriptors;
    CUmemFabricHandle *fabrics;
};

/* Statuses of binade_ipc_receive(); after a failure no descriptor is left. */
BINADE_MUST_USE binade_status
binadei_channel_receive(int socket, struct binadei_received *out);
/* Closes all descriptors. */
void binadei_received_fini(struct binadei_received *received);

#endif
