/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "tests/truth/kit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "moiety/probe.h"
#include "tests/support/driver_probe.h"

struct kit_driver cu;

static bool read_number(const struct argument *row, const char *text)
{
    char *end;
    errno = 0;
    *row->number = strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && !*end && !errno &&
        *row->number >= row->least && *row->number <= row->most)
        return true;
    (void)fprintf(stderr,
                  "--%s=%s: accepted values are %" PRIu64 " to %" PRIu64 "\n",
                  row->name, text, row->least, row->most);
    return false;
}

static bool read_argument(const char *argument, const struct argument *table)
{
    for (const struct argument *row = table; row->name; row++) {
        size_t length = strlen(row->name);
        if (strncmp(argument, "--", 2) != 0 ||
            strncmp(argument + 2, row->name, length) != 0 ||
            argument[2 + length] != '=')
            continue;
        const char *value = argument + 3 + length;
        if (row->number)
            return read_number(row, value);
        *row->text = value;
        return true;
    }
    (void)fprintf(stderr, "%s is not accepted\n", argument);
    return false;
}

bool kit_arguments(int argc, char **argv, const struct argument *table,
                   const char *usage)
{
    for (int i = 1; i < argc; i++) {
        if (read_argument(argv[i], table))
            continue;
        (void)fputs(usage, stderr);
        return false;
    }
    return true;
}

/* ISO C has no conversion from an object pointer to a function's; POSIX
 * promises that the representation is the same. */
static void find(const char *name, void *entry)
{
    void *function = driver_probe_function(name);
    memcpy(entry, &function, sizeof(function));
}

static void find_entries(void)
{
#define ENTRY(base, version, symbol, need, memory, parameters)                 \
    find(#base, &cu.base);
#include "pool/driver/cuda_entries.inc"
}

CUcontext kit_open_driver(const char *choice)
{
    moiety_caps caps = {.struct_size = sizeof(caps)};
    CUcontext context = NULL;
    if (choice)
        (void)setenv("MOIETY_DRIVER", choice, 1);
    /* Streams that share a channel wait for each other, which would hide that
     * they do not have to. */
    (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    if (moiety_probe(0, &caps) != MOIETY_OK) {
        (void)fprintf(stderr, "%s\n", moiety_last_error_message());
        return NULL;
    }
    printf("%s, %s, CUDA %d.%d%s\n", caps.library_path, caps.device_name,
           caps.driver_version / 1000, caps.driver_version % 1000 / 10,
           caps.is_standin ? " (the stand-in: no GPU is used)" : "");
    find_entries();
    MUST(cu.cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cu.cuCtxSetCurrent(context));
    return context;
}

void kit_must(CUresult code, const char *call)
{
    const char *name = NULL;
    if (code == CUDA_SUCCESS)
        return;
    (void)cu.cuGetErrorName(code, &name);
    (void)fprintf(stderr, "%s: %s\n", call, name ? name : "unknown");
    (void)fflush(NULL);
    _Exit(EXIT_DRIVER);
}

CUstream kit_create_stream(uint64_t random)
{
    CUstream stream = NULL;
    MUST(cu.cuStreamCreate(&stream, random % 4 ? CU_STREAM_NON_BLOCKING : 0));
    return stream;
}

void kit_require(bool condition, const char *what)
{
    if (condition)
        return;
    (void)fprintf(stderr, "%s failed\n", what);
    (void)fflush(NULL);
    _Exit(EXIT_DRIVER);
}

uint64_t kit_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

void kit_pause_us(long duration_us)
{
    struct timespec duration = {.tv_sec = duration_us / 1000000,
                                .tv_nsec = duration_us % 1000000 * 1000};
    /* As long as its caller says. */
    (void)nanosleep(&duration, NULL);
}

void kit_print_stats(moiety_pool *pool)
{
    moiety_pool_stats stats = {.struct_size = sizeof(stats)};
    const char *key;
    uint64_t value;
    if (moiety_pool_get_stats(pool, &stats) != MOIETY_OK)
        return;
    for (uint32_t i = 0; (key = moiety_pool_stats_entry(&stats, i, &value));
         i++)
        if (value)
            printf("  %-36s %" PRIu64 "\n", key, value);
}
