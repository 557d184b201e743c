/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What each thread did to blocks lately, to tell afterwards who had the memory
 * in which a wrong word was found.
 */
#ifndef MOIETY_TESTS_TRUTH_HISTORY_H_
#define MOIETY_TESTS_TRUTH_HISTORY_H_

#include <stdint.h>

#include "pool/driver/cuda_abi.h"

#define HISTORY_LINES 16384

struct history_line {
    uint64_t time_ns;
    CUdeviceptr address;
    uint64_t size_bytes;
    CUstream stream;
    const char *what;
    uint32_t word;
};

/* Written by one thread at a time; read when none is left. */
struct history {
    struct history_line line[HISTORY_LINES]; /* a ring */
    uint64_t count;
};

void history_note(struct history *history, struct history_line line);

/* Prints the latest lines about blocks in which `address` is, up to when its
 * block was read, out of `count` histories. */
void history_print(struct history *const *histories, uint32_t count,
                   CUdeviceptr address);

#endif
