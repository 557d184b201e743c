/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The rules that are compared: the one that is proposed, and others that differ from
 * it in one thing each.
 */
#ifndef MOIETY_BENCH_HEAPS_RULES_H_
#define MOIETY_BENCH_HEAPS_RULES_H_

#include "bench/heaps/machine.h"

struct heap_named_rules {
    const char *name; /* NULL ends a table */
    const char *description;
    struct heap_rules rules;
};

extern const struct heap_named_rules heap_rules_table[];

#endif
