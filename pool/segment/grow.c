/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Growth: how large the next segment is, and how it comes to the pool: by
 * PyTorch's steps, or a quarter of what is reserved where requests are small
 * beside that (docs/dev/adr/0019-growth.md). What is not to be had is
 * halved down to the need.
 */
#include "pool/base/failure.h"
#include "pool/base/log.h"
#include "pool/base/step.h"
#include "pool/segment/state.h"

static uint64_t grow_pages_of(uint64_t bytes)
{
    return bytes / MOIETYI_PAGE_BYTES + (bytes % MOIETYI_PAGE_BYTES != 0);
}

enum begun {
    BEGUN,       /* the caller is the grower now, and must call grow_finish() */
    UNNECESSARY, /* there is room */
    SOMEBODY_ELSE
};

/* What a growth is for. */
struct growth {
    uint64_t needed_bytes;
    uint32_t needed;      /* pages in a row */
    uint64_t total_bytes; /* 0, or what shall be reserved, used or not */
    bool may_wait;
};

static bool grow_is_reached(const struct moietyi_segments *segments,
                            const struct growth *growth)
{
    return growth->total_bytes
               ? moietyi_segments_reserved_bytes(segments) >=
                     growth->total_bytes
               : moietyi_space_longest_page_run(segments->space) >=
                     growth->needed;
}

/* Waits for the thread that grows, if it may. */
static enum begun grow_begin(struct moietyi_segments *segments,
                             const struct growth *growth)
{
    enum begun begun = SOMEBODY_ELSE;
    pthread_mutex_lock(&segments->lock);
    if (growth->may_wait)
        moietyi_await_grower(segments);
    if (!segments->is_growing) {
        segments->is_growing = !grow_is_reached(segments, growth);
        begun = segments->is_growing ? BEGUN : UNNECESSARY;
    }
    pthread_mutex_unlock(&segments->lock);
    return begun;
}

/* Lock held. After a failure nothing has changed. */
static moiety_status grow_publish(struct moietyi_segments *segments,
                                  struct moietyi_segment *fresh)
{
    struct moietyi_segment_info *info = &fresh->info;
    uint32_t longest = moietyi_longest_gap(segments);
    /* The source may have given more than the plan. */
    if (info->page_count > longest)
        info->page_count = longest;
    info->first = moietyi_best_gap(segments, info->page_count);
    moiety_status status = moietyi_segment_publish(segments, fresh, NULL);
    segments->grow_count += status == MOIETY_OK;
    return status;
}

/* Watchers are notified before any thread gets memory of it. */
static moiety_status grow_add(struct moietyi_segments *segments,
                              struct moietyi_segment *fresh)
{
    moietyi_segment_announce(segments, fresh);
    pthread_mutex_lock(&segments->lock);
    moiety_status status = grow_publish(segments, fresh);
    pthread_mutex_unlock(&segments->lock);
    if (status != MOIETY_OK)
        moietyi_segment_retract(segments, fresh);
    return status;
}

/* Adds `fresh`, if any and if `status` is MOIETY_OK so far; returns the result.
 * Other threads may grow from now on. */
static moiety_status grow_finish(struct moietyi_segments *segments,
                                 struct moietyi_segment *fresh,
                                 moiety_status status)
{
    if (status == MOIETY_OK && fresh)
        status = grow_add(segments, fresh);
    pthread_mutex_lock(&segments->lock);
    if (status != MOIETY_OK)
        segments->failed_grow_count++;
    moietyi_let_others_grow(segments);
    pthread_mutex_unlock(&segments->lock);
    return status;
}

/* The bytes to ask for, so that they contain `pages` aligned pages. */
static uint64_t bytes_to_ask(const struct moietyi_segments *segments,
                             uint32_t pages)
{
    uint64_t granularity = segments->granularity_bytes;
    uint64_t bytes = (uint64_t)pages * MOIETYI_PAGE_BYTES;
    if (segments->is_padding)
        bytes += MOIETYI_PAGE_BYTES;
    return (bytes + granularity - 1) & ~(granularity - 1);
}

