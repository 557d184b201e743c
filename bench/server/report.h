/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What came out: a table for people, and JSON Lines.
 */
#ifndef MOIETY_BENCH_SERVER_REPORT_H_
#define MOIETY_BENCH_SERVER_REPORT_H_

#include <stdbool.h>
#include <stdio.h>

#include <moiety/moiety.h>

#include "bench/server/comparison.h"

/* A total for each subject of the options, on standard output. */
void server_report_print(const struct server_options *options,
                         const moiety_caps *caps,
                         const struct server_outcome *outcome);

/* An object a line, one for each subject. The keys that begin with "staging_" are
 * those of the host arena that all subjects shared, as it was at the end: its
 * place in words, the bytes pinned, the system's smallest pages in them, those
 * that were on the nodes and those on others, bytes never freed, and the kind of
 * pages that most of it is in. */
void server_report_write(FILE *file, const struct server_options *options,
                         const moiety_caps *caps,
                         const struct server_outcome *outcome);

/* Whether every byte was right and every block freed; says loudly on stderr
 * what was not. */
bool server_report_verdict(const struct server_options *options,
                           const struct server_outcome *outcome);

#endif
