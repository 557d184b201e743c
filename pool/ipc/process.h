/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which process is which: pids come again, and mean something in their
 * namespace only.
 */
#ifndef MOIETY_POOL_IPC_PROCESS_H_
#define MOIETY_POOL_IPC_PROCESS_H_

#include <stdbool.h>
#include <stdint.h>

#include "moiety/status.h"

/* No padding: compared as bytes. */
struct moietyi_process {
    uint8_t machine[16]; /* its boot id; zeroes where the kernel hides it */
    uint64_t pid_namespace;
    uint64_t start_ticks; /* since the boot */
    uint64_t pid;
};

bool moietyi_process_is(const struct moietyi_process *a,
                        const struct moietyi_process *b);

/* The calling process; `*out` is constant and lives on. The first call reads
 * /proc. MOIETY_OK, or MOIETY_E_UNSUPPORTED where that does not tell. A child
 * of a fork must not get here. */
MOIETY_MUST_USE moiety_status
moietyi_process_self(const struct moietyi_process **out);

/* A random number that the calling process has to itself, among those of all
 * machines: boot ids may be hidden, and machines are copied. Not 0. */
uint64_t moietyi_process_nonce(void);

enum moietyi_process_state {
    MOIETYI_PROCESS_LIVES,
    MOIETYI_PROCESS_GONE,
    MOIETYI_PROCESS_UNSEEN /* in another pid namespace: unknown */
};

/* Of a process of this machine. Reads /proc. */
enum moietyi_process_state
moietyi_process_state(const struct moietyi_process *process);

#endif
