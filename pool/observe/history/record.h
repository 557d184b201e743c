/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Recording that MOIETY_CONF asks for, from a pool's creation to its end.
 */
#ifndef MOIETY_POOL_OBSERVE_HISTORY_RECORD_H_
#define MOIETY_POOL_OBSERVE_HISTORY_RECORD_H_

#include "moiety/status.h"

struct moietyi_history;
struct moietyi_trace_file;

/* The file that `conf` names, which was resolved; `out` stays as it is where it
 * names none. */
MOIETY_MUST_USE moiety_status
moietyi_record_open(const char *conf, struct moietyi_trace_file **out);
/* Records to it, if there is one. Where there is no memory for that, it says so
 * in the log: the pool is there already. */
void moietyi_record_begin(struct moietyi_history *history,
                          struct moietyi_trace_file *file);
/* There will be no pool. */
void moietyi_record_leave(struct moietyi_trace_file *file);
/* The pool ends; errors are logged. `history` may be NULL. */
void moietyi_record_end(struct moietyi_history *history);

#endif
