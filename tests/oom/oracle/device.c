/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/oom/oracle/device.h"

#include "moiety/segment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/oom/oracle/judge/fits.h"
#include "tests/support/driver_probe.h"

#define FIRST_ADDRESS (UINT64_C(1) << 40)
/* The addresses that are free are never all in one piece. */
#define SPACE_PER_LIMIT 8U

static _Thread_local uint32_t mover = HISTORY_NO_STREAM;
static int (*hold)(void *stream);
static int (*release)(void *stream);

static bool find_control(const char *name, void *out)
{
    void *found = driver_probe_symbol(name);
    memcpy(out, &found, sizeof(found));
    if (!found)
        (void)fprintf(stderr, "%s is missing: only the stand-in has it\n",
                      name);
    return found != NULL;
}

bool device_find_controls(void)
{
    return find_control("moiety_standin_hold", &hold) &&
           find_control("moiety_standin_release", &release);
}

void device_init(struct device *device)
{
    *device = (struct device){0};
    (void)pthread_mutex_init(&device->lock, NULL);
    for (uint32_t i = 0; i < DEVICE_STREAMS; i++) {
        (void)pthread_mutex_init(&device->stream_locks[i], NULL);
        MUST(cu.cuStreamCreate(&device->streams[i], CU_STREAM_NON_BLOCKING));
    }
}

void device_fini(struct device *device)
{
    for (uint32_t i = 0; i < DEVICE_STREAMS; i++) {
        MUST(cu.cuStreamDestroy(device->streams[i]));
        (void)pthread_mutex_destroy(&device->stream_locks[i]);
    }
    (void)pthread_mutex_destroy(&device->lock);
}

void device_begin(struct device *device, struct history *history,
                  uint64_t limit_bytes)
{
    device->history = history;
    device->leaving_bytes = 0;
    if (device->is_mapped)
        return;
    device->next_unit = 0;
    device->unit_count =
        (uint32_t)(limit_bytes / FITS_UNIT_BYTES) * SPACE_PER_LIMIT;
    device->is_unit_used =
        calloc(device->unit_count, sizeof(*device->is_unit_used));
    kit_require(device->is_unit_used != NULL, "calloc");
}

void device_end(struct device *device)
{
    kit_require(device->segment_count == 0, "the return of all handles");
    if (device->is_mapped)
        return;
    for (uint32_t i = 0; i < device->unit_count; i++)
        kit_require(!device->is_unit_used[i], "the return of all memory");
    free(device->is_unit_used);
    device->is_unit_used = NULL;
}

/* From `first` on, so that addresses serve again late, and with neighbours that
 * they did not have before. */
static bool find_units(const struct device *device, uint32_t count,
                       uint32_t first, uint32_t *out)
{
    uint32_t run = 0;
    for (uint32_t i = first; i < device->unit_count; i++) {
        run = device->is_unit_used[i] ? 0 : run + 1;
        if (run < count)
            continue;
        *out = i + 1 - count;
        return true;
    }
    return false;
}

static void mark(struct device *device, uint32_t first, uint32_t count,
                 bool is_used)
{
    for (uint32_t i = 0; i < count; i++)
        device->is_unit_used[first + i] = is_used;
}

static moiety_status reserve_units(void *context, size_t size_bytes,
                                   moiety_devptr *out)
{
    struct device *device = context;
    uint32_t count = (uint32_t)(size_bytes / FITS_UNIT_BYTES);
    uint32_t first = 0;
    pthread_mutex_lock(&device->lock);
    kit_require(find_units(device, count, device->next_unit, &first) ||
                    find_units(device, count, 0, &first),
                "the search for addresses");
    mark(device, first, count, true);
    device->next_unit = first + count;
    *out = FIRST_ADDRESS + first * FITS_UNIT_BYTES;
    history_add_segment(device->history, *out, size_bytes, kit_now_ns());
    pthread_mutex_unlock(&device->lock);
    return MOIETY_OK;
}

static moiety_status release_units(void *context, moiety_devptr address,
                                   size_t size_bytes)
{
    struct device *device = context;
    uint32_t first = (uint32_t)((address - FIRST_ADDRESS) / FITS_UNIT_BYTES);
    pthread_mutex_lock(&device->lock);
    history_remove_segment(device->history, address, kit_now_ns());
    mark(device, first, (uint32_t)(size_bytes / FITS_UNIT_BYTES), false);
    pthread_mutex_unlock(&device->lock);
    return MOIETY_OK;
}

moiety_source device_source(struct device *device)
{
    return (moiety_source){
        .struct_size = sizeof(moiety_source),
        .name = "addresses",
        .context = device,
        .reserve = reserve_units,
        .release = release_units,
    };
}

/* Called by the one thread at a time that grows, moves or trims. */
static void note_removed(void *context, const moiety_segment_info *segment)
{
    struct device *device = context;
    history_remove_segment(device->history, segment->address, kit_now_ns());
    device->leaving = segment->address;
    device->leaving_bytes = segment->size_bytes;
    device->segment_count--;
}

/* A handle that moves comes right after it went. A new one of the same length that
 * comes after a trim is taken for such a one, in favour of the pool. */
static void note_added(void *context, const moiety_segment_info *segment)
{
    struct device *device = context;
    if (device->leaving_bytes == segment->size_bytes)
        history_move_segment(device->history, device->leaving, segment->address,
                             mover, kit_now_ns());
    else
        history_add_segment(device->history, segment->address,
                            segment->size_bytes, kit_now_ns());
    device->leaving_bytes = 0;
    device->segment_count++;
}

void device_watch(struct device *device, moiety_pool *pool)
{
    const moiety_segment_watcher watcher = {.struct_size = sizeof(watcher),
                                            .user = device,
                                            .added = note_added,
                                            .releasing = note_removed};
    moiety_watch watch;
    kit_require(moiety_segment_watch(pool, &watcher, &watch) == MOIETY_OK,
                "moiety_segment_watch");
}

void device_allocates_for(uint32_t stream)
{
    mover = stream;
}

static void nothing(void *unused)
{
    (void)unused;
}

void device_queue(struct device *device, uint32_t stream)
{
    pthread_mutex_lock(&device->stream_locks[stream]);
    if (!device->is_busy[stream]) {
        history_begin_busy(device->history, stream, kit_now_ns());
        kit_require(hold(device->streams[stream]) == 0, "holding a stream");
        device->is_busy[stream] = true;
    }
    MUST(cu.cuLaunchHostFunc(device->streams[stream], nothing, NULL));
    pthread_mutex_unlock(&device->stream_locks[stream]);
}

void device_finish(struct device *device, uint32_t stream)
{
    pthread_mutex_lock(&device->stream_locks[stream]);
    if (device->is_busy[stream]) {
        kit_require(release(device->streams[stream]) == 0,
                    "releasing a stream");
        MUST(cu.cuStreamSynchronize(device->streams[stream]));
        device->is_busy[stream] = false;
        history_end_busy(device->history, stream, kit_now_ns());
    }
    pthread_mutex_unlock(&device->stream_locks[stream]);
}

void device_finish_all(struct device *device)
{
    for (uint32_t i = 0; i < DEVICE_STREAMS; i++)
        device_finish(device, i);
}
