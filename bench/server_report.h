/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What came out: a table for people, and JSON Lines.
 */
#ifndef BINADE_BENCH_SERVER_REPORT_H_
#define BINADE_BENCH_SERVER_REPORT_H_

#include <stdbool.h>
#include <stdio.h>

#include <binade/binade.h>

#include "bench/server_comparison.h"

/* A total for each subject of the options, on standard output. */
void server_report_print(const struct server_options *options,
                         const binade_caps *caps,
                         const struct server_total *totals);

/* An object a line. */
void server_report_write(FILE *file, const struct server_options *options,
                         const binade_caps *caps,
                         const struct server_total *totals);

/* Whether every byte was right and every block freed; says loudly on stderr
 * what was not. */
bool server_report_verdict(const struct server_options *options,
                           const struct server_total *totals);

#endif
