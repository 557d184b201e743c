/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A Unix socket in the file system: made, and removed as what was made.
 */
#ifndef BINADE_POOL_OBSERVE_EXPOSE_LISTEN_H_
#define BINADE_POOL_OBSERVE_EXPOSE_LISTEN_H_

#include <sys/types.h>
#include <sys/un.h>

#include "binade/status.h"

struct binadei_listener {
    int socket; /* non-blocking, close-on-exec */
    int folder; /* where it lies, wherever the process goes */
    struct sockaddr_un address;
    dev_t device; /* what was made there */
    ino_t inode;
};

/* Whatever is returned but BINADE_OK, nothing is left. The statuses are those
 * of binade_expose_start(). */
BINADE_MUST_USE binade_status binadei_listen(const char *path,
                                             struct binadei_listener *out);
/* Removes the file, if it is still that. Async-signal-safe. */
void binadei_listener_remove(const struct binadei_listener *listener);
/* Closes what this process has of it. Async-signal-safe. */
void binadei_listener_close(struct binadei_listener *listener);

#endif
