/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lets other programs of the same user look at this process's pools, through a
 * Unix socket that one thread serves. docs/observability.md has the requests
 * and the answers, and what reads them.
 *
 * moiety/pool.h has the rules that all functions have in common.
 */
#ifndef MOIETY_EXPOSE_H_
#define MOIETY_EXPOSE_H_

#include "moiety/status.h"
#include "moiety/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Begins to serve: all pools and host arenas of this copy of the library, those
 * that there are and those to come. MOIETY_CONF=expose:PATH does the same when
 * the first pool or arena is made, unless the program has done it before.
 *
 * The socket has mode 0600, less what the umask takes. A connection under
 * another user id is turned away without an answer. A socket that an ended
 * process has left at `path` is replaced.
 *
 * @param path  Where: 1 to 107 bytes, in a folder that exists; "%p" in it
 *              stands for the process id and "%%" for "%". Copied.
 *
 * @return MOIETY_E_INVALID  `path` is NULL, empty, too long, has a "%" before
 *         something else, is in no folder that may be written, or names
 *         something that is no socket.
 * @return MOIETY_E_IN_USE   This process serves already, or another one does at
 *         `path`, or is just about to.
 * @return MOIETY_E_NO_HOST_MEMORY  No memory, file descriptor or thread is to be
 *         had.
 * @return MOIETY_E_UNSUPPORTED     The system refuses Unix sockets there.
 *
 * Ownership: the socket file is the library's until moiety_expose_stop() or the
 *            end of the process by exit(), which remove it, if it is still the
 *            one that was made.
 * Threads:   any. May block, for a second at most. The thread that serves has
 *            all signals blocked and uses pools as any thread does: it is one of
 *            those that moiety_pool_stats.threads counts once it was asked.
 * Context:   none; the driver is not called, nor by the thread.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_expose_start(const char *path);

/**
 * Ends serving and removes the socket file. An answer that is being sent ends
 * in the middle. Does nothing where nobody serves.
 *
 * @return MOIETY_E_FORKED  Children do not serve; the parent goes on.
 *
 * Ownership: none.
 * Threads:   any. Waits for the thread, which may be taking a snapshot: up to
 *            a second.
 * Context:   none; the driver is not called.
 */
MOIETY_API moiety_status moiety_expose_stop(void);

#ifdef __cplusplus
}
#endif

#endif
