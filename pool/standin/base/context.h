/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which devices and contexts there are, and which is current in a thread. A
 * context object is never freed, so a stale handle is recognised and answered as
 * the driver answers it. What ends with a context is context/context.c's to say.
 *
 * All functions: lock held, unless said otherwise.
 */
#ifndef MOIETY_POOL_STANDIN_BASE_CONTEXT_H_
#define MOIETY_POOL_STANDIN_BASE_CONTEXT_H_

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

/* The devices, made at the first cuInit, live as long as the process. */
int device_count(void);
/* NULL unless 0 <= ordinal < device_count(). */
struct device *device_at(int ordinal);
/* The next one, of ordinal device_count(), to be filled; device_note() then
 * counts it. */
struct device *device_next(void);
void device_note(void);

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

/* Adds a context that was just made. */
void context_add(struct CUctx_st *context);

/* The calling thread's stack of contexts. Lock held or not. False: it is full. */
bool context_stack_is_full(void);
bool context_push(struct CUctx_st *context);
/* Takes the current one off; NULL when there is none. */
struct CUctx_st *context_pop(void);

#endif
