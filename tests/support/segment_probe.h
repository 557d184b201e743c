/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lets tests in C++ work the segments of pool/segment, whose headers are C
 * only. Units are plain numbers: pages of 2 MiB, grains of 512 B. The space is
 * one of space_probe.h. Calls and reads; asserts nothing.
 */
#ifndef MOIETY_TESTS_SUPPORT_SEGMENT_PROBE_H_
#define MOIETY_TESTS_SUPPORT_SEGMENT_PROBE_H_

#include <stdbool.h>
#include <stdint.h>

#include "moiety/source.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PROBE_PAGE_BYTES (UINT64_C(2) << 20)
#define PROBE_ADDRESS_END (UINT64_C(1) << 49)

struct moietyi_space;
struct moietyi_heap;
struct moietyi_mapper;
struct moietyi_segments;

/* As struct moietyi_mapper. */
struct segment_probe_mapper {
    void *context;
    moiety_status (*reserve)(void *context, uint64_t size_bytes,
                             moiety_devptr *out);
    moiety_status (*release)(void *context, moiety_devptr address,
                             uint64_t size_bytes);
    moiety_status (*create)(void *context, uint64_t size_bytes,
                            uint64_t *out_handle);
    moiety_status (*look_free)(void *context, uint64_t *out_bytes);
    moiety_status (*destroy)(void *context, uint64_t handle);
    moiety_status (*map)(void *context, moiety_devptr address,
                         uint64_t size_bytes, uint64_t handle, uint64_t peers,
                         bool *is_mapped);
    moiety_status (*grant)(void *context, moiety_devptr address,
                           uint64_t size_bytes, int32_t device,
                           bool is_granted);
    moiety_status (*unmap)(void *context, moiety_devptr address,
                           uint64_t size_bytes);
};

/* As struct moietyi_segments_options: 0 is a default. */
struct segment_probe_options {
    const moiety_source *source;
    struct moietyi_mapper *mapper; /* its source then, where that is NULL */
    uint64_t peers;
    struct moietyi_space *space;
    uint32_t page_capacity;
    uint64_t limit_bytes;
    uint64_t first_bytes;
    uint64_t largest_bytes;
    uint32_t handle_pages;
};

/* As struct moietyi_segment_info. */
struct segment_probe_info {
    uint64_t id;
    uint64_t address;
    uint64_t memory;
    uint64_t memory_bytes;
    uint32_t first_page;
    uint32_t page_count;
};

/* As struct moietyi_segments_stats. */
struct segment_probe_stats {
    uint64_t reserved_bytes;
    uint64_t unreleased_bytes;
    uint64_t grow_count;
    uint64_t failed_grow_count;
    uint64_t trim_count;
    uint64_t move_count;
    uint64_t moved_bytes;
    uint64_t left_bytes;
    uint32_t segment_count;
};

/* As struct moietyi_extension. */
struct segment_probe_extension {
    uint64_t needed_bytes;
    bool has_view;
    struct moietyi_heap *heap; /* of the view; NULL: done memory only */
    uint64_t next_epoch;
    uint64_t passed_epoch;
};

/* As struct moietyi_watch; outlives the watch. */
struct segment_probe_watcher {
    void *context;
    void (*tell)(void *context, const struct segment_probe_info *info,
                 bool is_added);
};

/* NULL: no memory. It outlives the segments. */
struct moietyi_mapper *
segment_probe_mapper_create(const struct segment_probe_mapper *functions);
void segment_probe_mapper_destroy(struct moietyi_mapper *mapper);

moiety_status segment_probe_create(const struct segment_probe_options *options,
                                   struct moietyi_segments **out);
moiety_status segment_probe_destroy(struct moietyi_segments *segments);
moiety_status segment_probe_grow(struct moietyi_segments *segments,
                                 uint64_t needed_bytes);
moiety_status segment_probe_trim(struct moietyi_segments *segments,
                                 uint64_t keep_bytes, uint64_t *out_bytes);
moiety_status segment_probe_grow_to(struct moietyi_segments *segments,
                                    uint64_t total_bytes);
bool segment_probe_can_trim(struct moietyi_segments *segments);
/* `space` is the segments'. */
moiety_status
segment_probe_extend(struct moietyi_segments *segments,
                     struct moietyi_space *space,
                     const struct segment_probe_extension *extension);
moiety_status segment_probe_add_peer(struct moietyi_segments *segments,
                                     int32_t device);
uint64_t segment_probe_left_at(struct moietyi_segments *segments);
void segment_probe_unmap_left(struct moietyi_segments *segments,
                              uint64_t passed_epoch);
/* Handles that are held, by first pages; passes every epoch. */
moiety_status segment_probe_hold(struct moietyi_segments *segments,
                                 uint32_t page_count, uint32_t *out_first);
moiety_status segment_probe_vacate(struct moietyi_segments *segments,
                                   uint32_t first, bool *out_is_away);
/* And is back; or, with memory, away still. */
moiety_status segment_probe_refill(struct moietyi_segments *segments,
                                   uint32_t first);
moiety_status segment_probe_refill_away(struct moietyi_segments *segments,
                                        uint32_t first);
void segment_probe_empty(struct moietyi_segments *segments, uint32_t first);
void segment_probe_drop(struct moietyi_segments *segments, uint32_t first);
moiety_status segment_probe_watch(struct moietyi_segments *segments,
                                  const struct segment_probe_watcher *watcher,
                                  uint64_t *out_id);
moiety_status segment_probe_unwatch(struct moietyi_segments *segments,
                                    uint64_t id);
/* False: no segment is there. */
bool segment_probe_pin(struct moietyi_segments *segments, uint64_t address,
                       uint64_t *out_id);
void segment_probe_unpin(struct moietyi_segments *segments, uint64_t id);
uint64_t segment_probe_reserved_bytes(const struct moietyi_segments *segments);
void segment_probe_read_stats(struct moietyi_segments *segments,
                              struct segment_probe_stats *out);
bool segment_probe_walk(struct moietyi_segments *segments, uint32_t from_page,
                        struct segment_probe_info *out);
/* NULL, or which invariant is broken. */
const char *segment_probe_check(struct moietyi_segments *segments);

bool segment_probe_grain_of(const struct moietyi_segments *segments,
                            uint64_t address, uint64_t *out_grain);
uint64_t segment_probe_address_of(const struct moietyi_segments *segments,
                                  uint64_t grain);

/* The last message of this thread. */
const char *segment_probe_message(void);

/* What no code of the segments does, so that the check can be seen to fail. */
void segment_probe_link(struct moietyi_segments *segments, uint32_t page,
                        uint64_t address);
void segment_probe_unlink(struct moietyi_segments *segments, uint32_t page,
                          uint64_t address);

/* Opens the driver that the environment names and makes the source of device
 * memory in a context: NULL is the primary context of device 0, retained once
 * per process. There is one such source per process. */
moiety_status segment_probe_device_source(void *context, moiety_source *out);

/* What the driver of the next function lacks. */
enum segment_probe_lack {
    PROBE_LACKS_NOTHING,
    PROBE_LACKS_ENTRIES,   /* those of mapped memory */
    PROBE_LACKS_ATTRIBUTE, /* the device says that it has none */
    PROBE_LACKS_SMALL_PAGES
};

/* As moietyi_device_mapper_probe(), in the primary context, once the function
 * above has opened a driver. */
moiety_status segment_probe_mapped_support(enum segment_probe_lack lack);

#ifdef __cplusplus
}
#endif

#endif
