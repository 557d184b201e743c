/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Counts the calls of every entry. Any thread, no lock needed.
 */
#ifndef BINADE_POOL_STANDIN_CALLS_H_
#define BINADE_POOL_STANDIN_CALLS_H_

#include <stdint.h>

#include "pool/standin/entry.h"

void calls_count(enum standin_entry entry);
void calls_reset(void);
uint64_t calls_of(enum standin_entry entry);

#endif
