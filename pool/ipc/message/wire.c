/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Bytes and descriptors through a socket. The first byte of a message is
 * waited for as the socket says; behind it nothing may be left out, so it is
 * waited for whatever the socket says, but not for ever.
 */
#define _GNU_SOURCE
#include "pool/ipc/message/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "pool/base/failure.h"

#define STALL_MS 10000

/* Most that the kernel puts into one message; all are taken, so that all can be
 * closed. */
#define DESCRIPTORS_MOST 253U

union wire_control {
    char bytes[CMSG_SPACE(DESCRIPTORS_MOST * sizeof(int))];
    struct cmsghdr aligned;
};

moiety_status moietyi_channel_init(int socket, struct moietyi_channel *out)
{
    int domain = 0;
    int type = 0;
    socklen_t size = sizeof(domain);
    *out = (struct moietyi_channel){.socket = socket};
    if (getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0) {
        size = sizeof(type);
        (void)getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &size);
    }
    out->has_descriptors = domain == AF_UNIX;
    out->keeps_borders = type == SOCK_SEQPACKET;
    if (type == SOCK_STREAM || (type == SOCK_SEQPACKET && out->has_descriptors))
        return MOIETY_OK;
    return moietyi_fail(MOIETY_E_INVALID,
                        "descriptor %d is neither a socket of SOCK_STREAM nor "
                        "a UNIX one of SOCK_SEQPACKET",
                        socket);
}

static moiety_status wire_refuse(int error)
{
    char text[128];
    switch (error) {
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
        return moietyi_fail(MOIETY_E_PEER_GONE,
                            "the peer has closed its end of the socket, or is "
                            "out of reach");
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
    case ETOOMANYREFS:
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "the kernel has no memory, or no descriptors, for "
                            "a message: %s",
                            strerror_r(error, text, sizeof(text)));
    default:
        return moietyi_fail(MOIETY_E_INVALID, "the socket refuses: %s",
                            strerror_r(error, text, sizeof(text)));
    }
}

/* The kernel does not say which: the socket does not block, or its time limit is
 * over. */
static moiety_status wire_refuse_wait(int descriptor)
{
    int flags = fcntl(descriptor, F_GETFL);
    return flags >= 0 && !(flags & O_NONBLOCK)
               ? moietyi_fail(MOIETY_E_TIMEOUT,
                              "the time limit of the socket is over")
               : moietyi_fail(MOIETY_E_WOULD_BLOCK, "the socket is not ready");
}

/* Not ready: waits, unless nothing of the message is on its way. */
static moiety_status wire_await(const struct moietyi_channel *channel,
                                short events)
{
    struct pollfd one = {.fd = channel->socket, .events = events};
    if (!channel->is_begun)
        return wire_refuse_wait(channel->socket);
    int count = poll(&one, 1, STALL_MS);
    if (count > 0 || (count < 0 && errno == EINTR))
        return MOIETY_OK;
    return moietyi_fail(MOIETY_E_TIMEOUT,
                        "the peer has stopped in the middle of a message for "
                        "%d s",
                        STALL_MS / 1000);
}

static void wire_attach(struct msghdr *message, union wire_control *control,
                        const int *descriptors, size_t count)
{
    size_t size_bytes = count * sizeof(int);
    memset(control, 0, sizeof(*control));
    message->msg_control = control->bytes;
    message->msg_controllen = CMSG_SPACE(size_bytes);
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(size_bytes);
    memcpy(CMSG_DATA(header), descriptors, size_bytes);
}

