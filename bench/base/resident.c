/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "bench/base/resident.h"

#include <stdio.h>
#include <unistd.h>

uint64_t resident_bytes(void)
{
    unsigned long long kib = 0;
    unsigned long long pages = 0;
    char line[256];
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    while (file && kib == 0 && fgets(line, sizeof(line), file))
        (void)sscanf(line, "Rss: %llu", &kib);
    if (file)
        (void)fclose(file);
    if (kib > 0)
        return kib * 1024;
    file = fopen("/proc/self/statm", "re");
    if (file) {
        if (fscanf(file, "%*u %llu", &pages) != 1)
            pages = 0;
        (void)fclose(file);
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}
