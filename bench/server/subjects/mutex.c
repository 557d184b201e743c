/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The pool that anybody would write first: a buddy over one segment, lists of
 * freed blocks for each stream and size, and one mutex around everything. A
 * block serves the stream that it was freed on again at once; other streams
 * only after all have been waited for, which happens when the buddy is empty.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/server/subjects/subject.h"
#include "tests/oracle/mutex_buddy.h"

#define GRAIN_BYTES UINT64_C(512)
#define PAGE_BYTES (MUTEX_BUDDY_PAGE_GRAINS * GRAIN_BYTES)
/* Of each stream, and once more for what is in nobody's list. */
#define STREAM_PAGES 32U

/* Eight sizes per doubling, as Moiety has them: 1 to 8 grains, then up to 16
 * times 2^9 units of one grain and more. */
#define CLASS_COUNT 80U

/* Blocks of one size, freed on one stream; all under the lock. */
struct list {
    uint64_t *grains; /* where each starts; `capacity` of them */
    uint32_t count;
    uint32_t capacity;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct server_device *on;
static struct mutex_buddy *buddy;
static CUdeviceptr segment;
static uint32_t page_count;
static struct list lists[SERVER_THREADS_MAX][CLASS_COUNT];
static uint64_t live_grains;   /* under the lock */
static uint64_t reclaim_count; /* under the lock */

static unsigned class_of(size_t size_bytes)
{
    uint64_t grains = (size_bytes + GRAIN_BYTES - 1) / GRAIN_BYTES;
    if (grains <= 8)
        return (unsigned)grains - 1;
    unsigned order = 60U - (unsigned)__builtin_clzll(grains - 1);
    uint64_t units = (grains - 1) >> order; /* 8 to 15, rounded down */
    return 8U * order + (unsigned)units;
}

static uint32_t grains_of(unsigned class_index)
{
    if (class_index < 8)
        return class_index + 1;
    unsigned order = (class_index - 8) / 8;
    return (class_index % 8 + 9) << order;
}

static moiety_status start(const struct server_device *device)
{
    on = device;
    page_count = STREAM_PAGES * (device->stream_count + 1);
    buddy = mutex_buddy_create(page_count);
    if (!buddy || !mutex_buddy_add(buddy, 0, page_count))
        return MOIETY_E_NO_HOST_MEMORY;
    return MOIETYI_CALL(device->driver, cuMemAlloc,
                        (&segment, page_count * PAGE_BYTES));
}

static void give_back(unsigned class_index, struct list *list)
{
    while (list->count > 0)
        (void)mutex_buddy_give(buddy, list->grains[--list->count],
                               grains_of(class_index));
}

/* What has been freed is free for everybody when all streams have come to their
 * ends. */
static moiety_status reclaim_locked(void)
{
    reclaim_count++;
    for (unsigned s = 0; s < on->stream_count; s++) {
        moiety_status status =
            MOIETYI_CALL(on->driver, cuStreamSynchronize, (on->streams[s]));
        if (status != MOIETY_OK)
            return status;
        for (unsigned c = 0; c < CLASS_COUNT; c++)
            give_back(c, &lists[s][c]);
    }
    return MOIETY_OK;
}

static moiety_status take_locked(unsigned class_index, unsigned stream,
                                 uint64_t *out)
{
    struct list *list = &lists[stream][class_index];
    uint32_t grains = grains_of(class_index);
    if (list->count > 0) {
        *out = list->grains[--list->count];
        return MOIETY_OK;
    }
    if (mutex_buddy_take(buddy, grains, 1, 1, out) == 1)
        return MOIETY_OK;
    moiety_status status = reclaim_locked();
    if (status != MOIETY_OK)
        return status;
    return mutex_buddy_take(buddy, grains, 1, 1, out) == 1
               ? MOIETY_OK
               : MOIETY_E_NO_DEVICE_MEMORY;
}

static moiety_status alloc(size_t size_bytes, unsigned stream, CUdeviceptr *out)
{
    unsigned class_index = class_of(size_bytes);
    uint64_t grain = 0;
    if (class_index >= CLASS_COUNT)
        return MOIETY_E_TOO_LARGE;
    (void)pthread_mutex_lock(&lock);
    moiety_status status = take_locked(class_index, stream, &grain);
    if (status == MOIETY_OK) {
        live_grains += grains_of(class_index);
        *out = segment + grain * GRAIN_BYTES;
    }
    (void)pthread_mutex_unlock(&lock);
    return status;
}

static bool make_room(struct list *list)
{
    if (list->count < list->capacity)
        return true;
    uint32_t capacity = list->capacity ? 2 * list->capacity : 16;
    uint64_t *grains = realloc(list->grains, capacity * sizeof(*grains));
    if (!grains)
        return false;
    list->grains = grains;
    list->capacity = capacity;
    return true;
}

static moiety_status free_block(CUdeviceptr address, size_t size_bytes,
                                unsigned stream)
{
    unsigned class_index = class_of(size_bytes);
    struct list *list = &lists[stream][class_index];
    moiety_status status = MOIETY_E_NO_HOST_MEMORY;
    (void)pthread_mutex_lock(&lock);
    if (make_room(list)) {
        list->grains[list->count++] = (address - segment) / GRAIN_BYTES;
        live_grains -= grains_of(class_index);
        status = MOIETY_OK;
    }
    (void)pthread_mutex_unlock(&lock);
    return status;
}

static uint64_t peak_bytes(void)
{
    return page_count * PAGE_BYTES;
}

static void describe(char *out, size_t size_bytes)
{
    (void)snprintf(out, size_bytes,
                   "one segment of %llu MiB; waited for all streams %llu times",
                   (unsigned long long)(peak_bytes() >> 20),
                   (unsigned long long)reclaim_count);
}

static uint64_t stop(void)
{
    for (unsigned s = 0; s < SERVER_THREADS_MAX; s++)
        for (unsigned c = 0; c < CLASS_COUNT; c++)
            free(lists[s][c].grains);
    if (segment)
        (void)on->driver->cuMemFree(segment);
    mutex_buddy_destroy(buddy);
    return live_grains * GRAIN_BYTES;
}

const struct server_subject server_subject_mutex = {
    .name = "mutex",
    .description = "a buddy, free lists per stream, and one mutex around both",
    .is_default = true,
    .start = start,
    .alloc = alloc,
    .free = free_block,
    .peak_bytes = peak_bytes,
    .describe = describe,
    .stop = stop,
};