moiety_status moietyi_wire_send(struct moietyi_channel *channel,
                                const void *bytes, size_t size_bytes,
                                const int *descriptors, size_t count)
{
    union wire_control control;
    size_t sent_bytes = 0;
    int flags = MSG_NOSIGNAL | (channel->has_more ? MSG_MORE : 0);
    while (sent_bytes < size_bytes) {
        struct iovec part = {(char *)(uintptr_t)bytes + sent_bytes,
                             size_bytes - sent_bytes};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        if (count && !sent_bytes)
            wire_attach(&message, &control, descriptors, count);
        ssize_t got = sendmsg(channel->socket, &message,
                              flags | (channel->is_begun ? MSG_DONTWAIT : 0));
        moiety_status status = MOIETY_OK;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            status = wire_await(channel, POLLOUT);
        else if (got < 0 && errno != EINTR)
            status = wire_refuse(errno);
        if (status != MOIETY_OK)
            return status;
        sent_bytes += got > 0 ? (size_t)got : 0;
        channel->is_begun |= got > 0;
    }
    return MOIETY_OK;
}

static void wire_close(const int *descriptors, size_t count)
{
    for (size_t i = 0; i < count; i++)
        (void)close(descriptors[i]);
}

/* Descriptors that came, of which only so many are wanted. */
struct wire_taken {
    int *descriptors;
    size_t wanted;
    size_t count;
    bool is_too_much; /* there were more: closed */
    bool is_cut;      /* the kernel had no room for all */
};

static void wire_take(struct msghdr *message, struct wire_taken *taken)
{
    taken->is_cut |= (message->msg_flags & MSG_CTRUNC) != 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int descriptor;
            memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int),
                   sizeof(descriptor));
            if (taken->count < taken->wanted) {
                taken->descriptors[taken->count++] = descriptor;
            } else {
                taken->is_too_much = true;
                (void)close(descriptor);
            }
        }
    }
}

static moiety_status wire_judge(const struct wire_taken *taken)
{
    if (taken->is_too_much) {
        return moietyi_fail(MOIETY_E_CORRUPT,
                            "more than the %zu descriptors came that the "
                            "message speaks of",
                            taken->wanted);
    }
    if (taken->count == taken->wanted)
        return MOIETY_OK;
    if (taken->is_cut)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "this process can have no more file descriptors");
    return moietyi_fail(MOIETY_E_CORRUPT,
                        "%zu descriptors came of the %zu that the message "
                        "speaks of",
                        taken->count, taken->wanted);
}

/* One look: how much came, or 0 and nothing. */
static moiety_status wire_read(struct moietyi_channel *channel, void *bytes,
                               size_t size_bytes, struct wire_taken *taken,
                               size_t *out_bytes)
{
    union wire_control control;
    struct iovec part = {bytes, size_bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    *out_bytes = 0;
    ssize_t got =
        recvmsg(channel->socket, &message,
                MSG_CMSG_CLOEXEC | (channel->is_begun ? MSG_DONTWAIT : 0));
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return wire_await(channel, POLLIN);
    if (got < 0)
        return errno == EINTR ? MOIETY_OK : wire_refuse(errno);
    wire_take(&message, taken);
    if (got == 0)
        return moietyi_fail(
            MOIETY_E_PEER_GONE, "the peer has closed its end of the socket%s",
            channel->is_begun ? " in the middle of a message" : "");
    channel->is_begun = true;
    *out_bytes = (size_t)got;
    if (channel->keeps_borders &&
        ((size_t)got != size_bytes || message.msg_flags & MSG_TRUNC))
        return moietyi_fail(MOIETY_E_CORRUPT,
                            "a packet has not the %zu bytes of a message",
                            size_bytes);
    return MOIETY_OK;
}

moiety_status moietyi_wire_receive(struct moietyi_channel *channel, void *bytes,
                                   size_t size_bytes, int *descriptors,
                                   size_t count, bool *out_is_read)
{
    struct wire_taken taken = {.wanted = count};
    taken.descriptors = descriptors;
    moiety_status status = MOIETY_OK;
    size_t read_bytes = 0;
    while (status == MOIETY_OK && read_bytes < size_bytes) {
        size_t got;
        status = wire_read(channel, (char *)bytes + read_bytes,
                           size_bytes - read_bytes, &taken, &got);
        read_bytes += got;
    }
    *out_is_read = status == MOIETY_OK;
    if (status == MOIETY_OK)
        status = wire_judge(&taken);
    if (status != MOIETY_OK)
        wire_close(taken.descriptors, taken.count);
    return status;
}
