/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A program in plain C, linked by the C compiler's rules with the shared
 * library: what a user gets without any C++ in sight. It needs no driver and
 * no device.
 */
#include <binade/binade.h>

#include <stdio.h>
#include <string.h>

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
    snprintf(headers, sizeof headers, "%d.%d.%d", BINADE_VERSION_MAJOR,
             BINADE_VERSION_MINOR, BINADE_VERSION_PATCH);
    check(strcmp(headers, BINADE_VERSION_STRING) == 0,
          "the two forms of the version agree");
    check(strcmp(binade_version(), BINADE_VERSION_STRING) == 0,
          "library and headers are of one version");
}

static void check_status_names(void)
{
    check(strcmp(binade_status_name(BINADE_OK), "BINADE_OK") == 0,
          "status 0 is BINADE_OK");
    check(strcmp(binade_status_name(BINADE_E_NO_DEVICE_MEMORY),
                 "BINADE_E_NO_DEVICE_MEMORY") == 0,
          "a status has its enumerator's name");
    check(binade_status_text(BINADE_E_NO_DRIVER)[0] != '\0',
          "a status has a text");
}

static void check_bad_call(void)
{
    check(binade_probe(0, NULL) == BINADE_E_INVALID,
          "a probe without a place for the result is invalid");
    check(binade_last_error_message()[0] != '\0',
          "a failed call leaves a message");
}

int main(void)
{
    check_version();
    check_status_names();
    check_bad_call();
    printf("consumer_test: %d failed\n", failure_count);
    return failure_count == 0 ? 0 : 1;
}
