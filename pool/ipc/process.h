/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which process is which: pids come again, and mean something in their
 * namespace only.
 */
#ifndef BINADE_POOL_IPC_PROCESS_H_
#define BINADE_POOL_IPC_PROCESS_H_

#include <stdbool.h>
#include <stdint.h>

#include "binade/status.h"

/* No padding: compared as bytes. */
struct binadei_process {
    uint8_t machine[16]; /* its boot id; zeroes where the kernel hides it */
    uint64_t pid_namespace;
    uint64_t start_ticks; /* since the boot */
    uint64_t pid;
};

bool binadei_process_is(const struct binadei_process *a,
                        const struct binadei_process *b);

/* The calling process; `*out` is constant and lives on. The first call reads
 * /proc. BINADE_OK, or BINADE_E_UNSUPPORTED where that does not tell. A child
 * of a fork must not get here. */
BINADE_MUST_USE binade_status
binadei_process_self(const struct binadei_process **out);

/* A random number that the calling process has to itself, among those of all
 * machines: boot ids may be hidden, and machines are copied. Not 0. */
uint64_t binadei_process_nonce(void);

enum binadei_process_state {
    BINADEI_PROCESS_LIVES,
    BINADEI_PROCESS_GONE,
    BINADEI_PROCESS_UNSEEN /* in another pid namespace: nobody can tell */
};

/* Of a process of this machine. Reads /proc. */
enum binadei_process_state
binadei_process_state(const struct binadei_process *process);

#endif
