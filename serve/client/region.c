/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Regions in a client. The keeper has a copy of each descriptor before it is
 * closed here, and this process keeps none.
 */
#define _GNU_SOURCE
#include "moiety/region.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "pool/base/failure.h"
#include "pool/driver/section.h"
#include "serve/client/connection.h"
#include "serve/client/memory.h"

#define HANDLE_BYTES (UINT64_C(1) << 30)

_Static_assert(MOIETY_REGION_PARTS == MOIETYI_SERVE_PARTS &&
                   MOIETY_REGION_PIDS == MOIETYI_SERVE_PIDS &&
                   MOIETY_REGION_NAME_BYTES == MOIETYI_SERVE_NAME_BYTES &&
                   MOIETY_REGION_LAYOUT_BYTES == MOIETYI_SERVE_LAYOUT_BYTES,
               "users read the bounds that keepers have");

struct moiety_region {
    struct moiety_keeper *keeper;
    const struct moietyi_driver *driver;
    uint8_t token[MOIETYI_SERVE_TOKEN_BYTES];
    struct moietyi_serve_region value;
    bool is_writer;
    bool is_bad;           /* its memory cannot be what its maker said */
    unsigned char *layout; /* NULL: none */
    struct moietyi_part_memory parts[MOIETYI_SERVE_PARTS];
};

static void region_request(const struct moiety_region *region,
                           enum moietyi_serve_kind kind,
                           struct moietyi_serve_received *out)
{
    memset(&out->frame, 0, sizeof(out->frame));
    out->count = 0;
    out->frame.kind = (uint16_t)kind;
    memcpy(out->frame.token, region->token, sizeof(region->token));
    memcpy(out->frame.region.name, region->value.name,
           sizeof(region->value.name));
}

static moiety_status region_check(const moiety_region_options *options,
                                  moiety_region **out, bool is_open)
{
    if (!out || !options || options->struct_size < sizeof(*options) ||
        !options->name || (options->part_count && !options->parts)) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "out, options, their name or their parts are NULL, "
                            "or struct_size is below %zu",
                            sizeof(*options));
    }
    if (options->flags & ~(is_open ? MOIETY_REGION_WRITE : 0U) ||
        options->reserved || options->part_count > MOIETY_REGION_PARTS ||
        (!is_open && !options->part_count)) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "flags %#x, reserved %u or %u parts are not "
                            "accepted",
                            (unsigned)options->flags,
                            (unsigned)options->reserved,
                            (unsigned)options->part_count);
    }
    for (uint32_t i = 0; i < options->part_count; i++) {
        if (options->parts[i].reserved ||
            options->parts[i].want_address % MOIETYI_SERVE_PAGE_BYTES) {
            return moietyi_fail(MOIETY_E_INVALID,
                                "part %u: an address is a multiple of 2 MiB, "
                                "and reserved is 0",
                                (unsigned)i);
        }
    }
    return moietyi_serve_check_name(options->name);
}

/* NULL: `*out_status` is why. */
static moiety_region *region_allocate(struct moiety_keeper *keeper,
                                      const moiety_region_options *options,
                                      moiety_status *out_status)
{
    const struct moietyi_driver *driver = NULL;
    *out_status =
        options->part_count ? moietyi_part_driver(&driver) : MOIETY_OK;
    if (*out_status != MOIETY_OK)
        return NULL;
    moiety_region *region = calloc(1, sizeof(*region));
    if (!region) {
        *out_status =
            moietyi_fail(MOIETY_E_NO_HOST_MEMORY, "no memory for a region");
        return NULL;
    }
    if (getrandom(region->token, sizeof(region->token), 0) !=
        (ssize_t)sizeof(region->token)) {
        free(region);
        *out_status = moietyi_fail(MOIETY_E_UNSUPPORTED,
                                   "the system has no random numbers");
        return NULL;
    }
    region->keeper = keeper;
    region->driver = driver;
    memcpy(region->value.name, options->name, strlen(options->name) + 1);
    for (uint32_t i = 0; i < MOIETYI_SERVE_PARTS; i++)
        region->parts[i].driver = driver;
    return region;
}

static moiety_status region_end_lease(struct moiety_region *region,
                                      bool has_written)
{
    struct moietyi_serve_received exchange;
    region_request(region, MOIETYI_SERVE_CLOSE, &exchange);
    exchange.frame.is_writer = !has_written;
    return moietyi_connection_ask(region->keeper, &exchange, NULL, 0);
}

