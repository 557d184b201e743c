/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Knows, without a system call, whether this process is the child of a fork
 * that came after the mark was set. A CUDA driver does not survive a fork, and
 * a lock may be held by a thread that the child does not have: such a child
 * must be told before it touches either.
 */
#ifndef MOIETY_POOL_BASE_FORK_MARK_H_
#define MOIETY_POOL_BASE_FORK_MARK_H_

#include <stdbool.h>

#include "moiety/status.h"

/* Sets the mark, the first time it is called in a process tree; any thread.
 * False: there is no memory for it; it may be tried again. */
MOIETY_MUST_USE bool moietyi_fork_mark(void);

/* True in every descendant of the process that set the mark; false before
 * that. */
bool moietyi_is_forked(void);

#endif
