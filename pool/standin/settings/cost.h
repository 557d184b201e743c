/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Simulated driver times: with MOIETY_STANDIN_COST=h200 a call keeps its
 * thread busy about as long as an H200's driver does, so that a comparison on
 * the stand-in has the right order of magnitude. A result that was
 * measured with it must say so.
 */
#ifndef MOIETY_POOL_STANDIN_SETTINGS_COST_H_
#define MOIETY_POOL_STANDIN_SETTINGS_COST_H_

#include <stddef.h>

#include "pool/standin/base/names.h"

/* Charges what one call of `entry` costs whatever its size. */
void cost_charge(enum standin_entry entry);

/* Charges what pinning or releasing `size_bytes` of host memory costs on top.
 * Lock NOT held. */
void cost_charge_pinned(enum standin_entry entry, size_t size_bytes);

#endif