static moiety_status region_unmap(struct moiety_region *region)
{
    for (uint32_t i = 0; i < MOIETYI_SERVE_PARTS; i++) {
        moiety_status status = moietyi_part_end(&region->parts[i]);
        if (status != MOIETY_OK)
            return status;
    }
    return MOIETY_OK;
}

static moiety_status region_report(struct moiety_region *region)
{
    struct moietyi_serve_received exchange;
    region_request(region, MOIETYI_SERVE_REPORT, &exchange);
    return moietyi_connection_ask(region->keeper, &exchange, NULL, 0);
}

/* After a failure, whose message stays. */
static void region_undo(struct moiety_region *region, bool has_lease)
{
    struct moietyi_failure failure;
    moietyi_failure_keep(&failure);
    for (int i = 0; i < MOIETYI_UNDO_TRIES; i++)
        if (region_unmap(region) == MOIETY_OK)
            break;
    if (region->is_bad && region_report(region) != MOIETY_OK)
        (void)moietyi_fail(MOIETY_OK, "another process reports it");
    if (has_lease && region_end_lease(region, false) != MOIETY_OK)
        (void)moietyi_fail(MOIETY_OK, "it ends with the process");
    moietyi_failure_restore(&failure);
    free(region->layout);
    free(region);
}

static uint64_t round_up(uint64_t size_bytes)
{
    uint64_t rest = size_bytes % MOIETYI_SERVE_PAGE_BYTES;
    return rest && size_bytes <= UINT64_MAX - MOIETYI_SERVE_PAGE_BYTES
               ? size_bytes + MOIETYI_SERVE_PAGE_BYTES - rest
               : size_bytes;
}

/* The description for the keeper, and addresses of the parts that are mapped. */
static moiety_status region_plan(struct moiety_region *region,
                                 const moiety_region_options *options)
{
    uint64_t size_bytes;
    moiety_status status = MOIETY_OK;
    region->value.part_count = options->part_count;
    for (uint32_t i = 0; i < options->part_count && status == MOIETY_OK; i++) {
        struct moietyi_serve_part *part = &region->value.parts[i];
        part->size_bytes = round_up(options->parts[i].size_bytes);
        part->handle_bytes =
            options->handle_bytes ? options->handle_bytes : HANDLE_BYTES;
        status =
            moietyi_part_device(region->driver, options->parts[i].device,
                                &region->parts[i].device, part->device_uuid);
    }
    if (status == MOIETY_OK)
        status = moietyi_serve_check_parts(&region->value, &size_bytes);
    for (uint32_t i = 0; i < options->part_count && status == MOIETY_OK; i++)
        status = moietyi_part_reserve(&region->parts[i], &options->parts[i],
                                      region->value.parts[i].size_bytes);
    return status;
}

/* Makes up to a frame's handles, gives them to the keeper, and closes them. */
static moiety_status region_put(struct moiety_region *region, uint32_t index,
                                uint32_t first, uint32_t count)
{
    const struct moietyi_serve_part *part = &region->value.parts[index];
    int descriptors[MOIETYI_SERVE_DESCRIPTORS];
    moiety_status status = MOIETY_OK;
    uint32_t made = 0;
    while (made < count && status == MOIETY_OK) {
        descriptors[made] = -1;
        status = moietyi_part_make(
            &region->parts[index],
            moietyi_serve_handle_bytes(part, first + made), &descriptors[made]);
        made++;
    }
    if (status == MOIETY_OK) {
        struct moietyi_serve_received exchange;
        region_request(region, MOIETYI_SERVE_PUT, &exchange);
        exchange.frame.part = index;
        exchange.frame.first = first;
        status = moietyi_connection_ask(region->keeper, &exchange, descriptors,
                                        count);
    }
    for (uint32_t i = 0; i < made; i++)
        if (descriptors[i] >= 0)
            (void)close(descriptors[i]);
    return status;
}

static uint32_t frame_handles(const struct moietyi_serve_part *part,
                              uint32_t first)
{
    uint64_t left = moietyi_serve_handle_count(part) - first;
    return left < MOIETYI_SERVE_DESCRIPTORS ? (uint32_t)left
                                            : MOIETYI_SERVE_DESCRIPTORS;
}

