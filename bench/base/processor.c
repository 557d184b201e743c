/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "bench/base/processor.h"

#include <pthread.h>
#include <sched.h>

bool processor_pin(unsigned index)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        return false;
    unsigned skip = index % (unsigned)CPU_COUNT(&allowed);
    unsigned cpu = 0;
    while (!CPU_ISSET(cpu, &allowed) || skip-- > 0)
        cpu++;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(cpu, &only);
    return pthread_setaffinity_np(pthread_self(), sizeof(only), &only) == 0;
}
