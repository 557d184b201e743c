/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How much memory this process may still take: pinned memory beyond that ends
 * processes, not calls.
 */
#ifndef MOIETY_BENCH_HOST_ROOM_H_
#define MOIETY_BENCH_HOST_ROOM_H_

#include <stdint.h>

/* Of the system and of the control group, whichever is less. UINT64_MAX where
 * neither says. */
uint64_t host_room_bytes(void);

/* In free pages of 2 MiB that the system has set aside. */
uint64_t host_room_huge_bytes(void);

/* Bit i of word i / 64: node i has memory. */
void host_room_nodes(uint64_t nodes[4]);

#endif
