/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The space knows what is free and where blocks begin; the caches know which
 * blocks are freed. Both are copied as they are, and joined by address when the
 * pool goes on.
 */
#include "pool/observe/heap/heap_copy.h"

#include <stdlib.h>
#include <string.h>

#include "pool/base/clock.h"
#include "pool/graph/privates.h"
#include "pool/graph/scopes.h"

#define SPARE_ENTRIES ((size_t)256)

/* The array, if it has room for so many entries, or a new one that has room for
 * some more; the old one is gone then. NULL: no memory; nothing changed. */
static void *with_room(void *array, size_t *capacity, size_t count,
                       size_t entry_bytes)
{
    if (*capacity && count <= *capacity)
        return array;
    size_t wanted = count + count / 4 + SPARE_ENTRIES;
    void *fresh = malloc(wanted * entry_bytes);
    if (!fresh)
        return NULL;
    /* Its pages are there when the pool is stopped; 0 would leave that to
     * calloc(). */
    memset(fresh, 1, wanted * entry_bytes);
    free(array);
    *capacity = wanted;
    return fresh;
}

static bool reserve_tiles(struct moietyi_heap_copy *copy)
{
    moiety_heap_segment *segments =
        with_room(copy->segments, &copy->segment_capacity, copy->segment_count,
                  sizeof(*segments));
    if (!segments)
        return false;
    copy->segments = segments;
    moiety_heap_interval *intervals =
        with_room(copy->intervals, &copy->interval_capacity,
                  copy->interval_count, sizeof(*intervals));
    if (!intervals)
        return false;
    copy->intervals = intervals;
    return true;
}

static bool reserve_list(struct moietyi_exported_list *list)
{
    struct moietyi_exported *blocks =
        with_room(list->blocks, &list->capacity, list->count, sizeof(*blocks));
    if (blocks)
        list->blocks = blocks;
    return blocks != NULL;
}

bool moietyi_heap_reserve(struct moietyi_heap_copy *copy)
{
    struct moietyi_enumerated_list *found = &copy->found;
    struct moietyi_enumerated *blocks = with_room(
        found->blocks, &found->capacity, found->count, sizeof(*blocks));
    if (!blocks)
        return false;
    found->blocks = blocks;
    return reserve_list(&copy->exported) && reserve_list(&copy->scoped) &&
           reserve_tiles(copy);
}

void moietyi_heap_release(struct moietyi_heap_copy *copy)
{
    free(copy->segments);
    free(copy->intervals);
    free(copy->found.blocks);
    free(copy->exported.blocks);
    free(copy->scoped.blocks);
}

/* Where a segment is being gone through, in offset space. */
struct walk {
    const struct moietyi_pool_body *body;
    const struct moietyi_segment_info *info;
    uint64_t at;
    uint64_t end;
};

/* What is free in a private arena, if its page is one's: up to a block, or the
 * page's end. */
static uint64_t private_from(const struct walk *walk)
{
    uint64_t page_end =
        (walk->at / MOIETYI_PAGE_GRAINS + 1) * MOIETYI_PAGE_GRAINS;
    uint64_t at = walk->at;
    if (!moietyi_privates_owner(walk->body->pool->body->privates,
                                moietyi_grain_at(at)))
        return 0;
    do
        at++;
    while (at < page_end &&
           !moietyi_space_class(walk->body->space, moietyi_grain_at(at)));
    return at - walk->at;
}

/* From here on neither free nor a block. */
static uint64_t lost_from(const struct walk *walk)
{
    struct moietyi_enumerated found;
    uint64_t at = walk->at + 1;
    while (at < walk->end &&
           !moietyi_space_class(walk->body->space, moietyi_grain_at(at)) &&
           !moietyi_space_free_from(walk->body->space, moietyi_grain_at(at),
                                    moietyi_grain_at(at + 1)) &&
           !moietyi_find_waiting(walk->body->engine, moietyi_grain_at(at),
                                 moietyi_grain_at(at + 1), &found))
        at++;
    return at - walk->at;
}

/* Memory that was freed on a stream and waits in its heap. */
static uint64_t waiting_from(const struct walk *walk, moiety_heap_interval *out)
{
    struct moietyi_enumerated found;
    uint64_t grains =
        moietyi_find_waiting(walk->body->engine, moietyi_grain_at(walk->at),
                             moietyi_grain_at(walk->end), &found);
    if (grains) {
        out->kind = found.kind;
        out->stream = found.stream;
        out->age_ns = found.since_ns ? moietyi_now_ns() - found.since_ns : 0;
    }
    return grains;
}

/* The block or free memory that begins here, and its length. */
static uint64_t heap_copy_look(const struct walk *walk,
                               moiety_heap_interval *out)
{
    moietyi_grain start = moietyi_grain_at(walk->at);
    uint64_t grains = moietyi_space_free_from(walk->body->space, start,
                                              moietyi_grain_at(walk->end));
    out->kind = MOIETY_HEAP_FREE;
    if (grains)
        return grains;
    uint8_t byte = moietyi_space_class(walk->body->space, start);
    out->kind = byte ? MOIETY_HEAP_USED : MOIETY_HEAP_LOST;
    if (!byte && (grains = private_from(walk))) {
        out->kind = MOIETY_HEAP_KEPT;
        return grains;
    }
    if (!byte) {
        grains = waiting_from(walk, out);
        return grains ? grains : lost_from(walk);
    }
    out->flags = byte & MOIETYI_BYTE_SPECIAL ? MOIETY_HEAP_SPECIAL : 0;
    grains = moietyi_block_grains(walk->body->engine, start, byte);
    return grains < walk->end - walk->at ? grains : walk->end - walk->at;
}

