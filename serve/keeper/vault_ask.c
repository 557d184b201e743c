/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The child's side of the vault, and the messages of both.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "pool/base/failure.h"
#include "serve/keeper/vault_message.h"

union vault_control {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr aligned;
};

bool moietyi_vault_send(int socket, const struct vault_message *message,
                        int descriptor)
{
    union vault_control control;
    struct iovec part = {(void *)(uintptr_t)message, sizeof(*message)};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t sent;
    if (descriptor >= 0)
        moietyi_serve_attach(&header, &control, &descriptor, 1);
    do
        sent = sendmsg(socket, &header, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof(*message);
}

bool moietyi_vault_receive(int socket, struct vault_message *out,
                           int *out_descriptor, bool *out_is_cut)
{
    union vault_control control;
    struct iovec part = {out, sizeof(*out)};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof(control.bytes)};
    ssize_t got;
    *out_descriptor = -1;
    do
        got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof(*out))
        return false;
    *out_is_cut = (header.msg_flags & MSG_CTRUNC) != 0;
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    if (rights && rights->cmsg_type == SCM_RIGHTS)
        memcpy(out_descriptor, CMSG_DATA(rights), sizeof(int));
    return true;
}

/* Asks, and waits for the answer, which replaces the question. */
static moiety_status vault_ask(int vault, struct vault_message *message,
                               int descriptor, int *out_descriptor)
{
    bool is_cut = false;
    if (!moietyi_vault_send(vault, message, descriptor)) {
        return errno == ETOOMANYREFS || errno == ENOMEM || errno == ENOBUFS
                   ? moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                                  "the kernel has no room for a message")
                   : moietyi_fail(MOIETY_E_PEER_GONE,
                                  "the keeper has lost its vault, and keeps "
                                  "nothing new");
    }
    if (!moietyi_vault_receive(vault, message, out_descriptor, &is_cut))
        return moietyi_fail(MOIETY_E_PEER_GONE,
                            "the keeper has lost its vault, and keeps nothing "
                            "new");
    if (message->status == MOIETY_E_NO_HOST_MEMORY || is_cut)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "the keeper has no memory or no descriptors left");
    return (moiety_status)message->status;
}

moiety_status moietyi_vault_put(int vault, const struct moietyi_record *record,
                                int descriptor)
{
    struct vault_message message = {.verb = VAULT_PUT, .record = *record};
    int none;
    return vault_ask(vault, &message, descriptor, &none);
}

void moietyi_vault_drop(int vault, uint64_t number)
{
    struct vault_message message = {.verb = VAULT_DROP,
                                    .record = {.number = number}};
    int none;
    if (vault_ask(vault, &message, -1, &none) != MOIETY_OK)
        return;
}

moiety_status moietyi_vault_next(int vault, uint64_t after,
                                 struct moietyi_record *out,
                                 int *out_descriptor)
{
    struct vault_message message = {.verb = VAULT_NEXT,
                                    .record = {.number = after}};
    moiety_status status = vault_ask(vault, &message, -1, out_descriptor);
    *out = message.record;
    return status;
}
