/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A program outside the repository: it knows the installed tree only. Uses
 * a host arena, which is what needs hwloc. Prints the library's version and
 * whether the driver it got is the stand-in.
 */
#include <moiety/moiety.h>
#include <moiety/probe.h>

#include <stdio.h>

static moiety_status use_an_arena(void)
{
    moiety_host *host;
    void *block;
    moiety_status status = moiety_host_create(NULL, &host);
    if (status != MOIETY_OK)
        return status;
    status = moiety_host_alloc(host, 1000, MOIETY_HOST_CPU, &block);
    if (status == MOIETY_OK)
        status = moiety_host_free(host, block, MOIETY_STREAM_DONE);
    moiety_status ended = moiety_host_destroy(host, NULL);
    return status == MOIETY_OK ? ended : status;
}

int main(void)
{
    moiety_caps caps = {.struct_size = sizeof caps};
    moiety_status status = moiety_probe(0, &caps);
    if (status == MOIETY_OK)
        status = use_an_arena();
    if (status != MOIETY_OK) {
        fprintf(stderr, "%s: %s\n", moiety_status_name(status),
                moiety_last_error_message());
        return 1;
    }
    printf("moiety %s is_standin %u\n", moiety_version(),
           (unsigned)caps.is_standin);
    return 0;
}
