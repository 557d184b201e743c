/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The worker threads and the phases in which they serve.
 */
#ifndef MOIETY_BENCH_SERVER_PHASE_H_
#define MOIETY_BENCH_SERVER_PHASE_H_

#include <stdbool.h>
#include <stdint.h>

#include "bench/server/server.h"

/* Makes the workers of `server`, whose options and device are set, and starts
 * their threads. False after saying why not; to be stopped in either case. */
bool server_workers_start(struct server *server);

/* Ends the threads and takes down what `server_workers_start` put up. */
void server_workers_stop(struct server *server);

/* Lets all workers serve the requests from `server->next_request` on, up to
 * `request_end` or the deadline. */
void server_phase_begin(struct server *server);

/* Waits until the phase is over, this many milliseconds at most. True when it
 * is: then all blocks are freed, and no work is under way. */
bool server_phase_wait(struct server *server, unsigned timeout_ms);

/* Adds what the phase has served so far to `into`. */
void server_phase_tally(struct server *server, struct server_tally *into);

/* Adds the calls of the phase to `into`; the phase is over. */
void server_phase_calls(const struct server *server, struct server_calls *into);

/* When the last worker had nothing more to serve; the phase is over. */
uint64_t server_phase_end_ns(const struct server *server);

#endif