static moiety_status region_fill(struct moiety_region *region)
{
    moiety_status status = MOIETY_OK;
    for (uint32_t i = 0; i < region->value.part_count; i++) {
        const struct moietyi_serve_part *part = &region->value.parts[i];
        uint32_t first = 0;
        while (status == MOIETY_OK &&
               first < moietyi_serve_handle_count(part)) {
            uint32_t count = frame_handles(part, first);
            status = region_put(region, i, first, count);
            first += count;
        }
        if (status == MOIETY_OK)
            status = moietyi_part_grant(&region->parts[i], true);
        if (status != MOIETY_OK)
            return status;
    }
    return MOIETY_OK;
}

static moiety_status region_create(struct moiety_keeper *keeper,
                                   const moiety_region_options *options,
                                   moiety_region **out)
{
    struct moietyi_serve_received exchange;
    moiety_status status;
    moiety_region *region = region_allocate(keeper, options, &status);
    if (!region)
        return status;
    bool has_lease = false;
    status = region_plan(region, options);
    if (status == MOIETY_OK) {
        region_request(region, MOIETYI_SERVE_CREATE, &exchange);
        exchange.frame.region = region->value;
        status = moietyi_connection_ask(keeper, &exchange, NULL, 0);
        /* Of a timeout nobody knows. */
        has_lease = true;
    }
    if (status == MOIETY_OK)
        status = region_fill(region);
    if (status != MOIETY_OK) {
        region_undo(region, has_lease);
        return status;
    }
    region->is_writer = true;
    region->value.state = MOIETY_REGION_WRITING;
    keeper->region_count++;
    *out = region;
    return MOIETY_OK;
}

/* Imports a part and maps it. */
static moiety_status region_map_part(struct moiety_region *region,
                                     uint32_t index)
{
    const struct moietyi_serve_part *part = &region->value.parts[index];
    struct moietyi_serve_received exchange;
    uint32_t first = 0;
    while (first < moietyi_serve_handle_count(part)) {
        region_request(region, MOIETYI_SERVE_FETCH, &exchange);
        exchange.frame.part = index;
        exchange.frame.first = first;
        moiety_status status =
            moietyi_connection_ask(region->keeper, &exchange, NULL, 0);
        if (status != MOIETY_OK)
            return status;
        if (exchange.count != frame_handles(part, first))
            status =
                moietyi_fail(MOIETY_E_CORRUPT, "the keeper sends %zu handles",
                             exchange.count);
        for (uint32_t i = 0; i < exchange.count && status == MOIETY_OK; i++) {
            status =
                moietyi_part_take(&region->parts[index],
                                  moietyi_serve_handle_bytes(part, first + i),
                                  exchange.descriptors[i]);
            region->is_bad = status == MOIETY_E_CORRUPT;
        }
        first += (uint32_t)exchange.count;
        moietyi_serve_close_all(&exchange);
        if (status != MOIETY_OK)
            return status;
    }
    return moietyi_part_grant(&region->parts[index], region->is_writer);
}

/* Finds the region's part on a device, and maps it there. */
static moiety_status region_open_part(struct moiety_region *region,
                                      const moiety_region_part *wanted)
{
    uint8_t uuid[16];
    CUdevice device;
    uint32_t i = 0;
    moiety_status status =
        moietyi_part_device(region->driver, wanted->device, &device, uuid);
    if (status != MOIETY_OK)
        return status;
    while (i < region->value.part_count &&
           memcmp(region->value.parts[i].device_uuid, uuid, sizeof(uuid)) != 0)
        i++;
    if (i == region->value.part_count || region->parts[i].address)
        return moietyi_fail(MOIETY_E_INVALID,
                            "region \"%s\" has no further part on device %d",
                            region->value.name, (int)wanted->device);
    uint64_t size_bytes = region->value.parts[i].size_bytes;
    if (wanted->size_bytes && round_up(wanted->size_bytes) != size_bytes) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "region \"%s\" has %llu bytes on device %d",
                            region->value.name, (unsigned long long)size_bytes,
                            (int)wanted->device);
    }
    region->parts[i].device = device;
    status = moietyi_part_reserve(&region->parts[i], wanted, size_bytes);
    if (status == MOIETY_OK && wanted->context)
        status = region_map_part(region, i);
    return status;
}

static moiety_status region_read_layout(struct moiety_region *region,
                                        int descriptor)
{
    size_t size_bytes = region->value.layout_bytes;
    size_t done = 0;
    region->layout = malloc(size_bytes);
    if (!region->layout)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY, "no memory for a layout");
    while (done < size_bytes) {
        ssize_t got = pread(descriptor, region->layout + done,
                            size_bytes - done, (off_t)done);
        if (got == 0 || (got < 0 && errno != EINTR))
            return moietyi_fail(MOIETY_E_CORRUPT,
                                "the layout does not have %zu bytes",
                                size_bytes);
        done += got > 0 ? (size_t)got : 0;
    }
    return MOIETY_OK;
}

