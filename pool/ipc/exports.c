/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Beginning and end of a pool's exports, and the segments among them: sorted by
 * address, so that an export finds its own among many. And the short-cut: who
 * imports what this very process exported gets the address itself, since the
 * driver would refuse to open such a handle.
 */
#include "pool/ipc/exports.h"

#include <stdlib.h>
#include <string.h>

#include "pool/base/failure.h"
#include "pool/base/lock.h"
#include "pool/driver/section.h"
#include "pool/ipc/process.h"
#include "pool/ipc/state.h"

/* The process's exporting pools. The lock is taken before any exports' own. */
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct moietyi_exports *all;
static uint64_t last_serial;

static void enrol(struct moietyi_exports *exports)
{
    moietyi_lock(&registry_lock);
    exports->serial = ++last_serial;
    exports->next = all;
    all = exports;
    moietyi_unlock(&registry_lock);
}

static void strike(struct moietyi_exports *exports)
{
    moietyi_lock(&registry_lock);
    struct moietyi_exports **at = &all;
    while (*at != exports)
        at = &(*at)->next;
    *at = exports->next;
    moietyi_unlock(&registry_lock);
}

static moiety_status ask_uuid(const struct moietyi_exports_options *options,
                              CUuuid *out)
{
    struct moietyi_section section;
    CUdevice device;
    moiety_status status =
        moietyi_context_enter(options->own_context, &section);
    if (status != MOIETY_OK)
        return status;
    status = MOIETYI_CALL(options->driver, cuCtxGetDevice, (&device));
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(options->driver, cuDeviceGetUuid, (out, device));
    (void)moietyi_section_leave(&section);
    return status;
}

/* The fields that all handles of the pool share. */
static moiety_status fill_common(const struct moietyi_exports_options *options,
                                 moiety_ipc_handle *out)
{
    const struct moietyi_process *self;
    CUuuid uuid;
    moiety_status status = moietyi_process_self(&self);
    if (status == MOIETY_OK)
        status = ask_uuid(options, &uuid);
    if (status != MOIETY_OK)
        return status;
    memset(out, 0, sizeof(*out));
    memcpy(out->device_uuid, uuid.bytes, sizeof(out->device_uuid));
    memcpy(out->machine, self->machine, sizeof(out->machine));
    out->pid_namespace = self->pid_namespace;
    out->start_ticks = self->start_ticks;
    out->pid = (uint32_t)self->pid;
    return MOIETY_OK;
}

moiety_status
moietyi_exports_create(const struct moietyi_exports_options *options,
                       struct moietyi_exports **out)
{
    /* A mapper that can share has looked for what it needs. */
    if (!options->mapper && !options->driver->cuIpcGetMemHandle)
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "the driver cannot export memory");
    struct moietyi_exports *exports = calloc(1, sizeof(*exports));
    if (!exports)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory for a pool's exports");
    moiety_status status = fill_common(options, &exports->common);
    if (status != MOIETY_OK) {
        free(exports);
        return status;
    }
    exports->options = *options;
    pthread_mutex_init(&exports->lock, NULL);
    enrol(exports);
    *out = exports;
    return MOIETY_OK;
}

void moietyi_exports_drain(struct moietyi_exports *exports,
                           struct moietyi_engine *engine)
{
    /* Nobody's, so that it needs no memory. */
    struct moietyi_thread_state by = {.engine = engine};
    if (!exports)
        return;
    struct moietyi_held *freed =
        moietyi_held_take_freed(&exports->blocks, 0, MOIETYI_ADDRESS_END);
    while (freed) {
        struct moietyi_held *held = freed;
        freed = held->next;
        moietyi_give_block(&by, held->address);
        free(held);
    }
}

void moietyi_exports_destroy(struct moietyi_exports *exports)
{
    if (!exports)
        return;
    strike(exports);
    moietyi_held_fini(&exports->blocks);
    pthread_mutex_destroy(&exports->lock);
    free(exports->segments);
    free(exports);
}

void moietyi_exports_list(struct moietyi_exports *exports,
                          struct moietyi_exported_list *out)
{
    pthread_mutex_lock(&exports->lock);
    const struct moietyi_held_table *table = &exports->blocks;
    for (size_t i = 0; i < table->bucket_count; i++) {
        for (const struct moietyi_held *held = table->buckets[i]; held;
             held = held->next) {
            if (out->count < out->capacity)
                out->blocks[out->count] =
                    (struct moietyi_exported){held->address, held->is_freed};
            out->count++;
        }
    }
    pthread_mutex_unlock(&exports->lock);
}

static moiety_devptr exports_end_of(const struct moietyi_export *segment)
{
    return segment->info.address +
           (uint64_t)segment->info.page_count * MOIETYI_PAGE_BYTES;
}

/* The first that ends behind `address`. */
static size_t exports_index_of(const struct moietyi_exports *exports,
                               moiety_devptr address)
{
    size_t first = 0;
    size_t end = exports->segment_count;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if (exports_end_of(&exports->segments[middle]) > address)
            end = middle;
        else
            first = middle + 1;
    }
    return first;
}

bool moietyi_exports_are_mapped(const struct moietyi_exports *exports)
{
    return exports->options.mapper != NULL;
}

