/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The host's NUMA nodes, by the kernel's own interfaces. Any thread.
 */
#ifndef MOIETY_POOL_STANDIN_MEMORY_NUMA_NODE_H_
#define MOIETY_POOL_STANDIN_MEMORY_NUMA_NODE_H_

#include <stdbool.h>
#include <stddef.h>

/* A host without NUMA has node 0. */
bool numa_node_exists(int node);

/* Future pages of the mapping at `memory` come from `node`. Where the kernel
 * refuses (containers do), they come from anywhere. */
void numa_node_bind(void *memory, size_t size_bytes, int node);

#endif
