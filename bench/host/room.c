/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/host/room.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES_MAX 256UL
#define HUGE_BYTES (UINT64_C(2) << 20)

/* False: there is no such file, or no number in it ("max"). */
static bool read_number(const char *path, uint64_t *out)
{
    unsigned long long number;
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool is_there = fscanf(file, "%llu", &number) == 1;
    (void)fclose(file);
    if (is_there)
        *out = number;
    return is_there;
}

static uint64_t system_bytes(void)
{
    char line[128];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && kib == 0 && fgets(line, sizeof(line), file))
        (void)sscanf(line, "MemAvailable: %llu", &kib);
    if (file)
        (void)fclose(file);
    return kib ? kib * 1024 : UINT64_MAX;
}

/* A limit beyond all memory, as version 1 has it for none, is larger than what
 * the system has. */
static uint64_t group_bytes(const char *limit_path, const char *usage_path)
{
    uint64_t limit_bytes;
    uint64_t used_bytes;
    if (!read_number(limit_path, &limit_bytes) ||
        !read_number(usage_path, &used_bytes))
        return UINT64_MAX;
    return limit_bytes > used_bytes ? limit_bytes - used_bytes : 0;
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t host_room_bytes(void)
{
    uint64_t group =
        lesser(group_bytes("/sys/fs/cgroup/memory.max",
                           "/sys/fs/cgroup/memory.current"),
               group_bytes("/sys/fs/cgroup/memory/memory.limit_in_bytes",
                           "/sys/fs/cgroup/memory/memory.usage_in_bytes"));
    return lesser(group, system_bytes());
}

uint64_t host_room_huge_bytes(void)
{
    uint64_t pages = 0;
    (void)read_number(
        "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", &pages);
    return pages * HUGE_BYTES;
}

/* "0-1,3" */
static void parse_nodes(const char *text, uint64_t nodes[4])
{
    while (*text) {
        char *end;
        unsigned long first = strtoul(text, &end, 10);
        unsigned long last = first;
        if (end == text)
            return;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (; first <= last && first < NODES_MAX; first++)
            nodes[first / 64] |= UINT64_C(1) << first % 64;
        text = end + (*end == ',');
    }
}

void host_room_nodes(uint64_t nodes[4])
{
    char line[1024];
    FILE *file = fopen("/sys/devices/system/node/has_memory", "re");
    memset(nodes, 0, 4 * sizeof(*nodes));
    if (!file)
        return;
    if (fgets(line, sizeof(line), file))
        parse_nodes(line, nodes);
    (void)fclose(file);
}