static moiety_status region_fetch_layout(struct moiety_region *region)
{
    struct moietyi_serve_received exchange;
    if (!region->value.layout_bytes)
        return MOIETY_OK;
    region_request(region, MOIETYI_SERVE_FETCH_LAYOUT, &exchange);
    moiety_status status =
        moietyi_connection_ask(region->keeper, &exchange, NULL, 0);
    if (status != MOIETY_OK)
        return status;
    status = exchange.count == 1
                 ? region_read_layout(region, exchange.descriptors[0])
                 : moietyi_fail(MOIETY_E_CORRUPT, "the keeper sends no layout");
    moietyi_serve_close_all(&exchange);
    return status;
}

/* A keeper's description is checked as a client's is. */
static moiety_status region_learn(struct moiety_region *region,
                                  const struct moietyi_serve_region *value)
{
    uint64_t size_bytes;
    moiety_status status = moietyi_serve_check_parts(value, &size_bytes);
    if (status == MOIETY_OK &&
        value->layout_bytes <= MOIETYI_SERVE_LAYOUT_BYTES) {
        region->value = *value;
        return MOIETY_OK;
    }
    return moietyi_fail(MOIETY_E_CORRUPT,
                        "the keeper describes a region that cannot be");
}

static moiety_status region_open(struct moiety_keeper *keeper,
                                 const moiety_region_options *options,
                                 moiety_region **out)
{
    struct moietyi_serve_received exchange;
    moiety_status status;
    moiety_region *region = region_allocate(keeper, options, &status);
    if (!region)
        return status;
    region->is_writer = (options->flags & MOIETY_REGION_WRITE) != 0;
    region_request(region, MOIETYI_SERVE_OPEN, &exchange);
    exchange.frame.is_writer = region->is_writer;
    status = moietyi_connection_ask(keeper, &exchange, NULL, 0);
    if (status == MOIETY_OK)
        status = region_learn(region, &exchange.frame.region);
    if (status == MOIETY_OK)
        status = region_fetch_layout(region);
    for (uint32_t i = 0; i < options->part_count && status == MOIETY_OK; i++)
        status = region_open_part(region, &options->parts[i]);
    if (status != MOIETY_OK) {
        region_undo(region, true);
        return status;
    }
    keeper->region_count++;
    *out = region;
    return MOIETY_OK;
}

static moiety_status region_obtain(moiety_keeper *keeper,
                                   const moiety_region_options *options,
                                   moiety_region **out, bool is_open)
{
    if (!keeper) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_region_%s: keeper is NULL",
                            is_open ? "open" : "create");
    }
    moiety_status status = region_check(options, out, is_open);
    if (status == MOIETY_OK)
        status = moietyi_connection_enter(keeper);
    if (status != MOIETY_OK)
        return status;
    status = is_open ? region_open(keeper, options, out)
                     : region_create(keeper, options, out);
    moietyi_connection_leave(keeper);
    return status;
}

moiety_status moiety_region_create(moiety_keeper *keeper,
                                   const moiety_region_options *options,
                                   moiety_region **out)
{
    return region_obtain(keeper, options, out, false);
}

moiety_status moiety_region_open(moiety_keeper *keeper,
                                 const moiety_region_options *options,
                                 moiety_region **out)
{
    return region_obtain(keeper, options, out, true);
}

