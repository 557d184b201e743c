/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The headers that most programs need, in one include: pools, blocks, streams, pinned
 * memory, statuses and statistics. Every other header is for one task and is included
 * by itself: docs/c-api.md lists them.
 */
#ifndef MOIETY_MOIETY_H_
#define MOIETY_MOIETY_H_

/* IWYU pragma: begin_exports */
#include "moiety/block.h"
#include "moiety/host.h"
#include "moiety/pool.h"
#include "moiety/stats.h"
#include "moiety/status.h"
#include "moiety/stream.h"
#include "moiety/types.h"
#include "moiety/version.h"
/* IWYU pragma: end_exports */

#endif
