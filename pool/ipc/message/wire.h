/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a message, and moving them: for channel.c and wire.c alone.
 */
#ifndef MOIETY_POOL_IPC_MESSAGE_WIRE_H_
#define MOIETY_POOL_IPC_MESSAGE_WIRE_H_

#include "pool/ipc/message/channel.h"

/* The content of frames: descriptors, or fabric handles. */
#define MOIETYI_WIRE_MAGIC UINT64_C(0x316572616873746d)        /* "mtshare1" */
#define MOIETYI_WIRE_MAGIC_FABRIC UINT64_C(0x316372626166746d) /* "mtfabrc1" */
#define MOIETYI_WIRE_VERSION UINT32_C(1)

/* No padding. */
struct moietyi_wire_head {
    uint64_t magic;
    uint32_t version;
    uint32_t head_bytes;
    uint64_t piece_count;
    moiety_ipc_handle handle;
    uint64_t checksum; /* of all above */
};

struct moietyi_wire_frame {
    uint64_t count;
    uint64_t sizes[MOIETYI_FRAME_PIECES]; /* 0 behind `count` */
    uint64_t checksum;                    /* of all above */
};

/* Behind a frame whose pieces have no descriptors. */
struct moietyi_wire_fabrics {
    CUmemFabricHandle handles[MOIETYI_FRAME_PIECES]; /* 0 behind the frame's */
    uint64_t checksum;                               /* of all above */
};

/* All of it, with the descriptors at its first byte. Waits for the peer, at most
 * ten seconds once a message is begun. */
MOIETY_MUST_USE moiety_status moietyi_wire_send(struct moietyi_channel *channel,
                                                const void *bytes,
                                                size_t size_bytes,
                                                const int *descriptors,
                                                size_t count);
/* All of it. `descriptors` has room for MOIETYI_FRAME_PIECES; MOIETY_E_CORRUPT if
 * there were not `count`: the bytes are read nevertheless. After any failure none
 * is open. */
MOIETY_MUST_USE moiety_status moietyi_wire_receive(
    struct moietyi_channel *channel, void *bytes, size_t size_bytes,
    int *descriptors, size_t count, bool *out_is_read);

#endif
