/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The keeper's address, and who may use it. The lock of the file beside the socket
 * decides who is the keeper: a socket whose keeper died is known by it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "pool/base/failure.h"
#include "serve/keeper/keeper.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#define BACKLOG 128
#define ERROR_TEXT(error) strerror_r(error, (char[64]){0}, 64)

static int socket_refuse(const char *path, const char *why)
{
    (void)fprintf(stderr, "moiety-serve: %s: %s\n", path, why);
    return -1;
}

/* The file is never removed: whoever removes it could take it from under another
 * keeper. */
static bool socket_lock(const char *path)
{
    char name[sizeof(((struct sockaddr_un *)NULL)->sun_path) + 8];
    struct stat status;
    (void)snprintf(name, sizeof(name), "%s.lock", path);
    int lock = open(name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (lock < 0 || fstat(lock, &status) != 0) {
        (void)socket_refuse(name, ERROR_TEXT(errno));
    } else if (!S_ISREG(status.st_mode) || status.st_uid != geteuid()) {
        (void)socket_refuse(name, "is not a file of this user");
    } else if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
        (void)socket_refuse(path, "another keeper serves this path");
    } else {
        return true; /* open as long as this process and its child live */
    }
    if (lock >= 0)
        (void)close(lock);
    return false;
}

/* Whether nothing, or a socket of nobody's, is at the path; that one goes. */
static bool socket_clear(const struct sockaddr_un *address)
{
    struct stat status;
    if (lstat(address->sun_path, &status) != 0)
        return errno == ENOENT ||
               socket_refuse(address->sun_path, ERROR_TEXT(errno)) == 0;
    if (!S_ISSOCK(status.st_mode) || status.st_uid != geteuid())
        return socket_refuse(address->sun_path,
                             "is there, and is no socket of this user") == 0;
    int probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    bool is_free = probe >= 0 &&
                   connect(probe, (const struct sockaddr *)address,
                           sizeof(*address)) != 0 &&
                   errno == ECONNREFUSED;
    if (probe >= 0)
        (void)close(probe);
    if (!is_free)
        return socket_refuse(address->sun_path,
                             "another program serves this socket") == 0;
    return unlink(address->sun_path) == 0 ||
           socket_refuse(address->sun_path, ERROR_TEXT(errno)) == 0;
}

int moietyi_socket_listen(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!*path || strlen(path) >= sizeof(address.sun_path))
        return socket_refuse(path, "a socket's path has 1 to 107 bytes");
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (!socket_lock(path) || !socket_clear(&address))
        return -1;
    int listener =
        socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t mask = umask(0177);
    bool is_bound =
        listener >= 0 &&
        bind(listener, (const struct sockaddr *)&address, sizeof(address)) == 0;
    int error = errno;
    (void)umask(mask);
    if (is_bound && listen(listener, BACKLOG) == 0)
        return listener;
    if (listener >= 0)
        (void)close(listener);
    return socket_refuse(path, ERROR_TEXT(is_bound ? errno : error));
}

/* Without the option the number of a process could be another's by now: then its
 * end of the socket is closed. */
static int peer_open(int socket, pid_t pid)
{
    int pidfd = -1;
    socklen_t size = sizeof(pidfd);
    struct pollfd end = {.fd = socket, .events = POLLRDHUP};
    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) == 0)
        return pidfd;
    if (errno != ENOPROTOOPT)
        return -1; /* the kernel has the option, and the process is over */
    pidfd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    if (pidfd >= 0 && poll(&end, 1, 0) > 0 &&
        end.revents & (POLLHUP | POLLRDHUP)) {
        (void)close(pidfd);
        errno = ESRCH;
        return -1;
    }
    return pidfd;
}

moiety_status moietyi_socket_peer(int socket, pid_t *out_pid, int *out_pidfd)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return moietyi_fail(MOIETY_E_INVALID, "the peer is not known");
    if (peer.uid != geteuid() || peer.uid == MOIETYI_SERVE_OVERFLOW_UID) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "this keeper serves user %u; the client is user "
                            "%u, or of another user namespace",
                            (unsigned)geteuid(), (unsigned)peer.uid);
    }
    *out_pid = peer.pid;
    *out_pidfd = peer_open(socket, peer.pid);
    if (*out_pidfd >= 0)
        return MOIETY_OK;
    return moietyi_fail(errno == EMFILE || errno == ENFILE
                            ? MOIETY_E_NO_HOST_MEMORY
                            : MOIETY_E_UNSUPPORTED,
                        "the keeper cannot see the end of process %d: %s",
                        (int)peer.pid, ERROR_TEXT(errno));
}
