/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Devices and contexts of the stand-in. A context object is never freed, so a
 * stale handle is recognised and answered as the driver answers it.
 *
 * All functions: lock held, unless said otherwise.
 */
#ifndef BINADE_POOL_STANDIN_CONTEXT_CONTEXT_H_
#define BINADE_POOL_STANDIN_CONTEXT_CONTEXT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/driver/cuda_abi.h"

#define STANDIN_DEVICE_MAX 8

struct device_memory; /* device_memory.c */
struct engine;        /* engine.c: the streams of one context */

struct device {
    int ordinal;
    int pci_domain, pci_bus, pci_device;
    size_t memory_bytes;          /* what the device has */
    struct device_memory *memory; /* made by memory_device_init() */
    struct CUctx_st *primary;     /* NULL before the first retain */
    unsigned primary_references;
    unsigned primary_flags;
};

struct CUctx_st {
    struct CUctx_st *next; /* in the list of all contexts ever made */
    struct device *device;
    uint64_t id;
    unsigned flags;
    unsigned api_version;
    bool is_alive; /* false once destroyed or reset */
    bool is_dying; /* its work is being waited for; not to be revived yet */
    bool is_primary;
    uint64_t peer_mask;    /* bit per device whose memory it may access */
    struct engine *engine; /* made by engine_context_init() */
};

int device_count(void);
/* NULL unless 0 <= ordinal < device_count(). */
struct device *device_at(int ordinal);

/* The calling thread's current context; NULL and *why when there is none
 * (INVALID_CONTEXT) or it was destroyed (CONTEXT_IS_DESTROYED). */
struct CUctx_st *context_current(CUresult *why);
/* What a call that needs no context answers about an address it does not know:
 * CONTEXT_IS_DESTROYED if the current context is dead, else INVALID_VALUE. */
CUresult context_unknown_address(void);
/* The current context, dead or alive; NULL when there is none. */
struct CUctx_st *context_top(void);
/* CUDA_SUCCESS, INVALID_CONTEXT for what never was a context, or
 * CONTEXT_IS_DESTROYED. */
CUresult context_check(CUcontext handle);
/* First context ever made; walk with ->next. */
struct CUctx_st *context_first(void);

/* Lock NOT held. Once, at the first cuInit: reads BINADE_STANDIN_*; a setting
 * with a bad value is named on stderr and fails cuInit (INVALID_VALUE). */
CUresult device_init_all(void);

/* Birth and death of contexts, for the files that make them. Lock held. */
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
