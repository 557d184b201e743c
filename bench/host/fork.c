/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a fork takes beside pinned memory, and what the child has of it: of a host
 * arena as it is, of one that children have, of memory that only the driver has
 * registered, and of the driver's own. Milliseconds, the median of five forks.
 *
 *   bazel run //bench/host:fork -- [GIB]
 *
 * MOIETY_DRIVER as always. The stand-in pins nothing: there a fork copies nothing.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <moiety/moiety.h>
#include <moiety/probe.h>

#include "bench/base/clock.h"
#include "pool/driver/driver_table.h"
#include "pool/driver/status.h"

#define FORKS 5
#define GIB_BY_ITSELF 8

/* KiB; -1: the kernel does not tell. */
static long private_dirty(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    long found = -1;
    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "Private_Dirty: %ld", &found) == 1)
            break;
    if (file)
        (void)fclose(file);
    return found;
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Milliseconds; `out_kib` gets what the child owns. */
static double fork_once(long *out_kib)
{
    int ends[2];
    *out_kib = -1;
    if (pipe(ends) != 0)
        return -1;
    uint64_t begin_ns = clock_now_ns();
    pid_t child = fork();
    if (child == 0) {
        long kib = private_dirty();
        _exit(write(ends[1], &kib, sizeof(kib)) != sizeof(kib));
    }
    double ms = (double)(clock_now_ns() - begin_ns) / 1e6;
    (void)close(ends[1]);
    if (child < 0 || read(ends[0], out_kib, sizeof(*out_kib)) < 0 ||
        waitpid(child, NULL, 0) < 0)
        ms = -1;
    (void)close(ends[0]);
    return ms;
}

static void measure(const char *what)
{
    double ms[FORKS];
    long kib = 0;
    for (int i = 0; i < FORKS; i++)
        ms[i] = fork_once(&kib);
    qsort(ms, FORKS, sizeof(ms[0]), by_value);
    printf("%-44s %10.2f ms  child owns %ld MiB\n", what, ms[FORKS / 2],
           kib >> 10);
    (void)fflush(stdout);
}

static void refuse(const char *what)
{
    printf("%s: %s\n", what, moiety_last_error_message());
}

static void measure_arena(size_t size_bytes)
{
    moiety_host *arena;
    moiety_host_options options = MOIETY_HOST_OPTIONS_INIT;
    options.limit_bytes = size_bytes;
    if (moiety_host_create(&options, &arena) != MOIETY_OK) {
        refuse("an arena");
        return;
    }
    if (moiety_host_reserve(arena, size_bytes, 0, NULL, NULL) == MOIETY_OK) {
        measure("an arena");
        if (moiety_host_copy_to_children(arena) == MOIETY_OK)
            measure("an arena that children have");
    } else {
        refuse("an arena");
    }
    if (moiety_host_destroy(arena, NULL) != MOIETY_OK)
        refuse("the end of an arena");
}

static void measure_registered(const struct moietyi_driver *driver,
                               size_t size_bytes)
{
    void *base = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return;
    (void)madvise(base, size_bytes, MADV_HUGEPAGE);
    memset(base, 1, size_bytes);
    measure("ordinary memory");
    if (driver->cuMemHostRegister(base, size_bytes, 0) == CUDA_SUCCESS) {
        measure("the same, registered by cuMemHostRegister()");
        (void)driver->cuMemHostUnregister(base);
    }
    (void)munmap(base, size_bytes);
}

static void measure_allocated(const struct moietyi_driver *driver,
                              size_t size_bytes)
{
    void *base;
    if (driver->cuMemHostAlloc(&base, size_bytes, 0) != CUDA_SUCCESS)
        return;
    memset(base, 1, size_bytes);
    measure("memory of cuMemHostAlloc()");
    (void)driver->cuMemFreeHost(base);
}

int main(int count, char **arguments)
{
    long gib = count > 1 ? strtol(arguments[1], NULL, 10) : GIB_BY_ITSELF;
    CUcontext context;
    moiety_caps caps = {.struct_size = sizeof(caps)};
    if (gib < 1 || moiety_probe(0, &caps) != MOIETY_OK) {
        refuse("fork [GIB]");
        return 1;
    }
    const struct moietyi_driver *driver = moietyi_driver_opened();
    if (driver->cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        driver->cuCtxSetCurrent(context) != CUDA_SUCCESS)
        return 1;
    size_t size_bytes = (size_t)gib << 30;
    printf("%ld GiB on %s\n", gib, caps.is_standin ? "the stand-in" : "a GPU");
    measure("nothing");
    measure_arena(size_bytes);
    measure_registered(driver, size_bytes);
    measure_allocated(driver, size_bytes);
    return 0;
}
