/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/segment_probe.h"

#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/segment/device_source.h"
#include "pool/segment/mapper.h"
#include "pool/segment/segment.h"

static struct moietyi_lookup *lookup_of(const struct moietyi_segments *segments)
{
    return (struct moietyi_lookup *)moietyi_segments_lookup(segments);
}

struct moietyi_mapper *
segment_probe_mapper_create(const struct segment_probe_mapper *functions)
{
    struct moietyi_mapper *mapper = malloc(sizeof(*mapper));
    if (!mapper)
        return NULL;
    *mapper = (struct moietyi_mapper){.context = functions->context,
                                      .reserve = functions->reserve,
                                      .release = functions->release,
                                      .create = functions->create,
                                      .look_free = functions->look_free,
                                      .destroy = functions->destroy,
                                      .map = functions->map,
                                      .grant = functions->grant,
                                      .unmap = functions->unmap};
    return mapper;
}

void segment_probe_mapper_destroy(struct moietyi_mapper *mapper)
{
    free(mapper);
}

moiety_status segment_probe_create(const struct segment_probe_options *options,
                                   struct moietyi_segments **out)
{
    moiety_source mapped = {0};
    if (options->mapper)
        mapped = moietyi_mapped_source_init(options->mapper);
    uint64_t first =
        options->first_bytes ? options->first_bytes : MOIETYI_PAGE_BYTES;
    uint64_t largest =
        options->largest_bytes ? options->largest_bytes : UINT64_C(1) << 30;
    const struct moietyi_segments_options own = {
        .source =
            options->mapper && !options->source ? &mapped : options->source,
        .mapper = options->mapper,
        .peers = options->peers,
        .space = options->space,
        .page_capacity = options->page_capacity,
        .limit_bytes = options->limit_bytes ? options->limit_bytes : UINT64_MAX,
        .first_bytes = first < largest ? first : largest,
        .handle_pages = options->handle_pages,
        .largest_bytes = largest,
    };
    return moietyi_segments_create(&own, out);
}

moiety_status segment_probe_destroy(struct moietyi_segments *segments)
{
    return moietyi_segments_destroy(segments);
}

moiety_status segment_probe_grow(struct moietyi_segments *segments,
                                 uint64_t needed_bytes)
{
    return moietyi_segments_grow(segments, needed_bytes);
}

moiety_status segment_probe_trim(struct moietyi_segments *segments,
                                 uint64_t keep_bytes, uint64_t *out_bytes)
{
    return moietyi_segments_trim(segments, keep_bytes, NULL, out_bytes);
}

moiety_status segment_probe_grow_to(struct moietyi_segments *segments,
                                    uint64_t total_bytes)
{
    return moietyi_segments_grow_to(segments, total_bytes);
}

bool segment_probe_can_trim(struct moietyi_segments *segments)
{
    return moietyi_segments_whole_bytes(segments) != 0;
}

/* The extension stands for the streams, which know no epoch here. */
static uint64_t probe_next_epoch(const struct moietyi_streams *streams)
{
    const struct segment_probe_extension *extension = (const void *)streams;
    return extension->next_epoch;
}

moiety_status
segment_probe_extend(struct moietyi_segments *segments,
                     struct moietyi_space *space,
                     const struct segment_probe_extension *extension)
{
    const struct moietyi_view view = {.space = space, .heap = extension->heap};
    const struct moietyi_extension own = {
        .needed_bytes = extension->needed_bytes,
        .view = extension->has_view ? &view : NULL,
        .passed_epoch = extension->passed_epoch,
        .next_epoch = extension->next_epoch ? probe_next_epoch : NULL,
        .streams = (const struct moietyi_streams *)(const void *)extension};
    return moietyi_segments_extend(segments, &own);
}

moiety_status segment_probe_add_peer(struct moietyi_segments *segments,
                                     int32_t device)
{
    return moietyi_segments_add_peer(segments, device);
}

uint64_t segment_probe_left_at(struct moietyi_segments *segments)
{
    return moietyi_segments_left_at(segments, 0);
}

