/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "serve/client/connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/base/lock.h"

#define WAIT_S 10
/* Of a request, each on a new socket. */
#define ASK_TRIES 10
#define ASK_NAP_NS 50000000L

static void connection_drop(struct moiety_keeper *keeper)
{
    if (keeper->socket >= 0)
        (void)close(keeper->socket);
    keeper->socket = -1;
}

/* Memory is given to no other user's keeper. */
static moiety_status connection_check_peer(int socket)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
        peer.uid == geteuid() && peer.uid != MOIETYI_SERVE_OVERFLOW_UID)
        return MOIETY_OK;
    return moietyi_fail(MOIETY_E_INVALID,
                        "the keeper is not of this process's user");
}

static moiety_status connection_connect(struct moiety_keeper *keeper)
{
    const struct timeval wait = {.tv_sec = WAIT_S};
    char text[128];
    int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (made < 0)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY, "no socket: %s",
                            strerror_r(errno, text, sizeof(text)));
    (void)setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    (void)setsockopt(made, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
    moiety_status status;
    if (connect(made, (const struct sockaddr *)&keeper->address,
                sizeof(keeper->address)) == 0)
        status = connection_check_peer(made);
    else {
        status = moietyi_fail(
            errno == EAGAIN ? MOIETY_E_TIMEOUT : MOIETY_E_PEER_GONE,
            "no keeper answers at %s: %s", keeper->address.sun_path,
            strerror_r(errno, text, sizeof(text)));
    }
    if (status != MOIETY_OK)
        (void)close(made);
    else
        keeper->socket = made;
    return status;
}

/* A keeper that closes the socket may have said why before: that is read also
 * where the request could not be sent. */
static moiety_status connection_receive(struct moiety_keeper *keeper,
                                        struct moietyi_serve_received *out)
{
    moiety_status status = moietyi_serve_receive(keeper->socket, out);
    if (status == MOIETY_E_PEER_GONE) {
        moietyi_serve_close_all(out);
        status = moietyi_serve_receive(keeper->socket, out);
    }
    if (status == MOIETY_E_WOULD_BLOCK)
        status = moietyi_fail(MOIETY_E_TIMEOUT,
                              "the keeper did not answer for %d s", WAIT_S);
    if (status != MOIETY_OK)
        moietyi_serve_close_all(out);
    return status;
}

static moiety_status connection_acknowledge(struct moiety_keeper *keeper)
{
    struct moietyi_serve_frame frame = {.kind = MOIETYI_SERVE_ACKNOWLEDGE};
    return moietyi_serve_send(keeper->socket, &frame, NULL, 0);
}

/* One exchange on the socket. `*out_is_refused`: the keeper itself says so, and
 * asking again changes nothing. */
static moiety_status
connection_exchange(struct moiety_keeper *keeper,
                    struct moietyi_serve_received *exchange,
                    const int *descriptors, size_t count, bool *out_is_refused)
{
    const uint64_t sequence = ++keeper->sequence;
    const uint16_t kind = exchange->frame.kind;
    exchange->frame.sequence = sequence;
    *out_is_refused = false;
    moiety_status status = moietyi_serve_send(keeper->socket, &exchange->frame,
                                              descriptors, count);
    if (status != MOIETY_OK && status != MOIETY_E_PEER_GONE)
        return status;
    status = connection_receive(keeper, exchange);
    if (status != MOIETY_OK)
        return status;
    const struct moietyi_serve_frame *reply = &exchange->frame;
    bool takes = kind == MOIETYI_SERVE_FETCH ||
                 kind == MOIETYI_SERVE_FETCH_LAYOUT || !exchange->count;
    bool is_answer =
        reply->sequence == sequence && reply->kind == kind && takes;
    bool is_refusal = !reply->sequence && reply->status != MOIETY_OK;
    if (is_answer && exchange->count)
        status = connection_acknowledge(keeper);
    else if (!is_answer && !is_refusal)
        status = moietyi_fail(MOIETY_E_CORRUPT,
                              "the keeper answers another request");
    if (status == MOIETY_OK && reply->status != MOIETY_OK) {
        *out_is_refused = true;
        status =
            moietyi_fail((moiety_status)reply->status, "%s", reply->message);
    }
    if (status != MOIETY_OK)
        moietyi_serve_close_all(exchange);
    return status;
}

