/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * It is no inline function, so that only this file needs what the C standard
 * does not have.
 */
#define _POSIX_C_SOURCE 200809L
#include "bench/base/clock.h"

#include <time.h>

uint64_t clock_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}