void segment_probe_unmap_left(struct moietyi_segments *segments,
                              uint64_t passed_epoch)
{
    moietyi_segments_unmap_left(segments, passed_epoch);
}

moiety_status segment_probe_hold(struct moietyi_segments *segments,
                                 uint32_t page_count, uint32_t *out_first)
{
    moietyi_page first = {0};
    moiety_status status =
        moietyi_segments_hold(segments, page_count, UINT64_MAX, true, &first);
    *out_first = first.index;
    return status;
}

moiety_status segment_probe_vacate(struct moietyi_segments *segments,
                                   uint32_t first, bool *out_is_away)
{
    const moietyi_page page = {first};
    const struct moietyi_handle held = {NULL, page};
    return moietyi_segments_vacate(segments, &held, out_is_away);
}

moiety_status segment_probe_refill_away(struct moietyi_segments *segments,
                                        uint32_t first)
{
    const moietyi_page page = {first};
    const struct moietyi_handle held = {NULL, page};
    return moietyi_segments_refill(segments, &held);
}

moiety_status segment_probe_refill(struct moietyi_segments *segments,
                                   uint32_t first)
{
    const moietyi_page page = {first};
    const struct moietyi_handle held = {NULL, page};
    moiety_status status = segment_probe_refill_away(segments, first);
    if (status == MOIETY_OK)
        moietyi_segments_restore(segments, &held);
    return status;
}

void segment_probe_empty(struct moietyi_segments *segments, uint32_t first)
{
    const moietyi_page page = {first};
    const struct moietyi_handle held = {NULL, page};
    moietyi_segments_empty(segments, &held);
}

void segment_probe_drop(struct moietyi_segments *segments, uint32_t first)
{
    const moietyi_page page = {first};
    const struct moietyi_handle held = {NULL, page};
    moietyi_segments_drop(segments, &held);
}

static void watcher_tell(const struct moietyi_watch *watch,
                         const struct moietyi_segment_info *info,
                         uint64_t hold_count, bool is_added)
{
    const struct segment_probe_watcher *watcher = watch->context;
    const struct segment_probe_info told = {
        .id = info->id,
        .address = info->address,
        .memory = info->memory,
        .memory_bytes = info->memory_bytes,
        .first_page = info->first.index,
        .page_count = info->page_count,
    };
    (void)hold_count;
    watcher->tell(watcher->context, &told, is_added);
}

moiety_status segment_probe_watch(struct moietyi_segments *segments,
                                  const struct segment_probe_watcher *watcher,
                                  uint64_t *out_id)
{
    const struct moietyi_watch watch = {.context = watcher,
                                        .tell = watcher_tell};
    return moietyi_segments_watch(segments, &watch, out_id);
}

moiety_status segment_probe_unwatch(struct moietyi_segments *segments,
                                    uint64_t id)
{
    return moietyi_segments_unwatch(segments, id);
}

bool segment_probe_pin(struct moietyi_segments *segments, uint64_t address,
                       uint64_t *out_id)
{
    struct moietyi_segment_info info;
    if (!moietyi_segments_pin(segments, address, &info))
        return false;
    *out_id = info.id;
    return true;
}

void segment_probe_unpin(struct moietyi_segments *segments, uint64_t id)
{
    moietyi_segments_unpin(segments, id);
}

uint64_t segment_probe_reserved_bytes(const struct moietyi_segments *segments)
{
    return moietyi_segments_reserved_bytes(segments);
}

void segment_probe_read_stats(struct moietyi_segments *segments,
                              struct segment_probe_stats *out)
{
    struct moietyi_segments_stats own;
    moietyi_segments_stats(segments, &own);
    *out = (struct segment_probe_stats){
        .reserved_bytes = own.reserved_bytes,
        .unreleased_bytes = own.unreleased_bytes,
        .grow_count = own.grow_count,
        .failed_grow_count = own.failed_grow_count,
        .trim_count = own.trim_count,
        .move_count = own.move_count,
        .moved_bytes = own.moved_bytes,
        .left_bytes = own.left_bytes,
        .segment_count = own.segment_count,
    };
}

