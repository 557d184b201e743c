/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The vault: a process that keeps records, each with a descriptor or none, under
 * numbers. It forks the process that talks to clients, and forks another when
 * that one ends; the new process reads all records back. The vault knows nothing
 * of regions. It never closes the last descriptor of memory while the other
 * process lives, so the driver cannot block it.
 */
#ifndef MOIETY_SERVE_KEEPER_VAULT_H_
#define MOIETY_SERVE_KEEPER_VAULT_H_

#include <stdint.h>

#include "moiety/status.h"
#include "serve/protocol/frame.h"

enum moietyi_record_kind {
    MOIETYI_RECORD_REGION = 1,
    MOIETYI_RECORD_MEMORY, /* with the descriptor of a handle */
    MOIETYI_RECORD_LAYOUT, /* with a sealed memfd */
    MOIETYI_RECORD_HOLD /* with the pidfd of the process that has the lease */
};

/* The vault copies it and reads none of it but its number. */
struct moietyi_record {
    uint64_t number; /* from 1 on */
    uint64_t region; /* number of the region that it belongs to */
    uint32_t kind;
    uint32_t part;
    uint32_t index; /* of the handle */
    uint32_t pid;   /* of the lease */
    uint32_t is_writer;
    uint32_t unused; /* 0 */
    uint8_t token[MOIETYI_SERVE_TOKEN_BYTES];
    struct moietyi_serve_region value; /* of a region */
};

/* Becomes the vault, and runs `serve(vault, context)` in a child as long as the
 * vault lives; `vault` is a socket for the functions below. SIGUSR1 is
 * passed on to each child; if one ends then and has left no record, all is drained.
 * Returns the exit status of the program when that is so, or when SIGTERM or SIGINT
 * has come. */
int moietyi_vault_run(int (*serve)(int vault, void *context), void *context);

/* Of the child. Each waits for the answer of the vault. MOIETY_OK,
 * MOIETY_E_NO_HOST_MEMORY, or MOIETY_E_PEER_GONE: there is no vault any more. */

/* Adds a record, or replaces it and, unless `descriptor` is -1, its descriptor. */
MOIETY_MUST_USE moiety_status moietyi_vault_put(
    int vault, const struct moietyi_record *record, int descriptor);
/* Without a vault there is nothing to drop. A record that stays by chance is one
 * of a region that is gone, and the next process drops it. */
void moietyi_vault_drop(int vault, uint64_t number);
/* The record behind number `after`, with a copy of its descriptor or -1.
 * MOIETY_E_STALE: there is none; `out->number` is the highest number ever put. */
MOIETY_MUST_USE moiety_status moietyi_vault_next(int vault, uint64_t after,
                                                 struct moietyi_record *out,
                                                 int *out_descriptor);

#endif
