/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/heaps/rules.h"

#include <stddef.h>

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)

#define APART .is_small_apart = true, .is_own_at_once = true
#define BOUNDED .absorb = HEAP_ABSORBS_BOUNDED, APART
/* Without a budget, which is a thing of its own. */
#define HANDLES(pages) .handle_pages = (pages), .moves_most = 1000000000U
#define BUDGET(most, calls)                                                    \
    .handle_pages = 1, .moves_most = (most), .calls_of_a_move = (calls)
#define CACHES(all, of_a_size, largest)                                        \
    .cache_bytes = (all), .cache_class_bytes = (of_a_size),                    \
    .cached_bytes_max = (largest)

const struct heap_named_rules heap_rules_table[] = {
    {"proposed",
     "handles of 2 MiB that move, absorbing, no caches",
     {BOUNDED, HANDLES(1)}},
    {"absorbs-nothing",
     "a free joins what its stream freed in the same age",
     {APART, HANDLES(1), .absorb = HEAP_ABSORBS_NOTHING}},
    {"absorbs-closed",
     "also what its stream freed before",
     {APART, HANDLES(1), .absorb = HEAP_ABSORBS_CLOSED}},
    {"absorbs-all",
     "also whatever is done, however long",
     {APART, HANDLES(1), .absorb = HEAP_ABSORBS_ALL}},
    {"together",
     "small and large blocks in the same pages",
     {HANDLES(1), .absorb = HEAP_ABSORBS_BOUNDED, .is_own_at_once = true}},
    {"handles-8m", "handles of 8 MiB", {BOUNDED, HANDLES(4)}},
    {"handles-32m", "handles of 32 MiB", {BOUNDED, HANDLES(16)}},
    {"own-when-over",
     "what a stream freed moves when its work is over",
     {HANDLES(1), .absorb = HEAP_ABSORBS_BOUNDED, .is_small_apart = true}},
    {"moves-64-2000",
     "64 moves, and one more for each 2000 calls",
     {BOUNDED, BUDGET(64, 2000)}},
    {"moves-512-30",
     "512 moves, and one more for each 30 calls",
     {BOUNDED, BUDGET(512, 30)}},
    {"moves-512-10",
     "512 moves, and one more for each 10 calls",
     {BOUNDED, BUDGET(512, 10)}},
    {"stays", "nothing moves", {BOUNDED, BUDGET(0, 0)}},
    {"caches-512k",
     "caches of 512 KiB a thread and stream, 64 KiB a size, to 64 KiB",
     {BOUNDED, HANDLES(1), CACHES(512 * KIB, 64 * KIB, 64 * KIB)}},
    {"caches-2m",
     "caches of 2 MiB a thread and stream, 128 KiB a size, to 64 KiB",
     {BOUNDED, HANDLES(1), CACHES(2 * MIB, 128 * KIB, 64 * KIB)}},
    {"caches-8m",
     "caches of 8 MiB a thread and stream, 1 MiB a size, to 256 KiB",
     {BOUNDED, HANDLES(1), CACHES(8 * MIB, MIB, 256 * KIB)}},
    {"fixed-20m",
     "segments of 20 MiB, and of its size for a block from 10 MiB on",
     {BOUNDED, .is_fixed = true, .handle_pages = 10}},
    {"fixed-64m",
     "the same with segments of 64 MiB",
     {BOUNDED, .is_fixed = true, .handle_pages = 32}},
    {.name = NULL},
};
