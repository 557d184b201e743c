/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Events, as far as the engine and captures see them. Lock held.
 */
#ifndef BINADE_POOL_STANDIN_EVENT_H_
#define BINADE_POOL_STANDIN_EVENT_H_

#include "pool/standin/context.h"

/* The context is gone: its events go, their handles keep saying why. */
void event_end_all(const struct CUctx_st *context);

#endif
