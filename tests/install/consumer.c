/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A program outside the repository: it knows the installed tree only. Prints
 * the library's version and whether the driver it got is the stand-in.
 */
#include <binade/binade.h>

#include <stdio.h>

int main(void)
{
    binade_caps caps = {.struct_size = sizeof caps};
    binade_status status = binade_probe(0, &caps);
    if (status != BINADE_OK) {
        fprintf(stderr, "%s: %s\n", binade_status_name(status),
                binade_last_error_message());
        return 1;
    }
    printf("binade %s is_standin %u\n", binade_version(),
           (unsigned)caps.is_standin);
    return 0;
}
