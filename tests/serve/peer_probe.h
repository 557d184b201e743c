/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The keeper's look at the other end of a socket, as if the keeper were of another
 * user: no process has to be.
 */
#ifndef MOIETY_TESTS_SERVE_PEER_PROBE_H_
#define MOIETY_TESTS_SERVE_PEER_PROBE_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A moiety_status: of a keeper of one user, whose peer is of another or the same. */
int peer_probe_ask(int socket, uint32_t keeper, uint32_t peer);

#ifdef __cplusplus
}
#endif

#endif
