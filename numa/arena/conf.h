/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The keys of MOIETY_CONF that are for host arenas: those that begin with
 * "host_". The others are for pools of device memory, which leave these alone.
 */
#ifndef MOIETY_NUMA_ARENA_CONF_H_
#define MOIETY_NUMA_ARENA_CONF_H_

#include "moiety/host.h"

/* Overrides `options` by the text of MOIETY_CONF, NULL for none. MOIETY_OK, or
 * MOIETY_E_INVALID with a message that names the key, its value and the
 * accepted values: then `options` are half changed. */
MOIETY_MUST_USE moiety_status
moietyi_host_apply_conf(const char *conf, moiety_host_options *options);

#endif
