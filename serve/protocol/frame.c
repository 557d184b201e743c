/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "serve/protocol/frame.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "pool/base/failure.h"

_Static_assert(sizeof(struct moietyi_serve_region) ==
                   40 + MOIETYI_SERVE_PARTS * 32 + MOIETYI_SERVE_NAME_BYTES,
               "a region has no padding");
_Static_assert(sizeof(struct moietyi_serve_frame) ==
                   64 + sizeof(struct moietyi_serve_region) +
                       sizeof(uint32_t[MOIETYI_SERVE_PIDS]) +
                       MOIETYI_SERVE_MESSAGE_BYTES,
               "a frame has no padding");

union serve_control {
    char bytes[CMSG_SPACE(MOIETYI_SERVE_DESCRIPTORS_MOST * sizeof(int))];
    struct cmsghdr aligned;
};

static moiety_status frame_refuse(int error)
{
    char text[128];
    switch (error) {
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
        return moietyi_fail(MOIETY_E_PEER_GONE,
                            "the other end of the socket is closed");
    case EAGAIN:
        return moietyi_fail(MOIETY_E_WOULD_BLOCK, "the socket is not ready");
    case ETOOMANYREFS:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "the kernel has no memory, or no descriptors, for "
                            "a frame: %s",
                            strerror_r(error, text, sizeof(text)));
    default:
        return moietyi_fail(MOIETY_E_INVALID, "the socket refuses: %s",
                            strerror_r(error, text, sizeof(text)));
    }
}

void moietyi_serve_attach(struct msghdr *message, void *control,
                          const int *descriptors, size_t count)
{
    size_t size_bytes = count * sizeof(int);
    memset(control, 0, CMSG_SPACE(size_bytes));
    message->msg_control = control;
    message->msg_controllen = CMSG_SPACE(size_bytes);
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(size_bytes);
    memcpy(CMSG_DATA(header), descriptors, size_bytes);
}

moiety_status moietyi_serve_send(int socket, struct moietyi_serve_frame *frame,
                                 const int *descriptors, size_t count)
{
    union serve_control control;
    struct iovec part = {frame, sizeof(*frame)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t sent;
    frame->magic = MOIETYI_SERVE_MAGIC;
    frame->version = MOIETYI_SERVE_VERSION;
    frame->frame_bytes = (uint32_t)sizeof(*frame);
    frame->descriptor_count = (uint32_t)count;
    if (count)
        moietyi_serve_attach(&message, &control, descriptors, count);
    do
        sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? frame_refuse(errno) : MOIETY_OK;
}

static void frame_take(struct msghdr *message,
                       struct moietyi_serve_received *out)
{
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(&out->descriptors[out->count], CMSG_DATA(header),
               count * sizeof(int));
        out->count += count;
    }
}

static moiety_status frame_check(const struct moietyi_serve_received *received)
{
    const struct moietyi_serve_frame *frame = &received->frame;
    if (frame->magic != MOIETYI_SERVE_MAGIC)
        return moietyi_fail(MOIETY_E_CORRUPT, "a packet is no frame");
    if (frame->version != MOIETYI_SERVE_VERSION) {
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "the other end speaks version %u of the protocol; "
                            "this one speaks %u",
                            (unsigned)frame->version, MOIETYI_SERVE_VERSION);
    }
    if (frame->frame_bytes != sizeof(*frame) || !frame->kind ||
        frame->kind >= MOIETYI_SERVE_KIND_END || frame->is_writer > 1 ||
        frame->part >= MOIETYI_SERVE_PARTS ||
        frame->first >= MOIETYI_SERVE_HANDLES ||
        frame->region.part_count > MOIETYI_SERVE_PARTS ||
        frame->region.name[MOIETYI_SERVE_NAME_BYTES - 1] ||
        frame->message[MOIETYI_SERVE_MESSAGE_BYTES - 1])
        return moietyi_fail(MOIETY_E_CORRUPT,
                            "a frame has a value out of its range");
    if (received->count > MOIETYI_SERVE_DESCRIPTORS ||
        received->count != frame->descriptor_count) {
        return moietyi_fail(MOIETY_E_CORRUPT,
                            "%zu descriptors came with a frame that speaks of "
                            "%u; a frame has at most %u",
                            received->count, (unsigned)frame->descriptor_count,
                            MOIETYI_SERVE_DESCRIPTORS);
    }
    return MOIETY_OK;
}

moiety_status moietyi_serve_receive(int socket,
                                    struct moietyi_serve_received *out)
{
    union serve_control control;
    struct iovec part = {&out->frame, sizeof(out->frame)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    ssize_t got;
    out->count = 0;
    do
        got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return frame_refuse(errno);
    frame_take(&message, out);
    if (got == 0)
        return frame_refuse(EPIPE);
    if ((size_t)got != sizeof(out->frame) || message.msg_flags & MSG_TRUNC) {
        return moietyi_fail(MOIETY_E_CORRUPT,
                            "a packet does not have the %zu bytes of a frame",
                            sizeof(out->frame));
    }
    if (message.msg_flags & MSG_CTRUNC)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "the process can have no more file descriptors");
    return frame_check(out);
}

moiety_status moietyi_serve_check_name(const char *name)
{
    size_t length = strnlen(name, MOIETYI_SERVE_NAME_BYTES);
    if (length && length < MOIETYI_SERVE_NAME_BYTES &&
        !memchr(name, '/', length))
        return MOIETY_OK;
    return moietyi_fail(MOIETY_E_INVALID,
                        "a region's name has 1 to %u bytes, and no '/'",
                        MOIETYI_SERVE_NAME_BYTES - 1);
}

static bool is_part_sound(const struct moietyi_serve_part *part)
{
    return part->size_bytes && part->handle_bytes &&
           part->size_bytes % MOIETYI_SERVE_PAGE_BYTES == 0 &&
           part->handle_bytes % MOIETYI_SERVE_PAGE_BYTES == 0;
}

static bool has_twin(const struct moietyi_serve_region *region, uint32_t index)
{
    const struct moietyi_serve_part *part = &region->parts[index];
    for (uint32_t i = 0; i < index; i++)
        if (memcmp(region->parts[i].device_uuid, part->device_uuid,
                   sizeof(part->device_uuid)) == 0)
            return true;
    return false;
}

moiety_status
moietyi_serve_check_parts(const struct moietyi_serve_region *region,
                          uint64_t *out_bytes)
{
    uint64_t handle_count = 0;
    *out_bytes = 0;
    for (uint32_t i = 0; i < region->part_count; i++) {
        const struct moietyi_serve_part *part = &region->parts[i];
        if (!is_part_sound(part) || has_twin(region, i)) {
            return moietyi_fail(MOIETY_E_INVALID,
                                "part %u: each part has a device of its own, "
                                "and sizes that are multiples of 2 MiB",
                                (unsigned)i);
        }
        handle_count += moietyi_serve_handle_count(part);
        if (handle_count > MOIETYI_SERVE_HANDLES ||
            part->size_bytes > UINT64_MAX - *out_bytes) {
            return moietyi_fail(MOIETY_E_TOO_LARGE,
                                "a region has at most %u handles",
                                (unsigned)MOIETYI_SERVE_HANDLES);
        }
        *out_bytes += part->size_bytes;
    }
    if (*out_bytes)
        return MOIETY_OK;
    return moietyi_fail(MOIETY_E_INVALID, "a region has 1 to %u parts",
                        MOIETYI_SERVE_PARTS);
}

void moietyi_serve_close_all(const struct moietyi_serve_received *received)
{
    for (size_t i = 0; i < received->count; i++)
        (void)close(received->descriptors[i]);
}
