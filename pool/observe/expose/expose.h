/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The socket by which other programs look at the pools of this process: a client
 * of the public functions, with a thread of its own. No pool knows of it.
 */
#ifndef MOIETY_POOL_OBSERVE_EXPOSE_EXPOSE_H_
#define MOIETY_POOL_OBSERVE_EXPOSE_EXPOSE_H_

#include "moiety/status.h"

/* Begins to serve if `conf`, MOIETY_CONF's text or NULL, says so and nobody has
 * before. The statuses are those of moiety_expose_start(). Any thread. */
MOIETY_MUST_USE moiety_status moietyi_expose_by_conf(const char *conf);

#endif
