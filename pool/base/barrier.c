/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The command's numbers are the kernel's ABI, so its headers are not needed.
 */
#define _DEFAULT_SOURCE
#include "pool/base/barrier.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PRIVATE_EXPEDITED (1 << 3)
#define REGISTER_PRIVATE_EXPEDITED (1 << 4)

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool is_there;

static bool membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

static void barrier_ask(void)
{
    is_there = membarrier(REGISTER_PRIVATE_EXPEDITED);
}

bool moietyi_barrier_is_there(void)
{
    return pthread_once(&once, barrier_ask) == 0 && is_there;
}

bool moietyi_barrier_all(void)
{
    return membarrier(PRIVATE_EXPEDITED);
}
