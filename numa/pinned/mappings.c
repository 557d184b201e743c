/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the kernel knows of the process's mappings: one question from Linux 6.11
 * on, and the text of /proc/self/maps before.
 */
#include "numa/pinned/mappings.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/ioctl.h>

struct mapping {
    uintptr_t first;
    uintptr_t end;
    bool is_private;
};

/* As <linux/fs.h> of 6.11 has it. */
struct mapping_query {
    uint64_t size_bytes; /* in: of this structure */
    uint64_t flags;      /* in; 0: the mapping that has the address */
    uint64_t address;    /* in */
    uint64_t first;
    uint64_t end;
    uint64_t mapping_flags;
    uint64_t unused_words[3];
    uint32_t unused[2];
    uint32_t name_bytes;     /* in; 0: no name */
    uint32_t build_id_bytes; /* in; likewise */
    uint64_t name;
    uint64_t build_id;
};
#define MAPPING_QUERY _IOWR('f', 17, struct mapping_query)
#define MAPPING_IS_SHARED UINT64_C(8)
_Static_assert(sizeof(struct mapping_query) == 104, "the kernel's own");

/* The first mapping that ends behind the address. */
typedef bool mapping_find(FILE *maps, uintptr_t address, struct mapping *out);

/* False also where it has none there, or does not know the question. */
static bool mapping_ask(FILE *maps, uintptr_t address, struct mapping *out)
{
    struct mapping_query query = {.size_bytes = sizeof(query),
                                  .address = address};
    if (ioctl(fileno(maps), MAPPING_QUERY, &query) != 0)
        return false;
    *out = (struct mapping){query.first, query.end,
                            !(query.mapping_flags & MAPPING_IS_SHARED)};
    return true;
}

/* Reads on from where it was: the mappings come in their order. */
static bool mapping_read(FILE *maps, uintptr_t address, struct mapping *out)
{
    char kind;
    do {
        if (fscanf(maps, "%16" SCNxPTR "-%16" SCNxPTR " %*3c%c%*[^\n]",
                   &out->first, &out->end, &kind) != 3)
            return false;
    } while (out->end <= address);
    out->is_private = kind == 'p';
    return true;
}

static bool mappings_are_private(FILE *maps, mapping_find *find,
                                 uintptr_t first, uintptr_t end)
{
    struct mapping mapping = {0};
    for (uintptr_t at = first; at < end; at = mapping.end)
        if (!find(maps, at, &mapping) || mapping.first > at ||
            !mapping.is_private)
            return false;
    return true;
}

bool moietyi_is_private_memory(uintptr_t first, uintptr_t end)
{
    struct mapping mapping;
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return false;
    bool is_private = mappings_are_private(
        maps, mapping_ask(maps, first, &mapping) ? mapping_ask : mapping_read,
        first, end);
    (void)fclose(maps);
    return is_private;
}