/* The pages that a limit leaves room for. */
static uint64_t pages_within(const struct moietyi_segments *segments,
                             uint64_t limit_bytes)
{
    uint64_t room = moietyi_bytes_below(segments, limit_bytes);
    room &= ~(uint64_t)(segments->granularity_bytes - 1);
    uint64_t pages = room / MOIETYI_PAGE_BYTES;
    return segments->is_padding && pages ? pages - 1 : pages;
}

static uint64_t pages_within_limit(const struct moietyi_segments *segments)
{
    uint64_t pages = pages_within(segments, moietyi_segments_limit(segments));
    uint64_t watermark_bytes = segments->watermark_bytes;
    if (moietyi_segments_reserved_bytes(segments) >= watermark_bytes)
        return pages;
    uint64_t below = pages_within(segments, watermark_bytes);
    return below < pages ? below : pages;
}

/* Steps of PyTorch's allocator: small requests share 2 MiB, those below 10 MiB
 * share up to 20 MiB, and each larger one has a segment. */
#define SMALL_BYTES (UINT64_C(1) << 20)
#define SHARED_BYTES (UINT64_C(10) << 20)
#define SHARED_PAGES 10U
/* Of a segment that grows with the pool, a request has at most this part; of pinned
 * memory a larger one, as each registration stalls other threads. */
#define OWN_SEGMENT_PART 8U
#define OWN_PINNED_PART 2U

/* As much as is reserved, or twice the need if that is more, up to PyTorch's
 * step: a pool of a few MiB must not become three times as large for one
 * request of a MiB (docs/dev/adr/0019-growth.md). */
static uint64_t shared_pages(const struct moietyi_segments *segments,
                             const struct growth *growth)
{
    uint64_t pages =
        moietyi_segments_reserved_bytes(segments) / MOIETYI_PAGE_BYTES;
    if (pages < UINT64_C(2) * growth->needed)
        pages = UINT64_C(2) * growth->needed;
    if (pages > SHARED_PAGES)
        pages = SHARED_PAGES;
    return pages * MOIETYI_PAGE_BYTES > segments->largest_bytes ? growth->needed
                                                                : pages;
}

static bool grow_is_pinned(const struct moietyi_segments *segments)
{
    return (segments->source.flags & MOIETY_SOURCE_PINNED) != 0;
}

/* The steps, or a quarter of what is reserved where the request is at most an
 * eighth of that: the simulation's best rule for fixed segments, with an eighth
 * of the steps' calls of the source (docs/dev/adr/0019-growth.md). */
static uint64_t step_pages(const struct moietyi_segments *segments,
                           const struct growth *growth)
{
    uint64_t quarter = moietyi_segments_reserved_bytes(segments) / 4;
    if (quarter > segments->largest_bytes)
        quarter = segments->largest_bytes;
    uint64_t part =
        grow_is_pinned(segments) ? OWN_PINNED_PART : OWN_SEGMENT_PART;
    if (growth->needed_bytes <= quarter / part &&
        quarter / MOIETYI_PAGE_BYTES > growth->needed)
        return quarter / MOIETYI_PAGE_BYTES;
    return growth->needed_bytes > SMALL_BYTES &&
                   growth->needed_bytes < SHARED_BYTES
               ? shared_pages(segments, growth)
               : growth->needed;
}

/* Never below the first size that the program asked for. */
static uint64_t stepped_pages(const struct moietyi_segments *segments,
                              const struct growth *growth)
{
    uint64_t pages = step_pages(segments, growth);
    uint64_t first = segments->first_bytes / MOIETYI_PAGE_BYTES;
    return pages > first ? pages : first;
}

/* --- segments that blocks fill --- */

/* A block lies in one segment, so each segment ends with a rest that is shorter
 * than a block. If the program set a limit, the rests should be small: a
 * segment has the number of blocks of the requested length that leaves the
 * least, and the last segment has all that the limit leaves. A segment has at
 * most four such blocks, and an eighth of the limit, or as much as is reserved:
 * a program that needs little of a large limit reserves little. Small blocks
 * are not considered, because many fit any segment. */

/* A rest below this part of a segment does not count. */
#define LITTLE_PART 256U
/* The most that a segment has while little is reserved: a part of the limit,
 * and a number of such blocks. */
#define FEW_PART 8U
#define FEW_BLOCKS 4U
#define BLOCKS_MOST 256U

