/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Frames between a keeper and its clients. Every frame has one size and is one
 * packet of a SOCK_SEQPACKET socket, so that no frame is ever half there. A
 * client sends one request, and reads the reply before it sends the next. The
 * client acknowledges a reply that carries descriptors.
 */
#ifndef MOIETY_SERVE_PROTOCOL_FRAME_H_
#define MOIETY_SERVE_PROTOCOL_FRAME_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "moiety/status.h"

#define MOIETYI_SERVE_MAGIC UINT32_C(0x706b796d)
#define MOIETYI_SERVE_VERSION 1U

/* Descriptors of a frame. */
#define MOIETYI_SERVE_DESCRIPTORS 128U
/* Most that the kernel puts into one message. */
#define MOIETYI_SERVE_DESCRIPTORS_MOST 253U
#define MOIETYI_SERVE_PARTS 16U
#define MOIETYI_SERVE_PIDS 16U
/* Of all parts of a region. */
#define MOIETYI_SERVE_HANDLES ((uint64_t)4096)
/* Of a name, its final 0 included. */
#define MOIETYI_SERVE_NAME_BYTES 256U
#define MOIETYI_SERVE_MESSAGE_BYTES 256U
#define MOIETYI_SERVE_TOKEN_BYTES 16U
#define MOIETYI_SERVE_LAYOUT_BYTES ((uint64_t)1 << 20)
/* Of every user that a namespace does not know. */
#define MOIETYI_SERVE_OVERFLOW_UID 65534U
/* Sizes of parts and handles are multiples of it. */
#define MOIETYI_SERVE_PAGE_BYTES ((uint64_t)2 << 20)

/* Requests. A reply has the kind and the sequence number of its request. */
enum moietyi_serve_kind {
    MOIETYI_SERVE_HELLO = 1,
    MOIETYI_SERVE_CREATE,       /* token, name, parts */
    MOIETYI_SERVE_PUT,          /* token, part, first; descriptors */
    MOIETYI_SERVE_COMMIT,       /* token, generation; a layout or none */
    MOIETYI_SERVE_OPEN,         /* token, name, is_writer */
    MOIETYI_SERVE_FETCH,        /* token, part, first; replies descriptors */
    MOIETYI_SERVE_FETCH_LAYOUT, /* token; replies one or none */
    MOIETYI_SERVE_CLOSE,        /* token, is_writer: it wrote nothing */
    MOIETYI_SERVE_DROP,         /* name */
    MOIETYI_SERVE_DRAIN,        /* replies a count in `cursor` */
    MOIETYI_SERVE_LIST,         /* cursor: the region before */
    MOIETYI_SERVE_REPORT,       /* token: its memory cannot be mapped */
    MOIETYI_SERVE_ACKNOWLEDGE,  /* gets no reply */
    MOIETYI_SERVE_KIND_END
};

struct moietyi_serve_part {
    uint8_t device_uuid[16];
    uint64_t size_bytes;
    uint64_t handle_bytes; /* of each handle but the last */
};

/* A region, on the wire and in the vault. */
struct moietyi_serve_region {
    uint64_t number;     /* never used again by this keeper; 0: none */
    uint64_t generation; /* commits so far */
    uint64_t layout_bytes;
    uint32_t state; /* moiety_region_state */
    uint32_t part_count;
    uint32_t hold_count; /* processes' leases; on the wire alone */
    uint32_t writer_pid; /* 0: nobody writes; on the wire alone */
    struct moietyi_serve_part parts[MOIETYI_SERVE_PARTS];
    char name[MOIETYI_SERVE_NAME_BYTES];
};

struct moietyi_serve_frame {
    uint32_t magic;
    uint16_t version;
    uint16_t kind;
    uint32_t frame_bytes;
    uint32_t descriptor_count;
    uint64_t sequence;
    int32_t status; /* moiety_status, of a reply */
    uint32_t is_writer;
    uint8_t token[MOIETYI_SERVE_TOKEN_BYTES]; /* of a lease, by its client */
    uint32_t part;
    uint32_t first; /* handle of the part */
    uint64_t cursor;
    struct moietyi_serve_region region;
    uint32_t hold_pids[MOIETYI_SERVE_PIDS]; /* of a listed region; 0: no more */
    char message[MOIETYI_SERVE_MESSAGE_BYTES];
};

/* Descriptors that came belong to the caller, whatever the status is. */
struct moietyi_serve_received {
    struct moietyi_serve_frame frame;
    size_t count;
    int descriptors[MOIETYI_SERVE_DESCRIPTORS_MOST];
};

/* Handles of a part, whose sizes are sound. */
static inline uint64_t
moietyi_serve_handle_count(const struct moietyi_serve_part *part)
{
    return (part->size_bytes - 1) / part->handle_bytes + 1;
}

static inline uint64_t
moietyi_serve_handle_bytes(const struct moietyi_serve_part *part,
                           uint64_t index)
{
    uint64_t left = part->size_bytes - index * part->handle_bytes;
    return left < part->handle_bytes ? left : part->handle_bytes;
}

/* Puts descriptors into a message; `control` is aligned as a cmsghdr, and has
 * CMSG_SPACE() of them. */
void moietyi_serve_attach(struct msghdr *message, void *control,
                          const int *descriptors, size_t count);
/* Fills the head, and sends the frame with its descriptors. MOIETY_OK,
 * MOIETY_E_PEER_GONE, MOIETY_E_WOULD_BLOCK: the socket is full, or its time is
 * over; MOIETY_E_NO_HOST_MEMORY: the kernel lets no more descriptors fly. */
MOIETY_MUST_USE moiety_status
moietyi_serve_send(int socket, struct moietyi_serve_frame *frame,
                   const int *descriptors, size_t count);

/* Takes the next frame. MOIETY_OK, MOIETY_E_PEER_GONE, MOIETY_E_WOULD_BLOCK;
 * MOIETY_E_NO_HOST_MEMORY: not all descriptors fit into this process;
 * MOIETY_E_UNSUPPORTED: another version; MOIETY_E_CORRUPT: no frame. */
MOIETY_MUST_USE moiety_status
moietyi_serve_receive(int socket, struct moietyi_serve_received *out);

/* Whether a name has 1 to 255 bytes and no '/': MOIETY_OK or
 * MOIETY_E_INVALID. Reads at most MOIETYI_SERVE_NAME_BYTES. */
MOIETY_MUST_USE moiety_status moietyi_serve_check_name(const char *name);

/* Whether the parts have sizes that a region can have: MOIETY_OK,
 * MOIETY_E_INVALID or MOIETY_E_TOO_LARGE. `*out_bytes` is their sum. */
MOIETY_MUST_USE moiety_status moietyi_serve_check_parts(
    const struct moietyi_serve_region *region, uint64_t *out_bytes);

void moietyi_serve_close_all(const struct moietyi_serve_received *received);

#endif
