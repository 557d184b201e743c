/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Recording that BINADE_CONF asks for, from a pool's creation to its end.
 */
#ifndef BINADE_POOL_OBSERVE_HISTORY_RECORD_H_
#define BINADE_POOL_OBSERVE_HISTORY_RECORD_H_

#include "binade/status.h"

struct binadei_history;
struct binadei_trace_file;

/* The file that `conf` names, which was resolved; `out` stays as it is where it
 * names none. */
BINADE_MUST_USE binade_status
binadei_record_open(const char *conf, struct binadei_trace_file **out);
/* Records to it, if there is one. Where there is no memory for that, it says so
 * in the log: the pool is there already. */
void binadei_record_begin(struct binadei_history *history,
                          struct binadei_trace_file *file);
/* There will be no pool. */
void binadei_record_leave(struct binadei_trace_file *file);
/* The pool ends; what went wrong is said in the log. `history` may be NULL. */
void binadei_record_end(struct binadei_history *history);

#endif
