/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "tests/support/tools/failing_steps.h"

#include <errno.h>
#include <hwloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* The linker's names for the libraries' functions and for ours. */
void *__real_mmap(void *, size_t, int, int, int, off_t);
void *__wrap_mmap(void *, size_t, int, int, int, off_t);
int __real_munmap(void *, size_t);
int __wrap_munmap(void *, size_t);
int __real_madvise(void *, size_t, int);
int __wrap_madvise(void *, size_t, int);
long __real_syscall(long, ...);
long __wrap_syscall(long, ...);
int __real_pthread_create(pthread_t *, const pthread_attr_t *,
                          void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *, const pthread_attr_t *,
                          void *(*)(void *), void *);
int __real_hwloc_set_area_membind(hwloc_topology_t, const void *, size_t,
                                  hwloc_const_bitmap_t, hwloc_membind_policy_t,
                                  int);
int __wrap_hwloc_set_area_membind(hwloc_topology_t, const void *, size_t,
                                  hwloc_const_bitmap_t, hwloc_membind_policy_t,
                                  int);
int __real_hwloc_set_membind(hwloc_topology_t, hwloc_const_bitmap_t,
                             hwloc_membind_policy_t, int);
int __wrap_hwloc_set_membind(hwloc_topology_t, hwloc_const_bitmap_t,
                             hwloc_membind_policy_t, int);

static atomic_int armed = FAILING_STEP_COUNT;
static atomic_uint first_call;
static atomic_uint call_count;
static atomic_uint calls;
static atomic_bool is_deadly;
static void (*called)(void *data);
static void *called_data;
static atomic_llong mapped_bytes;

void failing_steps_arm(enum failing_step step, unsigned first, unsigned count)
{
    first_call = first;
    call_count = count;
    calls = 0;
    is_deadly = false;
    called = NULL;
    armed = step;
}

void failing_steps_arm_call(enum failing_step step, unsigned first,
                            void (*function)(void *data), void *data)
{
    failing_steps_arm(FAILING_STEP_COUNT, first, 1);
    called = function;
    called_data = data;
    armed = step;
}

void failing_steps_arm_kill(enum failing_step step, unsigned first)
{
    failing_steps_arm(step, first, 1);
    is_deadly = true;
}

unsigned failing_steps_disarm(void)
{
    armed = FAILING_STEP_COUNT;
    return calls;
}

int64_t failing_steps_mapped_bytes(void)
{
    return mapped_bytes;
}

/* Sets errno, too. */
static bool fails_now(enum failing_step step, int code)
{
    if (armed != (int)step)
        return false;
    unsigned number = 1 + atomic_fetch_add(&calls, 1);
    if (number < first_call || number - first_call >= call_count)
        return false;
    if (is_deadly)
        (void)raise(SIGKILL);
    if (called) {
        called(called_data);
        return false;
    }
    errno = code;
    return true;
}

void *__wrap_mmap(void *wish, size_t bytes, int protection, int flags, int file,
                  off_t offset)
{
    if (fails_now(FAILING_MAP, ENOMEM))
        return MAP_FAILED;
    void *base = __real_mmap(wish, bytes, protection, flags, file, offset);
    if (base != MAP_FAILED)
        atomic_fetch_add(&mapped_bytes, (long long)bytes);
    return base;
}

int __wrap_munmap(void *base, size_t bytes)
{
    int code = __real_munmap(base, bytes);
    if (code == 0)
        atomic_fetch_sub(&mapped_bytes, (long long)bytes);
    return code;
}

int __wrap_madvise(void *base, size_t bytes, int advice)
{
    if (advice == MADV_POPULATE_WRITE &&
        (fails_now(FAILING_POPULATE, ENOMEM) ||
         fails_now(FAILING_OLD_POPULATE, EINVAL) ||
         fails_now(FAILING_FORBIDDEN_POPULATE, EPERM)))
        return -1;
    if (advice == MADV_HUGEPAGE && fails_now(FAILING_HUGE_WISH, EINVAL))
        return -1;
    return __real_madvise(base, bytes, advice);
}

long __wrap_syscall(long number, ...)
{
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_move_pages && fails_now(FAILING_READ_BACK, EPERM))
        return -1;
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *argument)
{
    if (fails_now(FAILING_START, EAGAIN))
        return EAGAIN;
    return __real_pthread_create(out, attributes, start, argument);
}

int __wrap_hwloc_set_area_membind(hwloc_topology_t topology, const void *base,
                                  size_t bytes, hwloc_const_bitmap_t set,
                                  hwloc_membind_policy_t policy, int flags)
{
    if (fails_now(FAILING_BIND, EPERM))
        return -1;
    return __real_hwloc_set_area_membind(topology, base, bytes, set, policy,
                                         flags);
}

int __wrap_hwloc_set_membind(hwloc_topology_t topology,
                             hwloc_const_bitmap_t set,
                             hwloc_membind_policy_t policy, int flags)
{
    if (fails_now(FAILING_BIND_THREAD, EPERM))
        return -1;
    return __real_hwloc_set_membind(topology, set, policy, flags);
}
