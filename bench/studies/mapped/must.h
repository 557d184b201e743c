/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a study cannot go on without: where it fails, the process ends with 1, after
 * saying what it was.
 */
#ifndef MOIETY_BENCH_STUDIES_MAPPED_MUST_H_
#define MOIETY_BENCH_STUDIES_MAPPED_MUST_H_

#include <stdbool.h>

#include "moiety/status.h"
#include "pool/driver/driver_table.h"

void must(CUresult code, const char *what);
/* Says the calling thread's last message. */
void must_be(moiety_status status);
void must_hold(bool holds, const char *what);

/* MUST(cuMemFree, (block)), by the driver of the program's `study`. */
#define MUST(call, arguments) must(study.driver->call arguments, #call)

#endif