bool segment_probe_walk(struct moietyi_segments *segments, uint32_t from_page,
                        struct segment_probe_info *out)
{
    struct moietyi_segment_info own;
    if (!moietyi_segments_walk(segments, (moietyi_page){from_page}, &own))
        return false;
    *out = (struct segment_probe_info){
        .id = own.id,
        .address = own.address,
        .memory = own.memory,
        .memory_bytes = own.memory_bytes,
        .first_page = own.first.index,
        .page_count = own.page_count,
    };
    return true;
}

const char *segment_probe_check(struct moietyi_segments *segments)
{
    moietyi_page at;
    return moietyi_segments_check(segments, &at);
}

bool segment_probe_grain_of(const struct moietyi_segments *segments,
                            uint64_t address, uint64_t *out_grain)
{
    moietyi_grain grain;
    if (!moietyi_grain_of(lookup_of(segments), address, &grain))
        return false;
    *out_grain = grain.index;
    return true;
}

uint64_t segment_probe_address_of(const struct moietyi_segments *segments,
                                  uint64_t grain)
{
    return moietyi_address_of(lookup_of(segments), moietyi_grain_at(grain));
}

const char *segment_probe_message(void)
{
    return moietyi_failure_message();
}

void segment_probe_link(struct moietyi_segments *segments, uint32_t page,
                        uint64_t address)
{
    moietyi_lookup_link(lookup_of(segments), (moietyi_page){page}, address, 1);
}

void segment_probe_unlink(struct moietyi_segments *segments, uint32_t page,
                          uint64_t address)
{
    moietyi_lookup_unlink(lookup_of(segments), (moietyi_page){page}, address,
                          1);
}

moiety_status segment_probe_device_source(void *context, moiety_source *out)
{
    static struct moietyi_context storage;
    static _Atomic uint64_t mark;
    static CUcontext primary;
    const struct moietyi_driver *driver;
    moiety_status status = moietyi_driver_open(&driver);
    if (status == MOIETY_OK && !context && !primary)
        status = MOIETYI_CALL(driver, cuDevicePrimaryCtxRetain, (&primary, 0));
    if (status != MOIETY_OK)
        return status;
    status = moietyi_context_init(&storage, driver, context ? context : primary,
                                  &mark, 1);
    if (status == MOIETY_OK)
        *out = moietyi_device_source_init(&storage);
    return status;
}

static CUresult lacks_attribute(int *out, CUdevice_attribute what,
                                CUdevice device)
{
    (void)what;
    (void)device;
    *out = 0;
    return CUDA_SUCCESS;
}

static CUresult lacks_small_pages(size_t *out,
                                  const CUmemAllocationProp *properties,
                                  CUmemAllocationGranularity_flags option)
{
    (void)properties;
    (void)option;
    *out = (size_t)3 << 20;
    return CUDA_SUCCESS;
}

moiety_status segment_probe_mapped_support(enum segment_probe_lack lack)
{
    static _Atomic uint64_t mark;
    const struct moietyi_driver *driver;
    struct moietyi_context context;
    CUcontext primary;
    moiety_status status = moietyi_driver_open(&driver);
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(driver, cuDevicePrimaryCtxRetain, (&primary, 0));
    if (status != MOIETY_OK)
        return status;
    struct moietyi_driver own = *driver;
    if (lack == PROBE_LACKS_ENTRIES)
        own.cuMemMap = NULL;
    if (lack == PROBE_LACKS_ATTRIBUTE)
        own.cuDeviceGetAttribute = lacks_attribute;
    if (lack == PROBE_LACKS_SMALL_PAGES)
        own.cuMemGetAllocationGranularity = lacks_small_pages;
    status = moietyi_context_init(&context, &own, primary, &mark, 1);
    if (status == MOIETY_OK)
        status = moietyi_device_mapper_probe(&context);
    (void)driver->cuDevicePrimaryCtxRelease(0);
    return status;
}