/* Connects, and hears whether the keeper takes this process. */
static moiety_status connection_begin(struct moiety_keeper *keeper)
{
    struct moietyi_serve_received hello = {
        .frame = {.kind = MOIETYI_SERVE_HELLO}};
    bool is_refused;
    moiety_status status = connection_connect(keeper);
    return status == MOIETY_OK
               ? connection_exchange(keeper, &hello, NULL, 0, &is_refused)
               : status;
}

/* The same, until the keeper answers: if its process for clients ends meanwhile,
 * another one is started. If nobody listens, there is no keeper. */
static moiety_status connection_begin_first(struct moiety_keeper *keeper)
{
    moiety_status status = connection_begin(keeper);
    for (int i = 1;
         i < ASK_TRIES && status == MOIETY_E_PEER_GONE && keeper->socket >= 0;
         i++) {
        connection_drop(keeper);
        moietyi_nap(ASK_NAP_NS);
        status = connection_begin(keeper);
    }
    return status;
}

moiety_status moietyi_connection_ask(struct moiety_keeper *keeper,
                                     struct moietyi_serve_received *exchange,
                                     const int *descriptors, size_t count)
{
    const struct moietyi_serve_frame request = exchange->frame;
    moiety_status status = MOIETY_E_PEER_GONE;
    for (int i = 0; i < ASK_TRIES; i++) {
        bool is_refused = false;
        if (i)
            moietyi_nap(ASK_NAP_NS);
        exchange->frame = request;
        status = keeper->socket < 0 ? connection_begin(keeper) : MOIETY_OK;
        if (status == MOIETY_OK)
            status = connection_exchange(keeper, exchange, descriptors, count,
                                         &is_refused);
        if (status == MOIETY_OK || is_refused)
            return status;
        /* A late reply must not be taken for the next one. */
        connection_drop(keeper);
        if (status != MOIETY_E_PEER_GONE)
            return status;
    }
    return status;
}

moiety_status moietyi_connection_open(const char *path,
                                      struct moiety_keeper **out)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!path || !*path || strlen(path) >= sizeof(address.sun_path))
        return moietyi_fail(MOIETY_E_INVALID,
                            "a keeper's path has 1 to 107 bytes");
    if (!moietyi_fork_mark())
        return moietyi_refuse_unmarked();
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    struct moiety_keeper *keeper = calloc(1, sizeof(*keeper));
    if (!keeper)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory for a connection");
    memcpy(address.sun_path, path, strlen(path) + 1);
    keeper->address = address;
    keeper->socket = -1;
    (void)pthread_mutex_init(&keeper->lock, NULL);
    moiety_status status = connection_begin_first(keeper);
    if (status == MOIETY_OK)
        *out = keeper;
    else
        moietyi_connection_close(keeper);
    return status;
}

void moietyi_connection_close(struct moiety_keeper *keeper)
{
    connection_drop(keeper);
    (void)pthread_mutex_destroy(&keeper->lock);
    free(keeper);
}

moiety_status moietyi_connection_enter(struct moiety_keeper *keeper)
{
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    moietyi_lock(&keeper->lock);
    bool is_free = !keeper->is_busy;
    keeper->is_busy = true;
    moietyi_unlock(&keeper->lock);
    return is_free
               ? MOIETY_OK
               : moietyi_fail(MOIETY_E_IN_USE,
                              "another thread uses the keeper's connection");
}

void moietyi_connection_leave(struct moiety_keeper *keeper)
{
    moietyi_lock(&keeper->lock);
    keeper->is_busy = false;
    moietyi_unlock(&keeper->lock);
}
