/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sets of NUMA nodes by the operating system's index, which is what the kernel
 * takes, users type and hwloc calls P#. Plain values: copied, compared, never
 * freed.
 */
#ifndef MOIETY_NUMA_TOPOLOGY_NODESET_H_
#define MOIETY_NUMA_TOPOLOGY_NODESET_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A node's index is below it; no machine known has that many. */
#define MOIETYI_NODES_MAX 256U

#define MOIETYI_NODESET_WORDS (MOIETYI_NODES_MAX / 64)

typedef struct {
    uint64_t words[MOIETYI_NODESET_WORDS];
} moietyi_nodeset;

static inline bool moietyi_nodeset_has(const moietyi_nodeset *set,
                                       unsigned node)
{
    return node < MOIETYI_NODES_MAX && (set->words[node / 64] >> node % 64 & 1);
}

/* An index that no set can hold is not added. */
static inline void moietyi_nodeset_add(moietyi_nodeset *set, unsigned node)
{
    if (node < MOIETYI_NODES_MAX)
        set->words[node / 64] |= UINT64_C(1) << node % 64;
}

static inline unsigned moietyi_nodeset_count(const moietyi_nodeset *set)
{
    unsigned count = 0;
    for (unsigned i = 0; i < MOIETYI_NODESET_WORDS; i++)
        count += (unsigned)__builtin_popcountll(set->words[i]);
    return count;
}

/* The least index that is in the set and not below `node`, or
 * MOIETYI_NODES_MAX. */
static inline unsigned moietyi_nodeset_next(const moietyi_nodeset *set,
                                            unsigned node)
{
    while (node < MOIETYI_NODES_MAX && !moietyi_nodeset_has(set, node))
        node++;
    return node;
}

/* MOIETYI_NODES_MAX for the empty set. */
static inline unsigned moietyi_nodeset_first(const moietyi_nodeset *set)
{
    return moietyi_nodeset_next(set, 0);
}

static inline bool moietyi_nodeset_is_empty(const moietyi_nodeset *set)
{
    return moietyi_nodeset_count(set) == 0;
}

static inline bool moietyi_nodeset_is_equal(const moietyi_nodeset *a,
                                            const moietyi_nodeset *b)
{
    uint64_t difference = 0;
    for (unsigned i = 0; i < MOIETYI_NODESET_WORDS; i++)
        difference |= a->words[i] ^ b->words[i];
    return difference == 0;
}

static inline moietyi_nodeset moietyi_nodeset_both(const moietyi_nodeset *a,
                                                   const moietyi_nodeset *b)
{
    moietyi_nodeset both;
    for (unsigned i = 0; i < MOIETYI_NODESET_WORDS; i++)
        both.words[i] = a->words[i] & b->words[i];
    return both;
}

/* for (MOIETYI_NODESET_EACH(node, &set)) ... */
#define MOIETYI_NODESET_EACH(node, set)                                        \
    unsigned node = moietyi_nodeset_first(set);                                \
    node < MOIETYI_NODES_MAX;                                                  \
    node = moietyi_nodeset_next(set, node + 1)

/* Holds the text of any set. */
#define MOIETYI_NODESET_TEXT_BYTES 1024

/* Writes the set as the kernel does, "0-3,6", or "none"; gives `out` back. */
const char *moietyi_nodeset_text(const moietyi_nodeset *set,
                                 char out[MOIETYI_NODESET_TEXT_BYTES]);

/* Reads such a list with `separator` between its parts, and gives the number of
 * characters read: to the end of the line or text. 0 if it is no list, or names
 * a node that no set can hold; `*out` is then undefined. */
size_t moietyi_nodeset_parse(const char *text, char separator,
                             moietyi_nodeset *out);

#endif
