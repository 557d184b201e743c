/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A pool's limit, when it is made and later.
 */
#ifndef BINADE_POOL_API_SETTINGS_H_
#define BINADE_POOL_API_SETTINGS_H_

#include <stdint.h>

#include "binade/status.h"

struct binadei_pool_body;

/* `asked_bytes` in whole pages; for 0 the device's memory, or for a source of the
 * caller's what the offset space may hold. BINADE_OK, or why the device does not
 * say what it has. */
BINADE_MUST_USE binade_status binadei_limit_find(struct binadei_pool_body *body,
                                                 uint64_t asked_bytes,
                                                 uint64_t *out);
/* Pages of the offset space of a pool that is made with this limit. */
uint32_t binadei_page_capacity_of(uint64_t limit_bytes);

#endif
