/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lets tests in C++ work a space and the heaps of streams (pool/heap), whose
 * headers are C only. Units are plain numbers here: grains of 512 B, chunks of
 * 64 grains, pages of 64 chunks. Calls and reads; asserts nothing.
 */
#ifndef MOIETY_TESTS_SUPPORT_SPACE_PROBE_H_
#define MOIETY_TESTS_SUPPORT_SPACE_PROBE_H_

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PROBE_PAGE_GRAINS 4096U

/* The space's own, opaque here. */
struct moietyi_space;
struct moietyi_heap;

/* NULL: no memory. */
struct moietyi_space *space_probe_create(uint32_t page_capacity);
void space_probe_destroy(struct moietyi_space *space);

/* One interval of at most 1 MiB. */
bool space_probe_take(struct moietyi_space *space, uint32_t grains,
                      uint64_t *out_start);
/* A good fit that starts on a page. */
bool space_probe_take_pages(struct moietyi_space *space, uint64_t pages,
                            uint64_t *out_start);
bool space_probe_give(struct moietyi_space *space, uint64_t start,
                      uint64_t grains);
uint64_t space_probe_free_from(const struct moietyi_space *space,
                               uint64_t start, uint64_t end);
uint32_t space_probe_longest_page_run(const struct moietyi_space *space);

/* The verifier. NULL, or which invariant is broken, and at which grain. */
const char *space_probe_check(const struct moietyi_space *space,
                              uint64_t *out_at);

struct heap_probe_view {
    struct moietyi_space *space;
    struct moietyi_heap *heap; /* NULL: done memory only */
    bool is_own_only;
};

/* NULL: no memory. */
struct moietyi_heap *heap_probe_create(struct moietyi_space *space);
void heap_probe_destroy(struct moietyi_heap *heap);

bool heap_probe_give(struct moietyi_heap *heap, uint64_t start,
                     uint64_t grains);
void heap_probe_close(struct moietyi_heap *heap);
/* What was closed is done. */
void heap_probe_drain(struct moietyi_heap *heap);
uint64_t heap_probe_free_from(const struct moietyi_heap *heap, uint64_t start,
                              uint64_t end);

/* The best fit, of all that there is. */
bool heap_probe_view_take(const struct heap_probe_view *view, uint64_t grains,
                          uint64_t *out_start);
bool heap_probe_view_claim(const struct heap_probe_view *view, uint64_t start,
                           uint64_t grains);

/* As space_probe_check(), of these heaps. */
const char *heap_probe_check(const struct moietyi_heap *const *heap,
                             uint32_t count, uint64_t *out_at);

#ifdef __cplusplus
}
#endif

#endif