static uint64_t rest_of(uint64_t block_bytes, uint64_t pages)
{
    return pages * MOIETYI_PAGE_BYTES % block_bytes;
}

/* The most pages of a segment that requests share. */
static uint64_t most_shared_pages(const struct moietyi_segments *segments)
{
    return segments->largest_bytes / MOIETYI_PAGE_BYTES;
}

static uint64_t most_pages(const struct moietyi_segments *segments,
                           uint64_t block_bytes)
{
    uint64_t reserved = moietyi_segments_reserved_bytes(segments);
    uint64_t bytes = moietyi_segments_limit(segments) / FEW_PART;
    if (bytes > FEW_BLOCKS * block_bytes)
        bytes = FEW_BLOCKS * block_bytes;
    if (bytes < reserved)
        bytes = reserved;
    uint64_t pages = bytes / MOIETYI_PAGE_BYTES;
    uint64_t shared = most_shared_pages(segments);
    return pages < shared ? pages : shared;
}

/* At least `least` pages, and the number of which the smallest part is left. */
static uint64_t best_pages(uint64_t block_bytes, uint64_t least, uint64_t most)
{
    uint64_t best = least;
    uint64_t best_rest = rest_of(block_bytes, least);
    uint64_t first = least * MOIETYI_PAGE_BYTES / block_bytes + 1;
    for (uint64_t i = 0; i < BLOCKS_MOST; i++) {
        uint64_t pages = grow_pages_of((first + i) * block_bytes);
        uint64_t rest = rest_of(block_bytes, pages);
        if (pages > most)
            break;
        if (rest * best < best_rest * pages) {
            best = pages;
            best_rest = rest;
        }
    }
    return best;
}

/* If the limit is to be used up: in place of `pages`, a number of pages that
 * end where a block of that length ends. `left`: pages that the limit has room
 * for. */
static uint64_t fitted_pages(const struct moietyi_segments *segments,
                             uint64_t block_bytes, uint64_t pages,
                             uint64_t left)
{
    if (!segments->is_limited || block_bytes <= SMALL_BYTES)
        return pages;
    if (rest_of(block_bytes, pages) > pages * MOIETYI_PAGE_BYTES / LITTLE_PART)
        pages =
            best_pages(block_bytes, pages, most_pages(segments, block_bytes));
    return left < 2 * pages && left <= most_shared_pages(segments) ? left
                                                                   : pages;
}

/* --- the request to the source --- */

/* Pages that growth should have, cut to what limit and offset space leave, but
 * not below the need. */
static moiety_status plan(struct moietyi_segments *segments,
                          const struct growth *growth, uint32_t *out_pages)
{
    uint32_t needed = growth->needed;
    uint64_t pages = needed;
    uint64_t within_limit = pages_within_limit(segments);
    if (!growth->total_bytes)
        pages = fitted_pages(segments, growth->needed_bytes,
                             stepped_pages(segments, growth), within_limit);
    pthread_mutex_lock(&segments->lock);
    uint32_t longest = moietyi_longest_gap(segments);
    pthread_mutex_unlock(&segments->lock);
    if (longest < needed)
        return moietyi_fail(moietyi_source_exhausted(segments),
                            "the pool's offset space has no %u pages in a row",
                            needed);
    if (pages > longest)
        pages = longest;
    if (pages > within_limit)
        pages = within_limit;
    /* If the limit leaves less, the source call reports it. */
    *out_pages = pages < needed ? needed : (uint32_t)pages;
    return MOIETY_OK;
}

/* A segment with at least `needed` aligned pages. A source with unaligned
 * memory is asked for one page more, now and from now on. */
static moiety_status ask_aligned(struct moietyi_segments *segments,
                                 uint32_t needed, uint32_t pages,
                                 struct moietyi_segment **out)
{
    moiety_status status =
        moietyi_source_reserve(segments, bytes_to_ask(segments, pages), out);
    if (status != MOIETY_OK)
        return status;
    segments->is_padding |= (*out)->info.address != (*out)->info.memory;
    if ((*out)->info.page_count >= needed)
        return MOIETY_OK;
    status = moietyi_source_release(segments, *out);
    if (status != MOIETY_OK)
        return status;
    return moietyi_source_reserve(segments, bytes_to_ask(segments, pages), out);
}

