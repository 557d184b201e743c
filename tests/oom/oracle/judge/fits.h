/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Whether a request fits into a pool: the arithmetic of the oracle, which knows
 * neither pools nor time.
 */
#ifndef MOIETY_TESTS_OOM_ORACLE_JUDGE_FITS_H_
#define MOIETY_TESTS_OOM_ORACLE_JUDGE_FITS_H_

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
    /* Of mapped memory: it can be nowhere else. */
    bool is_fixed;
    size_t tag; /* the caller's */
};

/* Memory that a segment cannot be without: whole grains. */
struct fits_range {
    uint64_t address;
    uint64_t size_bytes;
    size_t segment; /* index of the one that it lies in */
    /* The request may have it, but the pool cannot give its segment back. */
    bool is_usable;
};

/* Addresses that a segment cannot be put at. */
struct fits_taken {
    uint64_t address;
    uint64_t size_bytes;
};

struct fits_case {
    uint64_t limit_bytes;
    uint64_t needed_bytes;
    const struct fits_segment *segments;
    struct fits_range *ranges; /* in any order; they may overlap */
    size_t range_count;
    /* Of mapped memory only. */
    size_t segment_count;
    const struct fits_taken *taken; /* in any order */
    size_t taken_count;
    uint64_t base; /* the lowest address that there is */
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

/* fits_mapped.c: the same of mapped memory. Segments that touch are one piece of memory.
 * Those without a range, and what the limit leaves, can be at any address that is not
 * taken, in pieces of 2 MiB: a hole may go on there. Segments whose ranges are all
 * usable can be at any address together with those, but only whole: they make no hole
 * longer. A segment that is fixed pins itself. Addresses have no upper end. */
struct fits_answer fits_mapped(const struct fits_case *of);

/* Sorts the ranges by segment, and then by address. */
void fits_sort(const struct fits_case *of);

#ifdef __cplusplus
}
#endif

#endif
