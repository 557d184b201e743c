/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Birth and death of contexts.
 *
 * All functions: lock held.
 */
#ifndef MOIETY_POOL_STANDIN_CONTEXT_CONTEXT_H_
#define MOIETY_POOL_STANDIN_CONTEXT_CONTEXT_H_

#include "pool/standin/base/context.h"

bool context_flags_are_good(unsigned flags);

/* A new context on `device`, alive, current nowhere. */
CUresult context_make(struct device *device, unsigned flags,
                      struct CUctx_st **out);

/* Makes a dead context live again, under a new id: the primary context keeps
 * its handle over a reset. */
CUresult context_revive(struct CUctx_st *context, unsigned flags);

/* Ends `context`: its streams, its events, its memory. */
void context_kill(struct CUctx_st *context);

#endif
