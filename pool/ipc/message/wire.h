/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a message, and moving them: for channel.c and wire.c alone.
 */
#ifndef BINADE_POOL_IPC_MESSAGE_WIRE_H_
#define BINADE_POOL_IPC_MESSAGE_WIRE_H_

#include "pool/ipc/message/channel.h"

/* What the frames carry: descriptors, or fabric handles. */
#define BINADEI_WIRE_MAGIC UINT64_C(0x3165726168736e62)        /* "bnshare1" */
#define BINADEI_WIRE_MAGIC_FABRIC UINT64_C(0x3163726261666e62) /* "bnfabrc1" */
#define BINADEI_WIRE_VERSION UINT32_C(1)

/* No padding. */
struct binadei_wire_head {
    uint64_t magic;
    uint32_t version;
    uint32_t head_bytes;
    uint64_t piece_count;
    binade_ipc_handle handle;
    uint64_t checksum; /* of all above */
};

struct binadei_wire_frame {
    uint64_t count;
    uint64_t sizes[BINADEI_FRAME_PIECES]; /* 0 behind `count` */
    uint64_t checksum;                    /* of all above */
};

/* Behind a frame whose pieces have no descriptors. */
struct binadei_wire_fabrics {
    CUmemFabricHandle handles[BINADEI_FRAME_PIECES]; /* 0 behind the frame's */
    uint64_t checksum;                               /* of all above */
};

/* All of it, with the descriptors at its first byte. Waits for the peer, at most
 * ten seconds once a message is begun. */
BINADE_MUST_USE binade_status binadei_wire_send(struct binadei_channel *channel,
                                                const void *bytes,
                                                size_t size_bytes,
                                                const int *descriptors,
                                                size_t count);
/* All of it. `descriptors` has room for BINADEI_FRAME_PIECES; BINADE_E_CORRUPT if
 * there were not `count`: the bytes are read nevertheless. After any failure none
 * is open. */
BINADE_MUST_USE binade_status binadei_wire_receive(
    struct binadei_channel *channel, void *bytes, size_t size_bytes,
    int *descriptors, size_t count, bool *out_is_read);

#endif
