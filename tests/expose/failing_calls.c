/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "tests/expose/failing_calls.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* The linker's names for the C library's functions and for ours. */
int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);
int __real_bind(int own, const struct sockaddr *address, socklen_t bytes);
int __wrap_bind(int own, const struct sockaddr *address, socklen_t bytes);
int __real_listen(int own, int backlog);
int __wrap_listen(int own, int backlog);
int __real_fchmod(int file, mode_t mode);
int __wrap_fchmod(int file, mode_t mode);
int __real_flock(int file, int operation);
int __wrap_flock(int file, int operation);
int __real_eventfd(unsigned value, int flags);
int __wrap_eventfd(unsigned value, int flags);
int __real_pthread_create(pthread_t *out, const pthread_attr_t *attributes,
                          void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes,
                          void *(*run)(void *), void *argument);
int __real_accept4(int own, struct sockaddr *address, socklen_t *bytes,
                   int flags);
int __wrap_accept4(int own, struct sockaddr *address, socklen_t *bytes,
                   int flags);
int __real_getsockopt(int own, int level, int name, void *out,
                      socklen_t *bytes);
int __wrap_getsockopt(int own, int level, int name, void *out,
                      socklen_t *bytes);

static _Atomic(const char *) failing;
static _Atomic int failing_with;
static _Atomic int are_foreign;
static _Atomic unsigned failed_count;

void failing_calls_set(const char *name, int error)
{
    atomic_store(&failed_count, 0);
    atomic_store(&failing_with, error);
    atomic_store(&failing, name);
}

unsigned failing_calls_failed(void)
{
    return atomic_load(&failed_count);
}

void failing_calls_make_peers_foreign(int is_foreign)
{
    atomic_store(&are_foreign, is_foreign);
}

static int fails(const char *name)
{
    const char *one = atomic_load(&failing);
    if (!one || strcmp(one, name) != 0)
        return 0;
    atomic_fetch_add(&failed_count, 1);
    errno = atomic_load(&failing_with);
    return errno;
}

int __wrap_socket(int domain, int type, int protocol)
{
    return fails("socket") ? -1 : __real_socket(domain, type, protocol);
}

int __wrap_bind(int own, const struct sockaddr *address, socklen_t bytes)
{
    return fails("bind") ? -1 : __real_bind(own, address, bytes);
}

int __wrap_listen(int own, int backlog)
{
    return fails("listen") ? -1 : __real_listen(own, backlog);
}

int __wrap_fchmod(int file, mode_t mode)
{
    return fails("fchmod") ? -1 : __real_fchmod(file, mode);
}

int __wrap_flock(int file, int operation)
{
    return fails("flock") ? -1 : __real_flock(file, operation);
}

int __wrap_eventfd(unsigned value, int flags)
{
    return fails("eventfd") ? -1 : __real_eventfd(value, flags);
}

int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes,
                          void *(*run)(void *), void *argument)
{
    int error = fails("pthread_create");
    return error ? error
                 : __real_pthread_create(out, attributes, run, argument);
}

int __wrap_accept4(int own, struct sockaddr *address, socklen_t *bytes,
                   int flags)
{
    return fails("accept4") ? -1 : __real_accept4(own, address, bytes, flags);
}

int __wrap_getsockopt(int own, int level, int name, void *out, socklen_t *bytes)
{
    int result = __real_getsockopt(own, level, name, out, bytes);
    if (result == 0 && level == SOL_SOCKET && name == SO_PEERCRED &&
        atomic_load(&are_foreign))
        ((struct ucred *)out)->uid++;
    return result;
}
