/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A program outside the repository: it knows the installed tree only. Uses
 * a host arena, which is what needs hwloc. Prints the library's version and
 * whether the driver it got is the stand-in.
 */
#include <binade/binade.h>

#include <stdio.h>

static binade_status use_an_arena(void)
{
    binade_host *host;
    void *block;
    binade_status status = binade_host_create(NULL, &host);
    if (status != BINADE_OK)
        return status;
    status = binade_host_alloc(host, 1000, BINADE_HOST_CPU, &block);
    if (status == BINADE_OK)
        status = binade_host_free(host, block, BINADE_STREAM_DONE);
    binade_status ended = binade_host_destroy(host, NULL);
    return status == BINADE_OK ? ended : status;
}

int main(void)
{
    binade_caps caps = {.struct_size = sizeof caps};
    binade_status status = binade_probe(0, &caps);
    if (status == BINADE_OK)
        status = use_an_arena();
    if (status != BINADE_OK) {
        fprintf(stderr, "%s: %s\n", binade_status_name(status),
                binade_last_error_message());
        return 1;
    }
    printf("binade %s is_standin %u\n", binade_version(),
           (unsigned)caps.is_standin);
    return 0;
}