/* A sealed file with the layout; -1: none could be made. */
static int layout_seal(const unsigned char *bytes, size_t size_bytes)
{
    int file = memfd_create("moiety_layout", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    size_t done = 0;
    while (file >= 0 && done < size_bytes) {
        ssize_t got = write(file, bytes + done, size_bytes - done);
        if (got <= 0 && errno != EINTR)
            break;
        done += got > 0 ? (size_t)got : 0;
    }
    if (file >= 0 && done == size_bytes &&
        fcntl(file, F_ADD_SEALS,
              F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0)
        return file;
    if (file >= 0)
        (void)close(file);
    return -1;
}

/* All parts; the first failure counts. */
static moiety_status region_grant(struct moiety_region *region, bool is_writer)
{
    moiety_status first = MOIETY_OK;
    for (uint32_t i = 0; i < region->value.part_count; i++) {
        moiety_status status = moietyi_part_grant(&region->parts[i], is_writer);
        if (first == MOIETY_OK)
            first = status;
    }
    return first;
}

/* The mappings are read-only before readers hear of the region. */
static moiety_status region_publish(struct moiety_region *region, int layout)
{
    struct moietyi_serve_received exchange;
    moiety_status status = region_grant(region, false);
    if (status == MOIETY_OK) {
        region_request(region, MOIETYI_SERVE_COMMIT, &exchange);
        exchange.frame.region.generation = region->value.generation + 1;
        status = moietyi_connection_ask(region->keeper, &exchange, &layout,
                                        layout >= 0);
    }
    /* Without an answer readers may be there already: nobody writes then. */
    if (status == MOIETY_OK || status == MOIETY_E_PEER_GONE ||
        status == MOIETY_E_TIMEOUT)
        return status;
    struct moietyi_failure failure;
    moietyi_failure_keep(&failure);
    /* The caller may write, and commit again. */
    if (region_grant(region, true) != MOIETY_OK)
        (void)region_grant(region, true);
    moietyi_failure_restore(&failure);
    return status;
}

static moiety_status region_commit(struct moiety_region *region,
                                   const void *layout, size_t layout_bytes)
{
    unsigned char *copy = NULL;
    int file = -1;
    if (!region->is_writer)
        return moietyi_fail(MOIETY_E_INVALID,
                            "region \"%s\" is not written by this process",
                            region->value.name);
    if (layout_bytes) {
        copy = malloc(layout_bytes);
        if (copy)
            memcpy(copy, layout, layout_bytes);
        file = copy ? layout_seal(copy, layout_bytes) : -1;
        if (file < 0) {
            free(copy);
            return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                                "no memory, or no descriptor, for a layout");
        }
    }
    moiety_status status = region_publish(region, file);
    if (file >= 0)
        (void)close(file);
    if (status != MOIETY_OK) {
        free(copy);
        return status;
    }
    free(region->layout);
    region->layout = copy;
    region->value.layout_bytes = layout_bytes;
    region->value.generation++;
    region->value.state = MOIETY_REGION_COMMITTED;
    region->is_writer = false;
    return MOIETY_OK;
}

moiety_status moiety_region_commit(moiety_region *region, const void *layout,
                                   size_t layout_bytes)
{
    if (!region || (!layout && layout_bytes) ||
        layout_bytes > MOIETYI_SERVE_LAYOUT_BYTES)
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_region_commit: region is NULL, or the "
                            "layout is NULL or longer than 1 MiB");
    moiety_status status = moietyi_connection_enter(region->keeper);
    if (status != MOIETY_OK)
        return status;
    status = region_commit(region, layout, layout_bytes);
    moietyi_connection_leave(region->keeper);
    return status;
}

moiety_status moiety_region_get_info(moiety_region *region, uint32_t part,
                                     moiety_region_info *out)
{
    if (!region || !out || out->struct_size < sizeof(*out)) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_region_get_info: region or out is NULL, or "
                            "struct_size is below %zu",
                            sizeof(*out));
    }
    moiety_status status = moietyi_connection_enter(region->keeper);
    if (status != MOIETY_OK)
        return status;
    if (part < region->value.part_count) {
        const struct moietyi_serve_part *known = &region->value.parts[part];
        *out = (moiety_region_info){.struct_size = (uint32_t)sizeof(*out),
                                    .state = region->value.state,
                                    .generation = region->value.generation,
                                    .address = region->parts[part].address,
                                    .size_bytes = known->size_bytes,
                                    .handle_bytes = known->handle_bytes,
                                    .layout = region->layout,
                                    .layout_bytes = region->value.layout_bytes,
                                    .part_count = region->value.part_count};
        memcpy(out->device_uuid, known->device_uuid, sizeof(out->device_uuid));
    } else {
        status = moietyi_fail(MOIETY_E_INVALID, "region \"%s\" has %u parts",
                              region->value.name,
                              (unsigned)region->value.part_count);
    }
    moietyi_connection_leave(region->keeper);
    return status;
}

moiety_status moiety_region_close(moiety_region *region)
{
    if (!region)
        return MOIETY_OK;
    struct moiety_keeper *keeper = region->keeper;
    moiety_status status = moietyi_connection_enter(keeper);
    if (status != MOIETY_OK)
        return status;
    status = region_unmap(region);
    if (status == MOIETY_OK) {
        status = region_end_lease(region, true);
        keeper->region_count--;
        free(region->layout);
        free(region);
    }
    moietyi_connection_leave(keeper);
    return status;
}
