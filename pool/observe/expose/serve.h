/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Answers connections, one after the other.
 */
#ifndef MOIETY_POOL_OBSERVE_EXPOSE_SERVE_H_
#define MOIETY_POOL_OBSERVE_EXPOSE_SERVE_H_

/* Serves the listening socket until `stop` is readable. */
void moietyi_serve(int socket, int stop);
/* For the child of a fork: closes the connection that its parent has. */
void moietyi_serve_close_in_child(void);

#endif
