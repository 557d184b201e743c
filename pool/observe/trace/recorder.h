/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Takes all that a history notes into a trace. There is no thread for it: who
 * finds its own ring full takes the entries of all rings, puts them in the order
 * of their times, and writes what no entry can come before any more (edge RP,
 * ring.h). So nothing is lost, and a program that does nothing but allocate
 * goes at the pace of the file. docs/dev/adr/0017-recorder.md says why.
 */
#ifndef MOIETY_POOL_OBSERVE_TRACE_RECORDER_H_
#define MOIETY_POOL_OBSERVE_TRACE_RECORDER_H_

#include <stdbool.h>

#include "moiety/status.h"
#include "pool/observe/trace/trace_file.h"

struct moietyi_history;

/* Begins; the recorder has the file from now on. MOIETY_E_IN_USE: the history has
 * a recorder. Of what fails the file stays the caller's. */
MOIETY_MUST_USE moiety_status moietyi_recorder_start(
    struct moietyi_history *history, struct moietyi_trace_file *file);
/* The file so far, after all entries up to now were taken if it `takes_all`.
 * False: there is no recorder. */
bool moietyi_recorder_sums(struct moietyi_history *history, bool takes_all,
                           struct moietyi_trace_sums *out, uint64_t *out_lost);
/* Writes the end. MOIETY_OK, also where there is no recorder, or what went wrong
 * since the start, with its message. Nobody may be about to start one. */
MOIETY_MUST_USE moiety_status
moietyi_recorder_stop(struct moietyi_history *history,
                      struct moietyi_trace_sums *out, uint64_t *out_lost);

#endif
