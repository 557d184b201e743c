/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * All of Binade's public interface in one include.
 */
#ifndef BINADE_BINADE_H_
#define BINADE_BINADE_H_

/* IWYU pragma: begin_exports */
#include "binade/blocks.h"
#include "binade/checked.h"
#include "binade/expose.h"
#include "binade/heap.h"
#include "binade/history.h"
#include "binade/host.h"
#include "binade/ipc.h"
#include "binade/oom.h"
#include "binade/pool.h"
#include "binade/private.h"
#include "binade/probe.h"
#include "binade/record.h"
#include "binade/scope.h"
#include "binade/segment.h"
#include "binade/source.h"
#include "binade/stats.h"
#include "binade/status.h"
#include "binade/stream.h"
#include "binade/tenant.h"
#include "binade/types.h"
#include "binade/version.h"
/* IWYU pragma: end_exports */

#endif
