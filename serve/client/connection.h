/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A client's connection to its keeper: one request at a time, sent again on a new
 * socket if the keeper's process for clients was restarted. No driver is touched.
 */
#ifndef MOIETY_SERVE_CLIENT_CONNECTION_H_
#define MOIETY_SERVE_CLIENT_CONNECTION_H_

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/un.h>

#include "moiety/region.h"
#include "serve/protocol/frame.h"

struct moiety_keeper {
    pthread_mutex_t lock; /* guards is_busy */
    bool is_busy;         /* the thread that set it has all else */
    size_t region_count;  /* not yet closed */
    int socket;           /* -1: none now */
    uint64_t sequence;
    struct sockaddr_un address;
};

MOIETY_MUST_USE moiety_status
moietyi_connection_open(const char *path, struct moiety_keeper **out);
void moietyi_connection_close(struct moiety_keeper *keeper);

/* A public function begins; MOIETY_E_FORKED, or MOIETY_E_IN_USE: another one
 * runs. */
MOIETY_MUST_USE moiety_status
moietyi_connection_enter(struct moiety_keeper *keeper);
void moietyi_connection_leave(struct moiety_keeper *keeper);

/* Sends `exchange->frame` with descriptors and puts the reply in its place. If
 * MOIETY_OK is returned, descriptors that came are the caller's; otherwise none
 * are left. */
MOIETY_MUST_USE moiety_status moietyi_connection_ask(
    struct moiety_keeper *keeper, struct moietyi_serve_received *exchange,
    const int *descriptors, size_t count);

#endif
