/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Whether a request fits into a pool: the arithmetic of the oracle, which knows
 * neither pools nor time.
 */
#ifndef MOIETY_TESTS_OOM_ORACLE_FITS_H_
#define MOIETY_TESTS_OOM_ORACLE_FITS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FITS_GRAIN_BYTES UINT64_C(512)
#define FITS_UNIT_BYTES (UINT64_C(2) << 20)

/* Memory of the pool; both numbers are multiples of 2 MiB. */
struct fits_segment {
    uint64_t address;
    uint64_t size_bytes;
    /* It came or went meanwhile: its ranges pin it, but its holes are none. */
    bool is_passing;
};

/* Memory that a segment cannot be without: whole grains. */
struct fits_range {
    uint64_t address;
    uint64_t size_bytes;
    size_t segment; /* index of the one that it lies in */
    /* The request may have it, but the pool cannot give its segment back. */
    bool is_usable;
};

struct fits_case {
    uint64_t limit_bytes;
    uint64_t needed_bytes;
    const struct fits_segment *segments;
    struct fits_range *ranges; /* in any order; they may overlap */
    size_t range_count;
};

struct fits_answer {
    bool is_fitting;
    uint64_t hole_bytes;   /* the longest hole */
    uint64_t pinned_bytes; /* of segments that have a range */
};

/* Fits if a hole of a segment that has a range is long enough, or if the limit
 * leaves room for a segment of the request's own once all segments without a
 * range are given back. Sorts the ranges. */
struct fits_answer fits(const struct fits_case *of);

#ifdef __cplusplus
}
#endif

#endif
