/*
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BINADE_POOL_OBSERVE_EXPOSE_EXPOSE_H_
#define BINADE_POOL_OBSERVE_EXPOSE_EXPOSE_H_

#include "binade/status.h"

/* Begins to serve if `conf`, BINADE_CONF's text or NULL, says so and nobody has
 * before. The statuses are those of binade_expose_start(). Any thread. */
BINADE_MUST_USE binade_status binadei_expose_by_conf(const char *conf);

#endif
