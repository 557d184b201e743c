/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Host memory of this process.
 */
#ifndef MOIETY_BENCH_BASE_RESIDENT_H_
#define MOIETY_BENCH_BASE_RESIDENT_H_

#include <stdint.h>

/* Exact where the kernel has it; the counter of `statm` may lag by some 64
 * pages a thread. */
uint64_t resident_bytes(void);

#endif
