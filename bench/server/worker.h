/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a worker thread does.
 */
#ifndef BINADE_BENCH_SERVER_WORKER_H_
#define BINADE_BENCH_SERVER_WORKER_H_

/* A thread's body; the argument is its `struct server_worker`. Serves phase
 * after phase until the server is over. */
void *server_worker_run(void *worker);

#endif
