/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A thread's stack of contexts is its own, so it is read without the lock.
 */
#include "pool/standin/base/context.h"

#define STACK_MAX 64

static struct device devices[STANDIN_DEVICE_MAX];
static int devices_made; /* written once, before SI is released */

int device_count(void)
{
    return devices_made;
}

struct device *device_at(int ordinal)
{
    if (ordinal < 0 || ordinal >= devices_made)
        return NULL;
    return &devices[ordinal];
}

struct device *device_next(void)
{
    return &devices[devices_made];
}

void device_note(void)
{
    devices_made++;
}

static struct CUctx_st *contexts; /* all ever made, newest first */

/* The calling thread's stack; [depth - 1] is current. */
static _Thread_local struct CUctx_st *stack[STACK_MAX];
static _Thread_local int depth;

struct CUctx_st *context_first(void)
{
    return contexts;
}

CUresult context_check(CUcontext handle)
{
    for (struct CUctx_st *c = contexts; c; c = c->next)
        if (c == handle)
            return c->is_alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return CUDA_ERROR_INVALID_CONTEXT;
}

struct CUctx_st *context_top(void)
{
    return depth ? stack[depth - 1] : NULL;
}

CUresult context_unknown_address(void)
{
    const struct CUctx_st *context = context_top();
    return context && !context->is_alive ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                         : CUDA_ERROR_INVALID_VALUE;
}

struct CUctx_st *context_current(CUresult *why)
{
    struct CUctx_st *context = context_top();
    *why = CUDA_SUCCESS;
    if (!context)
        *why = CUDA_ERROR_INVALID_CONTEXT;
    else if (!context->is_alive)
        *why = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return *why == CUDA_SUCCESS ? context : NULL;
}

void context_add(struct CUctx_st *context)
{
    context->next = contexts;
    contexts = context;
}

bool context_stack_is_full(void)
{
    return depth == STACK_MAX;
}

bool context_push(struct CUctx_st *context)
{
    if (context_stack_is_full())
        return false;
    stack[depth++] = context;
    return true;
}

struct CUctx_st *context_pop(void)
{
    return depth ? stack[--depth] : NULL;
}
