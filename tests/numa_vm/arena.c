/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Runs in the guest: one host arena of the library, on the stand-in driver,
 * whose devices are the guest's. It takes all that the arena reserves as one
 * block, and asks the kernel, not the library, where that block's pages are.
 *
 *   arena WHERE BYTES [FLAG...]
 *
 *   WHERE  near DEVICE | on NODES | across NODES | caller
 *   NODES  numbers with commas between them
 *   FLAG   strict | 2MiB | 1GiB | driver | async
 *
 * `driver` lets the driver allocate, and `async` reserves in a thread of the library.
 *
 * Prints the pages, then the library's own count and report; or the status and
 * its message, with exit status 1.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "moiety/host.h"
#include "tests/numa_vm/pages.h"

struct flag {
    const char *name;
    uint32_t bit;
};

static const struct flag kinds[] = {
    {"strict", MOIETY_HOST_STRICT},           {"2MiB", MOIETY_HOST_HUGE_2MIB},
    {"1GiB", MOIETY_HOST_HUGE_1GIB},          {"driver", MOIETY_HOST_BY_DRIVER},
    {"combined", MOIETY_HOST_WRITE_COMBINED},
};

static bool is_async;

static const struct flag fallbacks[] = {
    {"unbound", MOIETY_HOST_FELL_TO_UNBOUND},
    {"elsewhere", MOIETY_HOST_FELL_ELSEWHERE},
    {"2MiB", MOIETY_HOST_FELL_TO_2MIB},
    {"transparent", MOIETY_HOST_FELL_TO_TRANSPARENT},
    {"fewer threads", MOIETY_HOST_FELL_TO_FEWER_THREADS},
    {"unverified", MOIETY_HOST_FELL_TO_UNVERIFIED},
    {"other nodes", MOIETY_HOST_FELL_TO_OTHER_NODES},
    {"driver", MOIETY_HOST_FELL_TO_DRIVER},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static int usage(void)
{
    puts("usage: arena near DEVICE | on NODES | across NODES | caller, then "
         "BYTES [strict] [2MiB] [1GiB] [driver] [combined] [async]");
    return 1;
}

static int refused(moiety_status status)
{
    printf("%s: %s\n", moiety_status_name(status), moiety_last_error_message());
    return 1;
}

static void add_nodes(moiety_host_options *options, const char *text)
{
    char *end;
    do {
        unsigned long node = strtoul(text, &end, 10);
        options->nodes[node / 64 % 4] |= UINT64_C(1) << node % 64;
        text = end + 1;
    } while (*end == ',');
}

/* Takes the words of WHERE off the front; NULL if they are none. */
static char **read_where(char **words, moiety_host_options *out)
{
    if (!words[0])
        return NULL;
    if (strcmp(words[0], "caller") == 0) {
        out->policy = MOIETY_HOST_CALLER;
        return words + 1;
    }
    if (!words[1])
        return NULL;
    if (strcmp(words[0], "near") == 0)
        out->device = (int32_t)strtol(words[1], NULL, 10);
    else
        add_nodes(out, words[1]);
    if (strcmp(words[0], "on") == 0)
        out->policy = MOIETY_HOST_EXPLICIT;
    if (strcmp(words[0], "across") == 0)
        out->policy = MOIETY_HOST_INTERLEAVE;
    return words + 2;
}

static bool read_flags(char **words, moiety_host_options *out)
{
    for (; *words; words++) {
        uint32_t bit = 0;
        for (size_t i = 0; i < COUNT(kinds); i++)
            if (strcmp(*words, kinds[i].name) == 0)
                bit = kinds[i].bit;
        if (strcmp(*words, "async") == 0)
            is_async = true;
        else if (!bit)
            return false;
        out->flags |= bit;
    }
    return true;
}

/* What the library says, in the order of the header. */
static int print_stats(moiety_host *host)
{
    moiety_host_stats stats = {.struct_size = (uint32_t)sizeof(stats)};
    char report[512];
    moiety_status status = moiety_host_get_stats(host, &stats);
    if (status == MOIETY_OK)
        status = moiety_host_report(host, report, sizeof(report));
    if (status != MOIETY_OK)
        return refused(status);
    printf("library: asked %llu, near %llu, elsewhere %llu; fell to:",
           (unsigned long long)stats.pages_asked,
           (unsigned long long)stats.pages_near,
           (unsigned long long)stats.pages_elsewhere);
    for (size_t i = 0; i < COUNT(fallbacks); i++)
        if (stats.fallbacks & fallbacks[i].bit)
            printf(" %s", fallbacks[i].name);
    printf("\nlibrary: %s\n", report);
    return 0;
}

static moiety_status reserve(moiety_host *host, size_t size_bytes)
{
    moiety_growth *growth;
    if (!is_async)
        return moiety_host_reserve(host, size_bytes, 0, NULL, NULL);
    moiety_status status =
        moiety_host_reserve_async(host, size_bytes, 0, &growth);
    if (status != MOIETY_OK)
        return status;
    status = moiety_growth_wait(growth, 600000);
    moiety_status end = moiety_growth_destroy(growth);
    return status == MOIETY_OK ? end : status;
}

static int show(moiety_host *host, size_t size_bytes)
{
    void *block;
    struct page_count count;
    moiety_status status = reserve(host, size_bytes);
    if (status == MOIETY_OK)
        status = moiety_host_alloc(host, size_bytes, MOIETY_HOST_CPU, &block);
    if (status != MOIETY_OK)
        return refused(status);
    memset(block, 1, size_bytes);
    if (pages_count(block, size_bytes, &count))
        pages_print(&count);
    else
        puts("the kernel does not tell");
    int result = print_stats(host);
    status = moiety_host_free(host, block, MOIETY_STREAM_DONE);
    return status == MOIETY_OK ? result : refused(status);
}

int main(int argc, char **argv)
{
    moiety_host_options options = MOIETY_HOST_OPTIONS_INIT;
    moiety_host *host;
    char **words = read_where(argv + 1, &options);
    if (argc < 3 || !words || !words[0] || !read_flags(words + 1, &options))
        return usage();
    size_t size_bytes = strtoull(words[0], NULL, 10);
    /* One segment, as it is to be one block. */
    options.first_segment_bytes = options.largest_segment_bytes = size_bytes;
    moiety_status status = moiety_host_create(&options, &host);
    if (status != MOIETY_OK)
        return refused(status);
    int result = show(host, size_bytes);
    status = moiety_host_destroy(host, NULL);
    return status == MOIETY_OK ? result : refused(status);
}
