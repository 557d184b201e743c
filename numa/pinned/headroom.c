/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Reads the kernel's own text files. Clean file pages count as room: the kernel
 * drops them before it gives up.
 */
#include "numa/pinned/headroom.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "numa/pinned/map.h"
#include "pool/base/failure.h"

#define LINE_BYTES 256U
#define PATH_BYTES 1024U
/* The kernel keeps some of each node for itself. */
#define RESERVE_BYTES (UINT64_C(16) << 20)

/* Adds to `sum` the numbers behind those of `keys` that the file has, a line
 * each. False: there is no such file. */
static bool add_from(const char *path, const char *const *keys, uint64_t *sum)
{
    char line[LINE_BYTES];
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    while (fgets(line, sizeof(line), file)) {
        for (const char *const *key = keys; *key; key++) {
            uint64_t value;
            const char *at = strstr(line, *key);
            if (at && sscanf(at + strlen(*key), "%" SCNu64, &value) == 1)
                *sum += value;
        }
    }
    (void)fclose(file);
    return true;
}

/* UINT64_MAX: unknown. */
static uint64_t headroom_on_node(unsigned node)
{
    static const char *const keys[] = {
        " MemFree:", " Active(file):", " Inactive(file):", " SReclaimable:",
        NULL};
    char path[PATH_BYTES];
    uint64_t kib = 0;
    (void)snprintf(path, sizeof(path),
                   "/sys/devices/system/node/node%u/meminfo", node);
    return add_from(path, keys, &kib) ? kib << 10 : UINT64_MAX;
}

static uint64_t headroom_on_nodes(const struct moietyi_place *place)
{
    uint64_t sum = 0;
    int node = hwloc_bitmap_first(place->nodes);
    for (; node >= 0; node = hwloc_bitmap_next(place->nodes, node)) {
        uint64_t room = headroom_on_node((unsigned)node);
        if (room == UINT64_MAX)
            return room;
        sum += room > RESERVE_BYTES ? room - RESERVE_BYTES : 0;
    }
    return sum;
}

/* A file with one number; UINT64_MAX for "max" and for no such file. */
static uint64_t number_in(const char *folder, const char *name)
{
    char path[PATH_BYTES];
    uint64_t value = UINT64_MAX;
    (void)snprintf(path, sizeof(path), "%.900s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return UINT64_MAX;
    if (fscanf(file, "%" SCNu64, &value) != 1)
        value = UINT64_MAX;
    (void)fclose(file);
    return value;
}

static uint64_t headroom_in_group(const char *folder)
{
    /* As a part of "inactive_file " too. */
    static const char *const keys[] = {"active_file ", NULL};
    char path[PATH_BYTES];
    uint64_t limit = number_in(folder, "memory.max");
    uint64_t used = number_in(folder, "memory.current");
    uint64_t clean = 0;
    if (limit == UINT64_MAX || used == UINT64_MAX)
        return UINT64_MAX;
    (void)snprintf(path, sizeof(path), "%.900s/memory.stat", folder);
    (void)add_from(path, keys, &clean);
    used = used > clean ? used - clean : 0;
    return limit > used ? limit - used : 0;
}

/* The process's place in the one hierarchy of version 2; false without it. */
static bool find_group(char *out, size_t size_bytes)
{
    char line[PATH_BYTES];
    bool is_found = false;
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file)
        return false;
    while (!is_found && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        is_found = strncmp(line, "0::/", 4) == 0;
    }
    (void)fclose(file);
    if (is_found)
        (void)snprintf(out, size_bytes, "/sys/fs/cgroup%.900s", line + 3);
    return is_found;
}

/* The least of the group's and of those that it is in. */
static uint64_t headroom_in_groups(void)
{
    char folder[PATH_BYTES];
    uint64_t least = UINT64_MAX;
    if (!find_group(folder, sizeof(folder)))
        return UINT64_MAX;
    for (;;) {
        uint64_t room = headroom_in_group(folder);
        char *end = strrchr(folder, '/');
        least = room < least ? room : least;
        if (!end || strcmp(end, "/cgroup") == 0)
            return least;
        *end = '\0';
    }
}

moiety_status moietyi_headroom_check(const struct moietyi_place *place,
                                     size_t size_bytes, bool is_exact)
{
    uint64_t room = headroom_in_groups();
    if (room < size_bytes) {
        return moietyi_fail(MOIETY_E_NO_PINNED_MEMORY,
                            "%zu bytes of host memory: the control group of "
                            "this process has room for %" PRIu64,
                            size_bytes, room);
    }
    room = is_exact ? headroom_on_nodes(place) : UINT64_MAX;
    if (room < size_bytes) {
        return moietyi_fail(MOIETY_E_NO_PINNED_MEMORY,
                            "%zu bytes of host memory: node %s has room for "
                            "%" PRIu64,
                            size_bytes, moietyi_nodes_text(place).text, room);
    }
    return MOIETY_OK;
}
