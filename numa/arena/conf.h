/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The keys of BINADE_CONF that are for host arenas: those that begin with
 * "host_". The others are for pools of device memory, which leave these alone.
 */
#ifndef BINADE_NUMA_ARENA_CONF_H_
#define BINADE_NUMA_ARENA_CONF_H_

#include "binade/host.h"

/* Goes over `options` with the text of BINADE_CONF, NULL for none. BINADE_OK, or
 * BINADE_E_INVALID with a message that names key, value and what is accepted:
 * then `options` are half changed. */
BINADE_MUST_USE binade_status
binadei_host_apply_conf(const char *conf, binade_host_options *options);

#endif