/* The first that does not come before such a run. */
static size_t exports_place_of(const struct moietyi_exports *exports,
                               moiety_devptr address, uint64_t size_bytes)
{
    size_t first = 0;
    size_t end = exports->segment_count;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        const struct moietyi_segment_info *info =
            &exports->segments[middle].info;
        if (info->address < address ||
            (info->address == address && info->memory_bytes < size_bytes))
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

struct moietyi_export *moietyi_export_run(const struct moietyi_exports *exports,
                                          moiety_devptr address,
                                          uint64_t size_bytes)
{
    size_t index = exports_place_of(exports, address, size_bytes);
    if (index == exports->segment_count)
        return NULL;
    struct moietyi_export *run = &exports->segments[index];
    return run->info.address == address && run->info.memory_bytes == size_bytes
               ? run
               : NULL;
}

struct moietyi_export_range
moietyi_export_range_of(const struct moietyi_exports *exports,
                        moiety_devptr address)
{
    struct moietyi_export_range range = {0, 0};
    for (size_t i = 0; i < exports->segment_count; i++) {
        const struct moietyi_export *at = &exports->segments[i];
        moiety_devptr end = exports_end_of(at);
        bool is_apart = at->info.address >= range.end;
        if (is_apart && address < range.end)
            break;
        if (is_apart)
            range = (struct moietyi_export_range){at->info.address, end};
        else if (end > range.end)
            range.end = end;
    }
    return address >= range.first && address < range.end
               ? range
               : (struct moietyi_export_range){0, 0};
}

struct moietyi_export *moietyi_export_at(const struct moietyi_exports *exports,
                                         moiety_devptr address)
{
    size_t index = exports_index_of(exports, address);
    if (index == exports->segment_count ||
        exports->segments[index].info.address > address)
        return NULL;
    return &exports->segments[index];
}

bool moietyi_export_insert(struct moietyi_exports *exports,
                           const struct moietyi_export *fresh)
{
    size_t index = exports_place_of(exports, fresh->info.address,
                                    fresh->info.memory_bytes);
    if (exports->segment_count == exports->segment_capacity) {
        size_t capacity = 2 * exports->segment_capacity + 4;
        struct moietyi_export *segments =
            realloc(exports->segments, capacity * sizeof(*segments));
        if (!segments)
            return false;
        exports->segments = segments;
        exports->segment_capacity = capacity;
    }
    memmove(&exports->segments[index + 1], &exports->segments[index],
            (exports->segment_count - index) * sizeof(*exports->segments));
    exports->segments[index] = *fresh;
    exports->segment_count++;
    return true;
}

void moietyi_export_remove(struct moietyi_exports *exports, size_t index)
{
    exports->segment_count--;
    memmove(&exports->segments[index], &exports->segments[index + 1],
            (exports->segment_count - index) * sizeof(*exports->segments));
}

/* --- Imports by this very process ------------------------------------ */

/* The export that a handle is of, or NULL. The lock of its pool held. */
static struct moietyi_export *find_handle(const struct moietyi_exports *exports,
                                          const moiety_ipc_handle *handle)
{
    for (size_t i = 0; i < exports->segment_count; i++) {
        struct moietyi_export *export = &exports->segments[i];
        if (export->common.segment_id == handle->segment_id &&
            export->common.generation == handle->generation &&
            memcmp(export->common.driver_handle, handle->driver_handle,
                   sizeof(handle->driver_handle)) == 0)
            return export;
    }
    return NULL;
}

static bool open_of(struct moietyi_exports *exports,
                    const moiety_ipc_handle *handle, moiety_devptr *out)
{
    pthread_mutex_lock(&exports->lock);
    struct moietyi_export *export = find_handle(exports, handle);
    if (export) {
        export->import_count++;
        *out = export->info.memory + handle->offset_bytes;
    }
    pthread_mutex_unlock(&exports->lock);
    return export != NULL;
}

moiety_status moietyi_exports_open(const moiety_ipc_handle *handle,
                                   moiety_devptr *out)
{
    bool is_found = false;
    moietyi_lock(&registry_lock);
    for (struct moietyi_exports *exports = all; exports && !is_found;
         exports = exports->next)
        is_found = open_of(exports, handle, out);
    moietyi_unlock(&registry_lock);
    return is_found ? MOIETY_OK
                    : moietyi_fail(MOIETY_E_STALE,
                                   "the handle is of this process, which has "
                                   "released that export");
}

/* MOIETY_E_FOREIGN: it is not of these. */
static moiety_status close_of(struct moietyi_exports *exports,
                              moiety_devptr address)
{
    moiety_status status = MOIETY_E_FOREIGN;
    pthread_mutex_lock(&exports->lock);
    struct moietyi_export_range range =
        moietyi_export_range_of(exports, address);
    if (range.end)
        status = MOIETY_E_INVALID;
    /* Which of the runs that overlap there does not matter: they are released
     * together. */
    for (size_t i = 0; i < exports->segment_count && status != MOIETY_OK; i++) {
        struct moietyi_export *export = &exports->segments[i];
        if (export->info.address < range.first ||
            export->info.address >= range.end || !export->import_count)
            continue;
        export->import_count--;
        status = MOIETY_OK;
    }
    pthread_mutex_unlock(&exports->lock);
    return status;
}

moiety_status moietyi_exports_close(moiety_devptr address)
{
    moiety_status status = MOIETY_E_FOREIGN;
    moietyi_lock(&registry_lock);
    for (struct moietyi_exports *exports = all;
         exports && status == MOIETY_E_FOREIGN; exports = exports->next)
        status = close_of(exports, address);
    moietyi_unlock(&registry_lock);
    return status;
}
