/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * All of Moiety's public interface in one include.
 */
#ifndef MOIETY_MOIETY_H_
#define MOIETY_MOIETY_H_

/* IWYU pragma: begin_exports */
#include "moiety/block.h"
#include "moiety/callbacks.h"
#include "moiety/checked.h"
#include "moiety/expose.h"
#include "moiety/heap.h"
#include "moiety/history.h"
#include "moiety/host.h"
#include "moiety/ipc.h"
#include "moiety/oom.h"
#include "moiety/pool.h"
#include "moiety/private.h"
#include "moiety/probe.h"
#include "moiety/scope.h"
#include "moiety/segment.h"
#include "moiety/source.h"
#include "moiety/stats.h"
#include "moiety/status.h"
#include "moiety/stream.h"
#include "moiety/tenant.h"
#include "moiety/trace.h"
#include "moiety/types.h"
#include "moiety/version.h"
/* IWYU pragma: end_exports */

#endif
