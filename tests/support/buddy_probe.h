/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lets tests in C++ work a buddy of pool/buddy, whose headers are C only, and
 * look into its words. Units are plain numbers here: grains of 512 B, chunks of
 * 64 grains, pages of 64 chunks. Calls and reads; asserts nothing.
 */
#ifndef MOIETY_TESTS_SUPPORT_BUDDY_PROBE_H_
#define MOIETY_TESTS_SUPPORT_BUDDY_PROBE_H_

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PROBE_CHUNK_GRAINS 64U
#define PROBE_PAGE_CHUNKS 64U
#define PROBE_PAGE_GRAINS 4096U
#define PROBE_TAKE_GRAINS_MAX 2048U
#define PROBE_AFFINITY_PAGES 8U

/* The buddy's own, opaque here. */
struct moietyi_buddy;

/* Room for a struct moietyi_affinity: zero is "none yet". */
struct buddy_probe_affinity {
    uint64_t words[6];
};

/* The moiety_status of creation. */
int buddy_probe_create(uint32_t page_capacity, struct moietyi_buddy **out);
void buddy_probe_destroy(struct moietyi_buddy *buddy);

void buddy_probe_add(struct moietyi_buddy *buddy, uint32_t first_page,
                     uint32_t page_count);
bool buddy_probe_remove(struct moietyi_buddy *buddy, uint32_t first_page,
                        uint32_t page_count);

/* `affinity` may be NULL. */
uint32_t buddy_probe_take(struct moietyi_buddy *buddy,
                          struct buddy_probe_affinity *affinity,
                          uint32_t grains, uint32_t count, uint32_t alignment,
                          uint64_t *out_starts);
/* Trims, then looks into every word: as the pool does before it gives up. */
bool buddy_probe_take_last(struct moietyi_buddy *buddy, uint32_t grains,
                           uint32_t alignment, uint64_t *out_start);
/* The best fit of all that starts on a page. */
bool buddy_probe_take_run(struct moietyi_buddy *buddy, uint64_t chunks,
                          uint64_t *out_start);
bool buddy_probe_give(struct moietyi_buddy *buddy,
                      const struct buddy_probe_affinity *affinity,
                      uint64_t start, uint64_t grains);
void buddy_probe_drop_affinity(struct moietyi_buddy *buddy,
                               struct buddy_probe_affinity *affinity);
void buddy_probe_trim(struct moietyi_buddy *buddy);

uint64_t buddy_probe_free_grains(const struct moietyi_buddy *buddy);
uint64_t buddy_probe_free_from(const struct moietyi_buddy *buddy,
                               uint64_t start, uint64_t end);
uint32_t buddy_probe_longest_page_run(const struct moietyi_buddy *buddy);
uint8_t buddy_probe_class(const struct moietyi_buddy *buddy, uint64_t start);
void buddy_probe_set_class(struct moietyi_buddy *buddy, uint64_t start,
                           uint8_t class_byte);
/* What the byte was; it is 0 now. */
uint8_t buddy_probe_end_class(struct moietyi_buddy *buddy, uint64_t start);
uint64_t buddy_probe_run_grains(const struct moietyi_buddy *buddy,
                                uint64_t start);
void buddy_probe_set_run_grains(struct moietyi_buddy *buddy, uint64_t start,
                                uint64_t grains);

/* The verifiers. NULL, or which invariant is broken, and at which grain. */
const char *buddy_probe_check(const struct moietyi_buddy *buddy,
                              uint64_t *out_at);
const char *buddy_probe_check_merged(const struct moietyi_buddy *buddy,
                                     uint64_t *out_at);

/* Words of the three levels: a set bit is a free unit. */
uint64_t buddy_probe_chunk_word(const struct moietyi_buddy *buddy,
                                uint64_t chunk);
uint64_t buddy_probe_page_word(const struct moietyi_buddy *buddy,
                               uint32_t page);
bool buddy_probe_is_page_free(const struct moietyi_buddy *buddy, uint32_t page);
bool buddy_probe_has_affinity(const struct moietyi_buddy *buddy, uint32_t page);
uint32_t buddy_probe_page_limit(const struct moietyi_buddy *buddy);

/* Planes of the summaries, and the run length from which each one counts. */
unsigned buddy_probe_plane_count(void);
unsigned buddy_probe_plane_threshold(unsigned plane);
/* Whether the summary says that the chunk's word may hold such a run. */
bool buddy_probe_chunk_hint(const struct moietyi_buddy *buddy, unsigned plane,
                            uint64_t chunk);

/* What no code of the buddy does, so that the verifiers can be seen to fail and
 * a thorough search be seen to need no summary. */
void buddy_probe_forget_summaries(struct moietyi_buddy *buddy);
void buddy_probe_write_chunk_word(struct moietyi_buddy *buddy, uint64_t chunk,
                                  uint64_t word);
void buddy_probe_write_page_word(struct moietyi_buddy *buddy, uint32_t page,
                                 uint64_t word);
void buddy_probe_write_page_free(struct moietyi_buddy *buddy, uint32_t page,
                                 bool is_free);

#ifdef __cplusplus
}
#endif

#endif
