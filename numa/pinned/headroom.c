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
/* The kernel keeps some of each node for itself. Other processes may look at the
 * same room before this one has touched its own: a part is nobody's. */
#define RESERVE_BYTES (UINT64_C(16) << 20)
#define RESERVE_PART 64U
#define RESERVE_MOST_PART 8U

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

static uint64_t beside_reserve(uint64_t room, uint64_t total)
{
    uint64_t reserve = total / RESERVE_PART;
    reserve = reserve > RESERVE_BYTES ? reserve : RESERVE_BYTES;
    if (reserve > total / RESERVE_MOST_PART)
        reserve = total / RESERVE_MOST_PART;
    return room > reserve ? room - reserve : 0;
}

/* UINT64_MAX: unknown. */
static uint64_t headroom_on_node(unsigned node)
{
    static const char *const total_keys[] = {" MemTotal:", NULL};
    static const char *const keys[] = {
        " MemFree:", " Active(file):", " Inactive(file):", " SReclaimable:",
        NULL};
    char path[PATH_BYTES];
    uint64_t kib = 0;
    uint64_t total_kib = 0;
    (void)snprintf(path, sizeof(path),
                   "/sys/devices/system/node/node%u/meminfo", node);
    return add_from(path, keys, &kib) && add_from(path, total_keys, &total_kib)
               ? beside_reserve(kib << 10, total_kib << 10)
               : UINT64_MAX;
}

static uint64_t headroom_on_nodes(const struct moietyi_place *place)
{
    uint64_t sum = 0;
    int node = hwloc_bitmap_first(place->nodes);
    for (; node >= 0; node = hwloc_bitmap_next(place->nodes, node)) {
        uint64_t room = headroom_on_node((unsigned)node);
        if (room == UINT64_MAX)
            return room;
        sum += room;
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

/* How a version of the kernel's control groups says what memory a group has left. */
struct group_files {
    const char *controller; /* "": the one hierarchy of version 2 */
    const char *root;
    const char *limits[3];
    const char *used;
    const char *clean_keys[3]; /* of memory.stat */
};

/* Above memory.high, the kernel slows each page down. The key of version 2 is a part
 * of "inactive_file " too. */
static const struct group_files group_versions[] = {
    {"",
     "/sys/fs/cgroup",
     {"memory.max", "memory.high", NULL},
     "memory.current",
     {"active_file ", NULL}},
    {"memory",
     "/sys/fs/cgroup/memory",
     {"memory.limit_in_bytes", NULL},
     "memory.usage_in_bytes",
     {"total_active_file ", "total_inactive_file ", NULL}},
};

static uint64_t headroom_in_group(const struct group_files *files,
                                  const char *folder)
{
    char path[PATH_BYTES];
    uint64_t limit = UINT64_MAX;
    uint64_t used = number_in(folder, files->used);
    uint64_t clean = 0;
    for (const char *const *name = files->limits; *name; name++) {
        uint64_t value = number_in(folder, *name);
        limit = value < limit ? value : limit;
    }
    if (limit == UINT64_MAX || used == UINT64_MAX)
        return UINT64_MAX;
    (void)snprintf(path, sizeof(path), "%.900s/memory.stat", folder);
    (void)add_from(path, files->clean_keys, &clean);
    used = used > clean ? used - clean : 0;
    return limit > used ? beside_reserve(limit - used, limit) : 0;
}

/* A line of /proc/self/cgroup is NUMBER:CONTROLLER,CONTROLLER:PATH. Returns the path
 * if the line is of the controller. */
static const char *path_of_line(char *line, const char *controller)
{
    char *rest = strchr(line, ':');
    char *path = rest ? strchr(rest + 1, ':') : NULL;
    if (!path)
        return NULL;
    *path++ = '\0';
    char *name = rest + 1;
    do {
        size_t length = strcspn(name, ",");
        if (length == strlen(controller) &&
            memcmp(name, controller, length) == 0)
            return path;
        name += length;
    } while (*name++);
    return NULL;
}

/* The folder of the process's group; false without such groups. */
static bool find_group(const struct group_files *files, char *out,
                       size_t size_bytes)
{
    char line[PATH_BYTES];
    bool is_found = false;
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file)
        return false;
    while (!is_found && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        const char *path = path_of_line(line, files->controller);
        is_found = path != NULL;
        if (path)
            (void)snprintf(out, size_bytes, "%s%.900s", files->root, path);
    }
    (void)fclose(file);
    return is_found;
}

/* The least of the group's and of those that it is in. */
static uint64_t headroom_in_version(const struct group_files *files)
{
    char folder[PATH_BYTES];
    size_t root_length = strlen(files->root);
    uint64_t least = UINT64_MAX;
    if (!find_group(files, folder, sizeof(folder)))
        return UINT64_MAX;
    while (strlen(folder) >= root_length) {
        uint64_t room = headroom_in_group(files, folder);
        least = room < least ? room : least;
        *strrchr(folder, '/') = '\0';
    }
    return least;
}

static uint64_t headroom_in_groups(void)
{
    uint64_t first = headroom_in_version(&group_versions[0]);
    uint64_t second = headroom_in_version(&group_versions[1]);
    return first < second ? first : second;
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
