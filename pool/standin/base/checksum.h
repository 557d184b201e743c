/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The sum in handles that travel: FNV-1a. It tells what was changed or made up
 * by mistake, not what was forged.
 */
#ifndef MOIETY_POOL_STANDIN_BASE_CHECKSUM_H_
#define MOIETY_POOL_STANDIN_BASE_CHECKSUM_H_

#include <stddef.h>
#include <stdint.h>

static inline uint64_t standin_checksum(const void *data, size_t size_bytes)
{
    const unsigned char *bytes = data;
    uint64_t sum = 0xcbf29ce484222325U;
    for (size_t i = 0; i < size_bytes; i++)
        sum = (sum ^ bytes[i]) * 0x100000001b3U;
    return sum;
}

#endif
