/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A pool's limit, when it is made and later.
 */
#ifndef MOIETY_POOL_API_SETTINGS_H_
#define MOIETY_POOL_API_SETTINGS_H_

#include <stdint.h>

#include "moiety/pool.h"
#include "moiety/status.h"

struct moietyi_pool_body;

/* `asked_bytes` in whole pages; for 0 the device's memory, or for a source of
 * the program the room of the offset space. MOIETY_OK, or why the device does
 * not report its memory. */
MOIETY_MUST_USE moiety_status moietyi_limit_find(struct moietyi_pool_body *body,
                                                 uint64_t asked_bytes,
                                                 uint64_t *out);
/* Makes a pool of moiety_default_pool(), which nobody destroys. */
MOIETY_MUST_USE moiety_status moietyi_default_pool_create(
    const moiety_pool_options *options, moiety_pool **out);
/* Pages of the offset space of a pool that is made with this limit. */
uint32_t moietyi_page_capacity_of(uint64_t limit_bytes);

#endif
