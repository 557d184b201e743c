/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "tests/serve/peer_probe.h"

#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "serve/keeper/keeper.h"

static bool is_of_another_user;
static uid_t user;

/* In the place of the C library's. */
uid_t geteuid(void)
{
    return is_of_another_user ? user : (uid_t)syscall(SYS_geteuid);
}

int peer_probe_ask(int socket, uint32_t keeper_user)
{
    pid_t pid;
    int pidfd = -1;
    is_of_another_user = true;
    user = keeper_user;
    moiety_status status = moietyi_socket_peer(socket, &pid, &pidfd);
    is_of_another_user = false;
    if (pidfd >= 0)
        (void)close(pidfd);
    return (int)status;
}
