/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Asks the kernel, by move_pages, on which node each page of an area is. This
 * is the oracle of the tests in the guest: it shares no code with the library,
 * and judges nothing.
 */
#ifndef MOIETY_TESTS_NUMA_VM_PAGES_H_
#define MOIETY_TESTS_NUMA_VM_PAGES_H_

#include <stdbool.h>
#include <stddef.h>

#define PAGES_NODE_COUNT 8

struct page_count {
    size_t asked;
    size_t on_node[PAGES_NODE_COUNT];
    size_t nowhere; /* never touched, or not to be told */
};

/* Counts the system's smallest pages, also where they are part of larger ones.
 * False, with errno, when the kernel does not answer. */
bool pages_count(const void *area, size_t size_bytes, struct page_count *out);

/* "asked 2048, node 0: 1000, node 1: 1048", with what is not 0. */
void pages_print(const struct page_count *count);

#endif
