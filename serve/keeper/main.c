/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * moiety-serve: keeps device memory alive beyond the processes that made it. It
 * holds descriptors and never loads a CUDA driver.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "pool/base/failure.h"
#include "serve/client/connection.h"
#include "serve/keeper/keeper.h"

static const char usage[] =
    "usage: moiety-serve --socket PATH [--limit BYTES] [--accept-memfd]\n"
    "       moiety-serve --socket PATH --drain\n"
    "\n"
    "Keeps regions of device memory alive when the processes that made them "
    "end.\n"
    "\n"
    "  --socket PATH   where clients connect; other users are refused\n"
    "  --limit BYTES   bytes of all regions, also as 60G or 60GiB\n"
    "  --drain         ask the keeper at PATH to drop all regions that no "
    "process\n"
    "                  writes\n"
    "  --accept-memfd  for tests: keep memory of the stand-in driver too\n";

static struct moietyi_keeper keeper;

/* Digits, then nothing, or K, M or G, or KiB, MiB or GiB, as in MOIETY_CONF. */
static bool read_bytes(const char *text, uint64_t *out)
{
    static const char suffixes[] = "KMG";
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    uint64_t value = strtoull(text, &end, 10);
    const char *suffix = *end ? strchr(suffixes, *end) : NULL;
    unsigned shift = suffix ? 10U * (unsigned)(suffix - suffixes + 1) : 0;
    end += suffix != NULL;
    *out = value << shift;
    return value && value != UINT64_MAX && *out >> shift == value &&
           (*end == '\0' || (suffix && strcmp(end, "iB") == 0));
}

static bool read_options(int count, char **arguments, bool *out_is_drain)
{
    struct moietyi_keeper_options *options = &keeper.options;
    for (int i = 1; i < count; i++) {
        const char *name = arguments[i];
        const char *value = arguments[i + 1]; /* NULL: the last */
        if (strcmp(name, "--drain") == 0) {
            *out_is_drain = true;
        } else if (strcmp(name, "--accept-memfd") == 0) {
            options->accepts_memfd = true;
        } else if (strcmp(name, "--socket") == 0 && value) {
            options->path = value;
            i++;
        } else if (strcmp(name, "--limit") == 0 && value) {
            if (!read_bytes(value, &options->limit_bytes))
                return false;
            i++;
        } else {
            return false;
        }
    }
    return options->path != NULL;
}

static int ask_to_drain(void)
{
    struct moiety_keeper *connection;
    struct moietyi_serve_received received = {
        .frame = {.kind = MOIETYI_SERVE_DRAIN}};
    moiety_status status =
        moietyi_connection_open(keeper.options.path, &connection);
    if (status == MOIETY_OK) {
        status = moietyi_connection_ask(connection, &received, NULL, 0);
        moietyi_connection_close(connection);
    }
    if (status != MOIETY_OK) {
        (void)fprintf(stderr, "moiety-serve: %s\n", moietyi_failure_message());
        return 1;
    }
    (void)printf("%" PRIu64 " regions dropped\n", received.frame.cursor);
    return 0;
}

/* Each handle of a region is a descriptor. */
static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int count, char **arguments)
{
    bool is_drain = false;
    if (count == 2 && strcmp(arguments[1], "--help") == 0) {
        (void)fputs(usage, stdout);
        return 0;
    }
    if (!read_options(count, arguments, &is_drain)) {
        (void)fputs(usage, stderr);
        return 2;
    }
    if (is_drain)
        return ask_to_drain();
    raise_descriptors();
    keeper.listener = moietyi_socket_listen(keeper.options.path);
    if (keeper.listener < 0)
        return 1;
    int code = moietyi_vault_run(moietyi_keeper_serve, &keeper);
    (void)unlink(keeper.options.path);
    return code;
}
