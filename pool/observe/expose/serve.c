/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "pool/observe/expose/serve.h"

#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pool/base/clock.h"
#include "pool/observe/expose/answer.h"
#include "pool/observe/expose/wire.h"

#define REQUEST_NS UINT64_C(1000000000)
#define ANSWER_NS UINT64_C(30000000000)
/* How long nothing is taken where nothing can be, as without descriptors. */
#define NAP_NS UINT64_C(100000000)

/* Edge: none; relaxed: whom the thread is talking to, or -1. Read in children
 * alone, of which a fork makes a copy: so it needs no order. */
static _Atomic int client = -1;

static bool is_ours(int socket)
{
    struct ucred peer;
    socklen_t bytes = sizeof(peer);
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
           peer.uid == geteuid();
}

static void talk(int socket, int stop)
{
    char request[MOIETYI_REQUEST_BYTES];
    struct moietyi_wire wire = {
        .socket = socket, .stop = stop, .end_ns = moietyi_now_ns() + ANSWER_NS};
    if (!is_ours(socket) || !moietyi_wire_read_line(&wire, request, REQUEST_NS))
        return;
    moietyi_answer(&wire, request);
    moietyi_wire_flush(&wire);
}

void moietyi_serve(int socket, int stop)
{
    struct pollfd stopping = {.fd = stop, .events = POLLIN};
    while (poll(&stopping, 1, 0) == 0) {
        if (!moietyi_wire_wait(socket, stop, POLLIN, UINT64_MAX))
            continue;
        int accepted =
            accept4(socket, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (accepted < 0) {
            (void)poll(&stopping, 1, (int)(NAP_NS / 1000000));
            continue;
        }
        atomic_store_explicit(&client, accepted, memory_order_relaxed);
        talk(accepted, stop);
        atomic_store_explicit(&client, -1, memory_order_relaxed);
        (void)close(accepted);
    }
}

void moietyi_serve_close_in_child(void)
{
    int inherited = atomic_exchange_explicit(&client, -1, memory_order_relaxed);
    if (inherited >= 0)
        (void)close(inherited);
}
