/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Clients' sockets. A client that breaks the protocol, or that does not read, is
 * cut off; its leases stay until its process ends.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "serve/keeper/keeper.h"

#define ACKNOWLEDGE_NS UINT64_C(5000000000)
#define MS_NS UINT64_C(1000000)
#define NAP_NS 10000000L
/* How long accepting pauses when there are no descriptors. */
#define PAUSE_NS UINT64_C(100000000)

/* A packet that was not read may bring memory: then the closer ends the socket. */
static void client_end_socket(struct moietyi_keeper *keeper, int socket)
{
    char one;
    (void)shutdown(socket, SHUT_RDWR);
    if (recv(socket, &one, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
        (void)close(socket);
    else
        moietyi_closer_push(&keeper->closer, socket, 0);
}

static void client_cut(struct moietyi_keeper *keeper,
                       struct moietyi_client *client)
{
    struct moietyi_client **at = &keeper->clients;
    while (*at != client)
        at = &(*at)->next;
    *at = client->next;
    for (struct moietyi_hold *hold = keeper->holds; hold; hold = hold->next)
        if (hold->client == client)
            hold->client = NULL;
    keeper->client_count--;
    moietyi_keeper_unwatch(keeper, client->socket);
    client_end_socket(keeper, client->socket);
    (void)close(client->pidfd);
    free(client);
}

/* Says why before the socket is closed. */
static void client_refuse(int socket, moiety_status status)
{
    struct moietyi_serve_frame frame = {.kind = MOIETYI_SERVE_HELLO,
                                        .status = (int32_t)status};
    (void)snprintf(frame.message, sizeof(frame.message), "%.*s",
                   (int)MOIETYI_SERVE_MESSAGE_BYTES - 1,
                   moietyi_failure_message());
    if (moietyi_serve_send(socket, &frame, NULL, 0) != MOIETY_OK)
        return; /* it does not read, or is gone */
}

static moiety_status client_add(struct moietyi_keeper *keeper, int socket)
{
    struct moietyi_client client = {.kind = MOIETYI_SOURCE_CLIENT,
                                    .socket = socket,
                                    .pidfd = -1,
                                    .next = keeper->clients};
    /* Each has two descriptors; the other half is for regions. */
    if (keeper->client_count >= (uint32_t)keeper->descriptors / 4) {
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "the keeper has %u clients, and descriptors for no "
                            "more",
                            (unsigned)keeper->client_count);
    }
    moiety_status status =
        moietyi_socket_peer(socket, &client.pid, &client.pidfd);
    if (status != MOIETY_OK)
        return status;
    struct moietyi_client *added = malloc(sizeof(*added));
    if (added && moietyi_keeper_watch(keeper, socket, added)) {
        *added = client;
        keeper->clients = added;
        keeper->client_count++;
        return MOIETY_OK;
    }
    free(added);
    (void)close(client.pidfd);
    return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                        "the keeper has no memory left");
}

/* While a device hangs nothing can be closed, so no more is taken. */
static bool client_has_room(struct moietyi_keeper *keeper)
{
    if (moietyi_closer_room(&keeper->closer) > MOIETYI_SERVE_DESCRIPTORS_MOST)
        return true;
    moietyi_nap(NAP_NS);
    return false;
}

void moietyi_keeper_accept(struct moietyi_keeper *keeper)
{
    if (!client_has_room(keeper))
        return;
    int socket =
        accept4(keeper->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
            errno == ENOBUFS) {
            moietyi_keeper_unwatch(keeper, keeper->listener);
            keeper->resume_ns = moietyi_now_ns() + PAUSE_NS;
        }
        return;
    }
    moiety_status status = client_add(keeper, socket);
    if (status == MOIETY_OK)
        return;
    client_refuse(socket, status);
    client_end_socket(keeper, socket);
}

/* False: the client is to be cut off. */
static bool client_reply(struct moietyi_keeper *keeper,
                         struct moietyi_client *client,
                         struct moietyi_serve_received *received)
{
    struct moietyi_lent lent;
    moietyi_keeper_answer(keeper, client, received, &lent);
    moiety_status status = moietyi_serve_send(client->socket, &received->frame,
                                              lent.descriptors, lent.count);
    if (status == MOIETY_E_NO_HOST_MEMORY && lent.count) {
        client_refuse(client->socket, status);
        return true;
    }
    if (status == MOIETY_OK && lent.count)
        client->deadline_ns = moietyi_now_ns() + ACKNOWLEDGE_NS;
    return status == MOIETY_OK;
}

/* Its requests are ignored then. Otherwise a region that the process asked to write
 * would go with it. */
static bool client_has_ended(const struct moietyi_client *client)
{
    struct pollfd end = {.fd = client->pidfd, .events = POLLIN};
    return poll(&end, 1, 0) > 0;
}

void moietyi_client_read(struct moietyi_keeper *keeper,
                         struct moietyi_client *client)
{
    struct moietyi_serve_received received;
    if (!client_has_room(keeper))
        return;
    moiety_status status = moietyi_serve_receive(client->socket, &received);
    if (status == MOIETY_E_WOULD_BLOCK)
        return;
    bool stays = false;
    if (status != MOIETY_OK) {
        if (status != MOIETY_E_PEER_GONE)
            client_refuse(client->socket, status);
    } else if (client_has_ended(client)) {
        client->deadline_ns = 0;
    } else if (client->deadline_ns) {
        stays = received.frame.kind == MOIETYI_SERVE_ACKNOWLEDGE;
        client->deadline_ns = 0;
    } else if (received.frame.kind != MOIETYI_SERVE_ACKNOWLEDGE) {
        stays = client_reply(keeper, client, &received);
    }
    for (size_t i = 0; i < received.count; i++)
        moietyi_closer_push(&keeper->closer, received.descriptors[i], 0);
    if (!stays)
        client_cut(keeper, client);
}

/* There may be descriptors again; if not, accepting pauses again. */
static void clients_resume(struct moietyi_keeper *keeper, uint64_t now_ns)
{
    bool is_watched =
        moietyi_keeper_watch(keeper, keeper->listener, &keeper->listener_kind);
    keeper->resume_ns = is_watched ? 0 : now_ns + PAUSE_NS;
}

int moietyi_clients_check(struct moietyi_keeper *keeper)
{
    uint64_t now_ns = moietyi_now_ns();
    if (keeper->resume_ns && keeper->resume_ns <= now_ns)
        clients_resume(keeper, now_ns);
    uint64_t next_ns = keeper->resume_ns;
    struct moietyi_client *client = keeper->clients;
    while (client) {
        struct moietyi_client *next = client->next;
        uint64_t deadline_ns = client->deadline_ns;
        if (deadline_ns && deadline_ns <= now_ns) {
            if (moietyi_closer_room(&keeper->closer))
                client_cut(keeper, client);
        } else if (deadline_ns && (!next_ns || deadline_ns < next_ns))
            next_ns = deadline_ns;
        client = next;
    }
    return next_ns ? (int)((next_ns - now_ns) / MS_NS) + 1 : -1;
}
