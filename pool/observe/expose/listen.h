/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A Unix socket in the file system: made, and removed as what was made.
 */
#ifndef MOIETY_POOL_OBSERVE_EXPOSE_LISTEN_H_
#define MOIETY_POOL_OBSERVE_EXPOSE_LISTEN_H_

#include <sys/types.h>
#include <sys/un.h>

#include "moiety/status.h"

struct moietyi_listener {
    int socket; /* non-blocking, close-on-exec */
    int folder; /* where it lies, wherever the process goes */
    struct sockaddr_un address;
    dev_t device; /* what was made there */
    ino_t inode;
};

/* After any status but MOIETY_OK, nothing is left. The statuses are those of
 * moiety_expose_start(). */
MOIETY_MUST_USE moiety_status moietyi_listen(const char *path,
                                             struct moietyi_listener *out);
/* Removes the file, if it is still that. Async-signal-safe. */
void moietyi_listener_remove(const struct moietyi_listener *listener);
/* Closes what this process has of it. Async-signal-safe. */
void moietyi_listener_close(struct moietyi_listener *listener);

#endif
