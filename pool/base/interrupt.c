/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/base/interrupt.h"

#include "moiety/callbacks.h"

#include "pool/base/clock.h"

#define ASK_NS UINT64_C(50000000)

static _Thread_local struct {
    moiety_interrupt_fn *function;
    void *user;
    uint64_t next_ns;
    bool is_interrupted;
} own;

void moiety_set_interrupt(moiety_interrupt_fn *function, void *user)
{
    own.function = function;
    own.user = user;
    own.next_ns = 0;
    own.is_interrupted = false;
}

void moietyi_interrupt_ask(void)
{
    uint64_t now_ns =
        own.function && !own.is_interrupted ? moietyi_now_ns() : 0;
    if (!now_ns || now_ns < own.next_ns)
        return;
    own.next_ns = now_ns + ASK_NS;
    own.is_interrupted = own.function(own.user) != 0;
}

bool moietyi_is_interrupted(void)
{
    return own.is_interrupted;
}

bool moietyi_is_overdue(uint64_t end_ns)
{
    return own.is_interrupted || moietyi_now_ns() >= end_ns;
}
