/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Answers connections, one after the other.
 */
#ifndef BINADE_POOL_OBSERVE_EXPOSE_SERVE_H_
#define BINADE_POOL_OBSERVE_EXPOSE_SERVE_H_

/* Serves the listening socket until `stop` is readable. */
void binadei_serve(int socket, int stop);
/* For the child of a fork: closes the connection that its parent has. */
void binadei_serve_close_in_child(void);

#endif
