/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A program in plain C, linked by the C compiler's rules with the shared
 * library: what a user gets without any C++ in sight. The stand-in is its
 * driver, so it needs no device.
 */
#define _DEFAULT_SOURCE
#include <moiety/moiety.h>
#include <moiety/probe.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failure_count;

static void check(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "consumer_test: failed: %s\n", what);
        failure_count++;
    }
}

static void check_version(void)
{
    char headers[32];
    snprintf(headers, sizeof headers, "%d.%d.%d", MOIETY_VERSION_MAJOR,
             MOIETY_VERSION_MINOR, MOIETY_VERSION_PATCH);
    check(strcmp(headers, MOIETY_VERSION_STRING) == 0,
          "the two forms of the version agree");
    check(strcmp(moiety_version(), MOIETY_VERSION_STRING) == 0,
          "library and headers are of one version");
}

static void check_status_names(void)
{
    check(strcmp(moiety_status_name(MOIETY_OK), "MOIETY_OK") == 0,
          "status 0 is MOIETY_OK");
    check(strcmp(moiety_status_name(MOIETY_E_NO_DEVICE_MEMORY),
                 "MOIETY_E_NO_DEVICE_MEMORY") == 0,
          "a status has its enumerator's name");
    check(moiety_status_text(MOIETY_E_NO_DRIVER)[0] != '\0',
          "a status has a text");
}

static void check_bad_call(void)
{
    check(moiety_probe(0, NULL) == MOIETY_E_INVALID,
          "a probe without a place for the result is invalid");
    check(moiety_last_error_message()[0] != '\0',
          "a failed call leaves a message");
}

/* Tests run in the root of their runfiles. */
static void name_driver(void)
{
    char folder[PATH_MAX];
    char library[PATH_MAX + 64];
    check(getcwd(folder, sizeof folder) != NULL, "the folder has a name");
    snprintf(library, sizeof library, "%s/pool/standin/libcuda.so.1", folder);
    setenv("MOIETY_DRIVER", library, 1);
}

static void check_block(moiety_pool *pool)
{
    moiety_devptr address = 0;
    size_t usable_bytes = 0;
    check(moiety_alloc(pool, 100000, NULL, &address) == MOIETY_OK &&
              address != 0,
          "a block is allocated");
    check(moiety_usable_size(pool, address, &usable_bytes) == MOIETY_OK &&
              usable_bytes >= 100000,
          "a block holds what was asked for");
    check(moiety_free(pool, address, NULL) == MOIETY_OK, "a block is freed");
}

static void check_stats(moiety_pool *pool)
{
    moiety_pool_stats stats;
    uint64_t value = 0;
    stats.struct_size = (uint32_t)sizeof stats;
    check(moiety_pool_get_stats(pool, &stats) == MOIETY_OK &&
              stats.allocation_allocated == 1 && stats.allocation_current == 0,
          "the pool has counted the block");
    check(moiety_pool_stats_entry(&stats, 0, &value) != NULL && value == 1,
          "the first number is that of segments");
}

static void check_pool(void)
{
    moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
    moiety_leaks leaks;
    moiety_pool *pool = NULL;
    options.limit_bytes = UINT64_C(64) << 20;
    if (moiety_pool_create(&options, &pool) != MOIETY_OK) {
        check(0, moiety_last_error_message());
        return;
    }
    check_block(pool);
    check_stats(pool);
    leaks.struct_size = (uint32_t)sizeof leaks;
    check(moiety_pool_destroy(pool, &leaks) == MOIETY_OK &&
              leaks.block_count == 0,
          "a pool is destroyed without leaks");
}

int main(void)
{
    name_driver();
    check_version();
    check_status_names();
    check_bad_call();
    check_pool();
    printf("consumer_test: %d failed\n", failure_count);
    return failure_count == 0 ? 0 : 1;
}