static bool grow_is_exhausted(moiety_status status)
{
    return status == MOIETY_E_NO_DEVICE_MEMORY ||
           status == MOIETY_E_NO_PINNED_MEMORY ||
           status == MOIETY_E_NO_HOST_MEMORY || status == MOIETY_E_TOO_LARGE;
}

/* Whether less may be had. A driver that pins may refuse a length. */
static bool grow_may_shrink(const struct moietyi_segments *segments,
                            moiety_status status)
{
    return grow_is_exhausted(status) ||
           (grow_is_pinned(segments) && status == MOIETY_E_INVALID);
}

/* If pinned memory is short, only the need is tried: each try stalls others. */
static moiety_status ask_halving(struct moietyi_segments *segments,
                                 uint32_t needed, uint32_t pages,
                                 struct moietyi_segment **out)
{
    moiety_status status = ask_aligned(segments, needed, pages, out);
    while (grow_may_shrink(segments, status) && pages > needed) {
        bool is_short =
            grow_is_pinned(segments) && status == MOIETY_E_NO_PINNED_MEMORY;
        pages = !is_short && pages / 2 > needed ? pages / 2 : needed;
        status = ask_aligned(segments, needed, pages, out);
    }
    return status;
}

static moiety_status grow_obtain(struct moietyi_segments *segments,
                                 const struct growth *growth,
                                 struct moietyi_segment **out)
{
    uint32_t needed = growth->needed;
    uint32_t pages = needed;
    struct moietyi_segment *fresh;
    moiety_status status = plan(segments, growth, &pages);
    if (status == MOIETY_OK)
        status = ask_halving(segments, needed, pages, &fresh);
    if (status != MOIETY_OK)
        return status;
    status = moietyi_lookup_prepare(&segments->lookup, fresh->info.address,
                                    fresh->info.page_count);
    if (status != MOIETY_OK) {
        (void)moietyi_source_release(segments, fresh);
        return status;
    }
    *out = fresh;
    return MOIETY_OK;
}

static moiety_status check_size(const struct moietyi_segments *segments,
                                uint64_t bytes)
{
    uint64_t pages = grow_pages_of(bytes);
    return pages <= segments->page_capacity &&
                   pages <=
                       moietyi_segments_limit(segments) / MOIETYI_PAGE_BYTES
               ? MOIETY_OK
               : moietyi_fail(MOIETY_E_TOO_LARGE,
                              "%llu bytes are more than the pool may ever "
                              "have",
                              (unsigned long long)bytes);
}

/* Memory of the source, by the grower. */
static moiety_status grow_fixed(struct moietyi_segments *segments,
                                const struct growth *growth)
{
    struct moietyi_segment *fresh = NULL;
    moiety_status obtained = grow_obtain(segments, growth, &fresh);
    moiety_status status = grow_finish(segments, fresh, obtained);
    if (obtained == MOIETY_OK && status != MOIETY_OK)
        (void)moietyi_source_release(segments, fresh);
    return status;
}

/* --- mapped memory, and what replaces it --- */

/* Whether the driver refuses to map, and is not just out of memory.
 * MOIETY_E_NO_HOST_MEMORY means that it refuses addresses, if the pool has none
 * yet. */
static bool is_refused(const struct moietyi_segments *segments,
                       moiety_status status)
{
    switch (status) {
    case MOIETY_E_NO_HOST_MEMORY:
        return !segments->base;
    case MOIETY_OK:
    case MOIETY_E_TOO_LARGE:
    case MOIETY_E_NO_DEVICE_MEMORY:
    case MOIETY_E_NO_PINNED_MEMORY:
    case MOIETY_E_CONTEXT_DESTROYED:
    case MOIETY_E_DEINITIALIZED:
    case MOIETY_E_FORKED:
        return false;
    default:
        return true;
    }
}

static bool may_fall(const struct moietyi_segments *segments,
                     moiety_status status)
{
    return segments->fallback.name && !segments->peers &&
           is_refused(segments, status);
}

