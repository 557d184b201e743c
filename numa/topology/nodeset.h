/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sets of NUMA nodes by the operating system's index, which is what the kernel
 * takes, users type and hwloc calls P#. Plain values: copied, compared, never
 * freed.
 */
#ifndef BINADE_NUMA_TOPOLOGY_NODESET_H_
#define BINADE_NUMA_TOPOLOGY_NODESET_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A node's index is below it; no machine known has that many. */
#define BINADEI_NODES_MAX 256U

#define BINADEI_NODESET_WORDS (BINADEI_NODES_MAX / 64)

typedef struct {
    uint64_t words[BINADEI_NODESET_WORDS];
} binadei_nodeset;

static inline bool binadei_nodeset_has(const binadei_nodeset *set,
                                       unsigned node)
{
    return node < BINADEI_NODES_MAX && (set->words[node / 64] >> node % 64 & 1);
}

/* An index that no set can hold is not added. */
static inline void binadei_nodeset_add(binadei_nodeset *set, unsigned node)
{
    if (node < BINADEI_NODES_MAX)
        set->words[node / 64] |= UINT64_C(1) << node % 64;
}

static inline unsigned binadei_nodeset_count(const binadei_nodeset *set)
{
    unsigned count = 0;
    for (unsigned i = 0; i < BINADEI_NODESET_WORDS; i++)
        count += (unsigned)__builtin_popcountll(set->words[i]);
    return count;
}

/* The least index that is in the set and not below `node`, or
 * BINADEI_NODES_MAX. */
static inline unsigned binadei_nodeset_next(const binadei_nodeset *set,
                                            unsigned node)
{
    while (node < BINADEI_NODES_MAX && !binadei_nodeset_has(set, node))
        node++;
    return node;
}

/* BINADEI_NODES_MAX for the empty set. */
static inline unsigned binadei_nodeset_first(const binadei_nodeset *set)
{
    return binadei_nodeset_next(set, 0);
}

static inline bool binadei_nodeset_is_empty(const binadei_nodeset *set)
{
    return binadei_nodeset_count(set) == 0;
}

static inline bool binadei_nodeset_is_equal(const binadei_nodeset *a,
                                            const binadei_nodeset *b)
{
    uint64_t difference = 0;
    for (unsigned i = 0; i < BINADEI_NODESET_WORDS; i++)
        difference |= a->words[i] ^ b->words[i];
    return difference == 0;
}

static inline binadei_nodeset binadei_nodeset_both(const binadei_nodeset *a,
                                                   const binadei_nodeset *b)
{
    binadei_nodeset both;
    for (unsigned i = 0; i < BINADEI_NODESET_WORDS; i++)
        both.words[i] = a->words[i] & b->words[i];
    return both;
}

/* for (BINADEI_NODESET_EACH(node, &set)) ... */
#define BINADEI_NODESET_EACH(node, set)                                        \
    unsigned node = binadei_nodeset_first(set);                                \
    node < BINADEI_NODES_MAX;                                                  \
    node = binadei_nodeset_next(set, node + 1)

/* Holds the text of any set. */
#define BINADEI_NODESET_TEXT_BYTES 1024

/* Writes the set as the kernel does, "0-3,6", or "none"; gives `out` back. */
const char *binadei_nodeset_text(const binadei_nodeset *set,
                                 char out[BINADEI_NODESET_TEXT_BYTES]);

/* Reads such a list with `separator` between its parts, and gives the number of
 * characters read: to the end of the line or text. 0 if it is no list, or names
 * a node that no set can hold; `*out` is then undefined. */
size_t binadei_nodeset_parse(const char *text, char separator,
                             binadei_nodeset *out);

#endif
