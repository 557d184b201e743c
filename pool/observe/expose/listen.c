/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Two processes may find the same dead socket at once. So who replaces one has
 * the folder's lock: a lock file would be one more thing to be left behind.
 */
#define _GNU_SOURCE
#include "pool/observe/expose/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/base/clock.h"
#include "pool/base/failure.h"

#define BACKLOG 8
#define NAP_NS 10000000L
#define TRIES_MAX 100

/* The message of errno for `path`. */
static moiety_status listen_refuse(const char *what, const char *path)
{
    int code = errno;
    char text[96];
    moiety_status status = MOIETY_E_INVALID;
    if (code == EMFILE || code == ENFILE || code == ENOMEM || code == ENOBUFS)
        status = MOIETY_E_NO_HOST_MEMORY;
    else if (code == EAFNOSUPPORT || code == EPROTONOSUPPORT ||
             code == EOPNOTSUPP)
        status = MOIETY_E_UNSUPPORTED;
    return moietyi_fail(status, "cannot expose pools at '%s': %s: %s", path,
                        what, strerror_r(code, text, sizeof(text)));
}

static moiety_status refuse_path(const char *path, const char *why)
{
    return moietyi_fail(MOIETY_E_INVALID, "cannot expose pools at '%.128s': %s",
                        path, why);
}

static moiety_status expand(const char *path, struct sockaddr_un *out)
{
    size_t used = 0;
    memset(out, 0, sizeof(*out));
    out->sun_family = AF_UNIX;
    if (!*path)
        return refuse_path(path, "the path is empty");
    for (const char *at = path; *at; at++) {
        char text[24] = {*at};
        if (*at == '%' && *++at == 'p')
            (void)snprintf(text, sizeof(text), "%ld", (long)getpid());
        else if (text[0] == '%' && *at != '%')
            return refuse_path(path, "accepted after % are p and %");
        size_t length = strlen(text);
        if (used + length >= sizeof(out->sun_path))
            return refuse_path(path, "the path is longer than 107 bytes");
        memcpy(out->sun_path + used, text, length);
        used += length;
    }
    return MOIETY_OK;
}

static const char *name_in(const struct sockaddr_un *address)
{
    const char *slash = strrchr(address->sun_path, '/');
    return slash ? slash + 1 : address->sun_path;
}

static moiety_status open_folder(struct moietyi_listener *listener)
{
    char folder[sizeof(listener->address.sun_path) + 1];
    const char *path = listener->address.sun_path;
    const char *name = name_in(&listener->address);
    if (!*name)
        return refuse_path(path, "it ends with a slash");
    (void)snprintf(folder, sizeof(folder), "%.*s.", (int)(name - path), path);
    listener->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return listener->folder < 0 ? listen_refuse("its folder", path) : MOIETY_OK;
}

/* The lock ends when it is taken back, at the latest with the process. */
static moiety_status lock_folder(const struct moietyi_listener *listener)
{
    for (int i = 0; i < TRIES_MAX; i++) {
        if (flock(listener->folder, LOCK_EX | LOCK_NB) == 0)
            return MOIETY_OK;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return listen_refuse("flock() of its folder",
                                 listener->address.sun_path);
        moietyi_nap(NAP_NS);
    }
    return moietyi_fail(MOIETY_E_IN_USE,
                        "cannot expose pools at '%s': somebody holds the lock "
                        "of its folder",
                        listener->address.sun_path);
}

/* Whether somebody listens there. */
static bool is_alive(const struct sockaddr_un *address)
{
    int other = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (other < 0)
        return true;
    /* Any other error, such as a full backlog, means that the server lives. */
    bool is_dead = connect(other, (const struct sockaddr *)address,
                           sizeof(*address)) != 0 &&
                   (errno == ECONNREFUSED || errno == ENOENT);
    (void)close(other);
    return !is_dead;
}

/* Lock held: what is there goes, if it is a socket that nobody serves. */
static moiety_status listen_make_room(const struct moietyi_listener *listener)
{
    const char *path = listener->address.sun_path;
    const char *name = name_in(&listener->address);
    struct stat found;
    if (fstatat(listener->folder, name, &found, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? MOIETY_OK : listen_refuse("stat()", path);
    if (!S_ISSOCK(found.st_mode))
        return refuse_path(path, "it is there and no socket");
    if (is_alive(&listener->address)) {
        return moietyi_fail(MOIETY_E_IN_USE,
                            "cannot expose pools at '%s': a process serves "
                            "there; accepted is a path of one's own, as with "
                            "%%p for the process id",
                            path);
    }
    if (unlinkat(listener->folder, name, 0) != 0 && errno != ENOENT)
        return listen_refuse("removing what a dead process left", path);
    return MOIETY_OK;
}

static moiety_status bind_and_listen(struct moietyi_listener *listener)
{
    const char *path = listener->address.sun_path;
    struct stat made;
    /* The file gets the socket's mode, so it is never another's to open. */
    if (fchmod(listener->socket, S_IRUSR | S_IWUSR) != 0)
        return listen_refuse("fchmod()", path);
    if (bind(listener->socket, (const struct sockaddr *)&listener->address,
             sizeof(listener->address)) != 0)
        return listen_refuse("bind()", path);
    if (fstatat(listener->folder, name_in(&listener->address), &made,
                AT_SYMLINK_NOFOLLOW) != 0)
        return listen_refuse("stat()", path);
    listener->device = made.st_dev;
    listener->inode = made.st_ino;
    if (listen(listener->socket, BACKLOG) == 0)
        return MOIETY_OK;
    moiety_status status = listen_refuse("listen()", path);
    moietyi_listener_remove(listener);
    return status;
}

moiety_status moietyi_listen(const char *path, struct moietyi_listener *out)
{
    struct moietyi_listener listener = {.socket = -1, .folder = -1};
    moiety_status status = expand(path, &listener.address);
    if (status == MOIETY_OK)
        status = open_folder(&listener);
    if (status != MOIETY_OK)
        return status;
    listener.socket =
        socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener.socket < 0)
        status = listen_refuse("socket()", listener.address.sun_path);
    if (status == MOIETY_OK)
        status = lock_folder(&listener);
    if (status == MOIETY_OK)
        status = listen_make_room(&listener);
    if (status == MOIETY_OK)
        status = bind_and_listen(&listener);
    (void)flock(listener.folder, LOCK_UN);
    if (status == MOIETY_OK)
        *out = listener;
    else
        moietyi_listener_close(&listener);
    return status;
}

void moietyi_listener_remove(const struct moietyi_listener *listener)
{
    const char *name = name_in(&listener->address);
    struct stat found;
    if (fstatat(listener->folder, name, &found, AT_SYMLINK_NOFOLLOW) == 0 &&
        found.st_dev == listener->device && found.st_ino == listener->inode)
        (void)unlinkat(listener->folder, name, 0);
}

void moietyi_listener_close(struct moietyi_listener *listener)
{
    if (listener->socket >= 0)
        (void)close(listener->socket);
    if (listener->folder >= 0)
        (void)close(listener->folder);
    listener->socket = -1;
    listener->folder = -1;
}
