/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "tests/serve/peer_probe.h"

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "serve/keeper/keeper.h"

static bool is_faked;
static uid_t own_user;
static uid_t peer_user;

/* In the place of the C library's. */
uid_t geteuid(void)
{
    return is_faked ? own_user : (uid_t)syscall(SYS_geteuid);
}

int getsockopt(int socket, int level, int name, void *value, socklen_t *size)
{
    int failed = (int)syscall(SYS_getsockopt, socket, level, name, value, size);
    if (is_faked && !failed && name == SO_PEERCRED)
        ((struct ucred *)value)->uid = peer_user;
    return failed;
}

int peer_probe_ask(int socket, uint32_t keeper, uint32_t peer)
{
    pid_t pid;
    int pidfd = -1;
    is_faked = true;
    own_user = keeper;
    peer_user = peer;
    moiety_status status = moietyi_socket_peer(socket, &pid, &pidfd);
    is_faked = false;
    if (pidfd >= 0)
        (void)close(pidfd);
    return (int)status;
}
