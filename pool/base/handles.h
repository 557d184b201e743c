/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Public handles that are numbers: pointer types which differ, so that a compiler
 * refuses one for another, and which point to nothing. All conversions are here.
 */
#ifndef MOIETY_POOL_BASE_HANDLES_H_
#define MOIETY_POOL_BASE_HANDLES_H_

#include <stdint.h>

#include "moiety/types.h"

/* A number in a handle loses nothing. */
_Static_assert(sizeof(uintptr_t) == sizeof(uint64_t), "");

#define MOIETYI_HANDLE(thing)                                                  \
    static inline uint64_t moietyi_number_of_##thing(moiety_##thing handle)    \
    {                                                                          \
        return (uint64_t)(uintptr_t)handle;                                    \
    }                                                                          \
    static inline moiety_##thing moietyi_##thing##_of_number(uint64_t number)  \
    {                                                                          \
        return (moiety_##thing)(uintptr_t)number;                              \
    }

MOIETYI_HANDLE(tenant)
MOIETYI_HANDLE(private)
MOIETYI_HANDLE(scope)
MOIETYI_HANDLE(watch)
MOIETYI_HANDLE(closing)

#undef MOIETYI_HANDLE

#endif
