/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/standin/memory/numa_node.h"

#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NODE_MAX 1024
#define BITS_PER_WORD (8 * (int)sizeof(unsigned long))

bool numa_node_exists(int node)
{
    char path[64];
    if (node < 0 || node >= NODE_MAX)
        return false;
    (void)snprintf(path, sizeof(path), "/sys/devices/system/node/node%d", node);
    return node == 0 || access(path, F_OK) == 0;
}

void numa_node_bind(void *memory, size_t size_bytes, int node)
{
    const int policy_bind = 2; /* the kernel's MPOL_BIND */
    unsigned long mask[NODE_MAX / BITS_PER_WORD] = {0};
    mask[node / BITS_PER_WORD] = 1UL << (node % BITS_PER_WORD);
    (void)syscall(SYS_mbind, memory, size_bytes, policy_bind, mask,
                  (unsigned long)NODE_MAX + 1, 0U);
}