static void add_interval(struct moietyi_heap_copy *copy, struct walk *walk)
{
    moiety_heap_interval interval = {.segment = (uint32_t)copy->segment_count};
    uint64_t first = (uint64_t)walk->info->first.index * MOIETYI_PAGE_GRAINS;
    uint64_t grains = heap_copy_look(walk, &interval);
    interval.address =
        walk->info->address + (walk->at - first) * MOIETYI_GRAIN_BYTES;
    interval.size_bytes = grains * MOIETYI_GRAIN_BYTES;
    if (copy->interval_count < copy->interval_capacity)
        copy->intervals[copy->interval_count] = interval;
    copy->interval_count++;
    walk->at += grains;
}

static void heap_copy_add_segment(struct moietyi_heap_copy *copy,
                                  const struct moietyi_pool_body *body,
                                  const struct moietyi_segment_info *info)
{
    struct walk walk = {.body = body, .info = info};
    moiety_heap_segment segment = {
        .id = info->id,
        .address = info->address,
        .size_bytes = (uint64_t)info->page_count * MOIETYI_PAGE_BYTES,
        .memory = info->memory,
        .memory_bytes = info->memory_bytes,
        .first_interval = copy->interval_count,
    };
    walk.at = (uint64_t)info->first.index * MOIETYI_PAGE_GRAINS;
    walk.end = walk.at + (uint64_t)info->page_count * MOIETYI_PAGE_GRAINS;
    while (walk.at < walk.end)
        add_interval(copy, &walk);
    segment.interval_count = copy->interval_count - segment.first_interval;
    if (copy->segment_count < copy->segment_capacity)
        copy->segments[copy->segment_count] = segment;
    copy->segment_count++;
}

bool moietyi_heap_fill(struct moietyi_pool_body *body,
                       struct moietyi_heap_copy *copy)
{
    struct moietyi_segment_info info;
    moietyi_page from = {0};
    copy->segment_count = 0;
    copy->interval_count = 0;
    copy->found.count = 0;
    copy->exported.count = 0;
    copy->scoped.count = 0;
    /* Growth may add segments meanwhile; each is seen whole or not at all. */
    while (moietyi_segments_walk(body->segments, from, &info)) {
        heap_copy_add_segment(copy, body, &info);
        from.index = info.first.index + info.page_count;
    }
    moietyi_enumerate_free(body->engine, &copy->found);
    if (body->exports)
        moietyi_exports_list(body->exports, &copy->exported);
    moietyi_scopes_list(body->scopes, &copy->scoped);
    return copy->segment_count <= copy->segment_capacity &&
           copy->interval_count <= copy->interval_capacity &&
           copy->found.count <= copy->found.capacity &&
           copy->exported.count <= copy->exported.capacity &&
           copy->scoped.count <= copy->scoped.capacity;
}

static int by_address(const void *left, const void *right)
{
    const moiety_heap_interval *first = left;
    const moiety_heap_interval *second = right;
    return (first->address > second->address) -
           (first->address < second->address);
}

/* Offsets go up with the index, addresses only within a segment. The used block
 * that begins there, or NULL: freed twice, perhaps. */
static moiety_heap_interval *used_at(const struct moietyi_heap_copy *copy,
                                     moiety_devptr address)
{
    for (size_t i = 0; i < copy->segment_count; i++) {
        const moiety_heap_segment *segment = &copy->segments[i];
        const moiety_heap_interval key = {.address = address};
        if (address - segment->address >= segment->size_bytes)
            continue;
        moiety_heap_interval *found =
            bsearch(&key, copy->intervals + segment->first_interval,
                    segment->interval_count, sizeof(key), by_address);
        return found && found->kind == MOIETY_HEAP_USED ? found : NULL;
    }
    return NULL;
}

static void join_found(const struct moietyi_heap_copy *copy,
                       const struct moietyi_enumerated *found, uint64_t now_ns)
{
    moiety_heap_interval *interval = used_at(copy, found->address);
    if (!interval)
        return;
    interval->kind = found->kind;
    interval->stream = found->stream;
    interval->thread_id = found->thread_id;
    if (found->kind == MOIETY_HEAP_RETIRING)
        interval->age_ns = now_ns - found->since_ns;
}

static void join_kept(const struct moietyi_heap_copy *copy,
                      const struct moietyi_exported_list *list, uint32_t flags)
{
    for (size_t i = 0; i < list->count; i++) {
        moiety_heap_interval *interval = used_at(copy, list->blocks[i].address);
        if (!interval)
            continue;
        interval->flags |= flags;
        if (list->blocks[i].is_freed)
            interval->kind = MOIETY_HEAP_KEPT;
    }
}

void moietyi_heap_join(struct moietyi_heap_copy *copy, uint64_t now_ns)
{
    for (size_t i = 0; i < copy->found.count; i++)
        join_found(copy, &copy->found.blocks[i], now_ns);
    join_kept(copy, &copy->exported, MOIETY_HEAP_EXPORTED);
    join_kept(copy, &copy->scoped, 0);
}
