/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Others who use the driver while memory is pinned: a thread for each of four calls
 * in this process, and as many in another one.
 */
#ifndef MOIETY_BENCH_HOST_BYSTAND_H_
#define MOIETY_BENCH_HOST_BYSTAND_H_

#include <stdbool.h>

#include "bench/host/host.h"

struct bystanders;

/* All of them have called the driver once when it returns. NULL: there is no memory. */
struct bystanders *bystand_begin(const struct host_options *options);
/* Ends them. If `is_measured`, the row gets the longest wait of each call. */
void bystand_end(struct bystanders *bystanders, bool is_measured);

/* The other process, with the stand-in or the driver that ours has: until its standard
 * input ends. The exit status. */
int bystand_process(void);

#endif
