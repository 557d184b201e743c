/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * One request, from its input to its checked response.
 */
#ifndef MOIETY_BENCH_SERVER_SERVICE_H_
#define MOIETY_BENCH_SERVER_SERVICE_H_

#include <stddef.h>

#include "bench/server/request.h"
#include "bench/server/server.h"

/* Bytes of the ends of tensors that come back with the response. */
#define SERVER_SAMPLE_BYTES ((size_t)2048)
/* The input's tail, each tensor's, and the last tensor's head. */
#define SERVER_RESPONSE_BYTES ((SERVER_TENSORS_MAX + 2) * SERVER_SAMPLE_BYTES)

/* Serves a request on the worker's stream and waits for its response. What is
 * wrong with the response goes into the worker's counts. After a failure
 * nothing of it is left allocated either. Allocates and frees only by the
 * subject. */
MOIETY_MUST_USE moiety_status server_serve(
    struct server_worker *worker, const struct server_request *request);

/* Frees what other threads have left in the worker's mailbox. */
MOIETY_MUST_USE moiety_status server_free_mail(struct server_worker *worker);

#endif