static void set_fallen(struct moietyi_segments *segments, bool has_fallen)
{
    /* relaxed: see state.h. */
    atomic_store_explicit(&segments->has_fallen, has_fallen,
                          memory_order_relaxed);
}

/* The fallback replaces the mapper if it gets memory. If it does not, the
 * driver refuses more than mapping. */
static moiety_status fall_back(struct moietyi_segments *segments,
                               const struct growth *growth,
                               moiety_status refused)
{
    struct moietyi_failure kept;
    moietyi_failure_keep(&kept);
    set_fallen(segments, true);
    moiety_status status = grow_fixed(segments, growth);
    if (status == MOIETY_OK) {
        moietyi_log_or_print(
            MOIETY_LOG_WARNING,
            "the driver refuses mapped memory, which a pool prefers: "
            "from now on the pool has %s's: %s",
            segments->fallback.name, kept.message);
        return status;
    }
    set_fallen(segments, false);
    moietyi_failure_restore(&kept);
    return refused;
}

/* By the grower. A refusal is tried once more, because some drivers are not
 * ready at times. */
static moiety_status grow_mapped(struct moietyi_segments *segments,
                                 const struct growth *growth,
                                 const struct moietyi_extension *extension)
{
    if (!moietyi_segments_are_mapped(segments))
        return grow_fixed(segments, growth);
    moiety_status status = moietyi_extend(segments, extension);
    if (may_fall(segments, status))
        status = moietyi_extend(segments, extension);
    return may_fall(segments, status) ? fall_back(segments, growth, status)
                                      : grow_finish(segments, NULL, status);
}

static moiety_status segment_grow(struct moietyi_segments *segments,
                                  const struct growth *growth,
                                  const struct moietyi_extension *extension)
{
    switch (grow_begin(segments, growth)) {
    case UNNECESSARY:
        return MOIETY_OK;
    case SOMEBODY_ELSE:
        return moietyi_fail(MOIETY_E_WOULD_BLOCK,
                            "another thread grows the pool");
    default:
        MOIETYI_STEP("locked.grow");
        return grow_mapped(segments, growth, extension);
    }
}

static moiety_status grow_for(struct moietyi_segments *segments,
                              const struct moietyi_extension *extension,
                              bool may_wait)
{
    const struct growth growth = {
        .needed_bytes = extension->needed_bytes,
        .needed = (uint32_t)grow_pages_of(extension->needed_bytes),
        .may_wait = may_wait};
    moiety_status status = check_size(segments, growth.needed_bytes);
    return status == MOIETY_OK ? segment_grow(segments, &growth, extension)
                               : status;
}

moiety_status moietyi_segments_grow(struct moietyi_segments *segments,
                                    uint64_t needed_bytes)
{
    const struct moietyi_extension alone = {.needed_bytes = needed_bytes};
    return grow_for(segments, &alone, true);
}

moiety_status moietyi_segments_try_grow(struct moietyi_segments *segments,
                                        uint64_t needed_bytes)
{
    const struct moietyi_extension alone = {.needed_bytes = needed_bytes};
    return grow_for(segments, &alone, false);
}

moiety_status moietyi_segments_extend(struct moietyi_segments *segments,
                                      const struct moietyi_extension *extension)
{
    return grow_for(segments, extension, false);
}

void moietyi_segments_await_growth(struct moietyi_segments *segments)
{
    pthread_mutex_lock(&segments->lock);
    moietyi_await_grower(segments);
    pthread_mutex_unlock(&segments->lock);
}

moiety_status moietyi_segments_grow_to(struct moietyi_segments *segments,
                                       uint64_t total_bytes)
{
    moiety_status status = check_size(segments, total_bytes);
    while (status == MOIETY_OK) {
        uint64_t reserved = moietyi_segments_reserved_bytes(segments);
        if (reserved >= total_bytes)
            break;
        uint64_t bytes = total_bytes - reserved;
        if (bytes > segments->largest_bytes)
            bytes = segments->largest_bytes;
        const struct moietyi_extension piece = {.needed_bytes = bytes};
        const struct growth growth = {.needed = (uint32_t)grow_pages_of(bytes),
                                      .total_bytes = total_bytes,
                                      .may_wait = true};
        status = segment_grow(segments, &growth, &piece);
    }
    return status;
}
