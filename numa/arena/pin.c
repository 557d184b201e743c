/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The caller's own memory. Two lists: the ranges that callers pinned, as they
 * named them; and the stretches that the driver has registered, to the byte,
 * which never overlap. A stretch is in use as long as it meets a range. Nothing
 * is counted twice, so nothing can be counted wrong.
 *
 * A copy that begins in a stretch must end in it (docs/numa.md): so no stretch has
 * bytes that nobody named, and a range that meets no other is one stretch.
 *
 * The lock guards both lists and is never held while the driver works or memory is
 * allocated: a stretch that is being registered, asked after or unregistered is
 * busy, and a thread that needs its bytes waits.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "moiety/host.h"
#include "numa/pinned/map.h"
#include "numa/pinned/mappings.h"
#include "pool/base/cancel.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/base/lock.h"
#include "pool/driver/context.h"

/* From `first` on, up to `end`. */
struct span {
    uintptr_t first;
    uintptr_t end;
};

struct range {
    struct range *next;
    struct span bytes; /* as the caller named them */
    uint64_t count;    /* pins less unpins */
    bool is_covered;   /* a pin of it has succeeded */
};

struct stretch {
    struct stretch *next;
    struct span bytes;
    struct moietyi_context own_context;
    uint64_t idle_since; /* a stamp: the later, the larger */
    uint64_t seen_at;    /* the stamp when its context was found alive last */
    bool is_busy;        /* some thread calls the driver for it */
    bool is_kept_back;   /* from children of a fork; who made it busy */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
/* All that follows is under the lock. */
static struct range *ranges;
static struct stretch *stretches;
static uint64_t keep_bytes;
static uint64_t stamp;
/* Edge: none; relaxed: the homes' marks, and nobody reads it. */
static _Atomic uint64_t mark;

static bool meet(const struct span *a, const struct span *b)
{
    return a->first < b->end && b->first < a->end;
}

/* By any range but that one, which may be NULL. */
static bool is_used_locked(const struct stretch *stretch,
                           const struct range *but)
{
    for (const struct range *range = ranges; range; range = range->next)
        if (range != but && meet(&range->bytes, &stretch->bytes))
            return true;
    return false;
}

/* It was kept pinned, and would cut the range in two. */
static bool is_in_the_way_locked(const struct stretch *stretch,
                                 const struct range *range)
{
    bool holds_it = stretch->bytes.first <= range->bytes.first &&
                    range->bytes.end <= stretch->bytes.end;
    return !range->is_covered && !holds_it && !is_used_locked(stretch, range);
}

static struct range **find_range_locked(const struct span *bytes)
{
    struct range **at = &ranges;
    while (*at && ((*at)->bytes.first != bytes->first ||
                   (*at)->bytes.end != bytes->end))
        at = &(*at)->next;
    return at;
}

static void remove_locked(struct stretch *stretch)
{
    struct stretch **at = &stretches;
    while (*at != stretch)
        at = &(*at)->next;
    *at = stretch->next;
    free(stretch);
}

/* The driver is done with it. */
static void settle_locked(struct stretch *stretch, bool is_gone)
{
    stretch->is_busy = false;
    if (is_gone)
        remove_locked(stretch);
    (void)pthread_cond_broadcast(&changed);
}

/* The lowest stretch of those that meet `bytes`. */
static struct stretch *lowest_locked(const struct span *bytes)
{
    struct stretch *lowest = NULL;
    for (struct stretch *at = stretches; at; at = at->next)
        if (meet(&at->bytes, bytes) &&
            (!lowest || at->bytes.first < lowest->bytes.first))
            lowest = at;
    return lowest;
}

static moiety_status
in_section(struct moietyi_context *own_context,
           moiety_status (*call)(const struct moietyi_driver *driver,
                                 const struct span *bytes),
           const struct span *bytes)
{
    struct moietyi_section section;
    moiety_status status = moietyi_context_enter(own_context, &section);
    if (status != MOIETY_OK)
        return status;
    status = call(own_context->driver, bytes);
    /* Done, whether or not the context is restored. */
    (void)moietyi_section_leave(&section);
    return status;
}

/* The pages that are wholly in it; the others have memory of somebody else. */
static struct span pin_whole_pages(const struct span *bytes)
{
    uintptr_t page_bytes = moietyi_page_bytes(MOIETYI_PAGES_SMALL);
    struct span out = {(bytes->first + page_bytes - 1) & ~(page_bytes - 1),
                       bytes->end & ~(page_bytes - 1)};
    if (out.end < out.first)
        out.end = out.first;
    return out;
}

/* A fork copies only private memory. */
static void keep_from_children(struct stretch *stretch)
{
    const struct span pages = pin_whole_pages(&stretch->bytes);
    stretch->is_kept_back = pages.first < pages.end &&
                            moietyi_is_private_memory(pages.first, pages.end);
    if (stretch->is_kept_back)
        moietyi_keep_from_children((void *)pages.first,
                                   pages.end - pages.first);
}

/* The memory is its owner's again. */
static void let_children_have(struct stretch *stretch)
{
    const struct span pages = pin_whole_pages(&stretch->bytes);
    if (stretch->is_kept_back)
        moietyi_let_children_have((void *)pages.first, pages.end - pages.first);
    stretch->is_kept_back = false;
}

static moiety_status call_register(const struct moietyi_driver *driver,
                                   const struct span *bytes)
{
    return MOIETYI_CALL(
        driver, cuMemHostRegister,
        ((void *)bytes->first, bytes->end - bytes->first,
         CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
}

static moiety_status call_unregister(const struct moietyi_driver *driver,
                                     const struct span *bytes)
{
    return MOIETYI_CALL(driver, cuMemHostUnregister, ((void *)bytes->first));
}

/* One that is not lost. */
static void copy_own_context(struct moietyi_context *to,
                             const struct moietyi_context *own_context)
{
    to->driver = own_context->driver;
    to->handle = own_context->handle;
    to->id = own_context->id;
    to->mark = own_context->mark;
    to->mark_bit = own_context->mark_bit;
    atomic_init(&to->why, MOIETY_OK);
}

/* Lock held, but not meanwhile. NULL: no memory. */
static struct stretch *pin_allocate_locked(void)
{
    moietyi_unlock(&lock);
    struct stretch *fresh = calloc(1, sizeof(*fresh));
    moietyi_lock(&lock);
    return fresh;
}

/* Lock held, but not while the driver works. Registers bytes that no stretch
 * has. */
static moiety_status add_locked(const struct moietyi_context *own_context,
                                struct span bytes, struct stretch *fresh)
{
    copy_own_context(&fresh->own_context, own_context);
    fresh->bytes = bytes;
    fresh->seen_at = ++stamp;
    fresh->is_busy = true;
    fresh->next = stretches;
    stretches = fresh;
    moietyi_unlock(&lock);
    moiety_status status =
        in_section(&fresh->own_context, call_register, &bytes);
    /* Only now: the range may be no memory of the caller's. */
    if (status == MOIETY_OK)
        keep_from_children(fresh);
    moietyi_lock(&lock);
    settle_locked(fresh, status != MOIETY_OK);
    return status;
}

/* Likewise. A stretch whose context is lost ends; of a stretch that the driver
 * does not report, nothing is known. */
static moiety_status look_locked(struct stretch *stretch, uint64_t since)
{
    struct moietyi_section section;
    stretch->is_busy = true;
    moietyi_unlock(&lock);
    moiety_status status =
        moietyi_context_watch(&stretch->own_context, &section);
    if (status == MOIETY_OK)
        (void)moietyi_section_leave(&section);
    bool is_gone = moietyi_context_is_lost(&stretch->own_context);
    if (is_gone)
        let_children_have(stretch);
    moietyi_lock(&lock);
    if (status == MOIETY_OK && stretch->seen_at < since)
        stretch->seen_at = since;
    settle_locked(stretch, is_gone);
    return is_gone ? MOIETY_OK : status;
}

static moiety_status unregister(struct stretch *stretch)
{
    moiety_status status =
        in_section(&stretch->own_context, call_unregister, &stretch->bytes);
    /* Gone with its context, or unregistered by another library. */
    return status == MOIETY_E_CONTEXT_DESTROYED || status == MOIETY_E_FOREIGN
               ? MOIETY_OK
               : status;
}

/* Likewise. */
static moiety_status drop_stretch_locked(struct stretch *stretch)
{
    stretch->is_busy = true;
    moietyi_unlock(&lock);
    moiety_status status = unregister(stretch);
    if (status == MOIETY_OK)
        let_children_have(stretch);
    moietyi_lock(&lock);
    settle_locked(stretch, status == MOIETY_OK);
    return status;
}

/* Likewise. Passes the range from below; begins again after the lock was
 * released. */
static moiety_status cover_locked(const struct moietyi_context *own_context,
                                  struct range *range)
{
    uint64_t since = ++stamp;
    moiety_status status = MOIETY_OK;
    struct span rest = range->bytes;
    struct stretch *fresh = NULL;
    while (status == MOIETY_OK && rest.first < rest.end) {
        struct stretch *next = lowest_locked(&rest);
        if (next && next->bytes.first <= rest.first && !next->is_busy &&
            next->seen_at >= since) {
            rest.first = next->bytes.end;
            continue;
        }
        if (next && next->is_busy) {
            moietyi_lock_wait(&lock, &changed);
        } else if (next && next->seen_at < since) {
            status = is_in_the_way_locked(next, range)
                         ? drop_stretch_locked(next)
                         : look_locked(next, since);
        } else if (!fresh) {
            fresh = pin_allocate_locked();
            if (!fresh)
                status =
                    moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                                 "no memory for the record of pinned memory");
        } else {
            struct span gap = {rest.first, next ? next->bytes.first : rest.end};
            status = add_locked(own_context, gap, fresh);
            fresh = NULL;
        }
        rest = range->bytes;
    }
    free(fresh);
    range->is_covered |= status == MOIETY_OK;
    return status;
}

/* The stretch that was idle longest; `out_bytes` gets the bytes of all idle
 * ones. */
static struct stretch *oldest_idle_locked(uint64_t *out_bytes)
{
    struct stretch *oldest = NULL;
    *out_bytes = 0;
    for (struct stretch *at = stretches; at; at = at->next) {
        if (at->is_busy || is_used_locked(at, NULL))
            continue;
        *out_bytes += at->bytes.end - at->bytes.first;
        if (!oldest || at->idle_since < oldest->idle_since)
            oldest = at;
    }
    return oldest;
}

/* Lock held, but not while the driver works. Unpins the oldest unused stretches
 * until no more is kept than allowed. */
static moiety_status sweep_locked(void)
{
    uint64_t idle_bytes;
    moiety_status status = MOIETY_OK;
    struct stretch *oldest;
    while (status == MOIETY_OK &&
           (oldest = oldest_idle_locked(&idle_bytes)) != NULL &&
           idle_bytes > keep_bytes)
        status = drop_stretch_locked(oldest);
    return status;
}

static void stamp_locked(const struct span *bytes)
{
    stamp++;
    for (struct stretch *at = stretches; at; at = at->next)
        if (meet(&at->bytes, bytes))
            at->idle_since = stamp;
}

/* One pin less; false when there is none. */
static bool drop_locked(const struct span *bytes)
{
    struct range **at = find_range_locked(bytes);
    struct range *range = *at;
    if (!range)
        return false;
    if (--range->count == 0) {
        *at = range->next;
        free(range);
        stamp_locked(bytes);
    }
    return true;
}

/* `fresh` is used, or freed. */
static struct range *hold_locked(const struct span *bytes, struct range *fresh)
{
    struct range **at = find_range_locked(bytes);
    if (*at) {
        free(fresh);
    } else {
        fresh->bytes = *bytes;
        *at = fresh;
    }
    (*at)->count++;
    return *at;
}

static moiety_status pin_check(const char *function, const void *address,
                               size_t size_bytes, struct span *out)
{
    uintptr_t first = (uintptr_t)address;
    if (!address || !size_bytes)
        return moietyi_fail(MOIETY_E_INVALID, "%s: %s", function,
                            address ? "size_bytes is 0" : "address is NULL");
    if (first > UINTPTR_MAX - size_bytes) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "%s: %zu bytes at %p go past the end of the "
                            "address space",
                            function, size_bytes, address);
    }
    *out = (struct span){first, first + size_bytes};
    return moietyi_is_forked() ? moietyi_refuse_child() : MOIETY_OK;
}

static moiety_status find_own_context(struct moietyi_context *out)
{
    const struct moietyi_driver *driver;
    CUcontext current = NULL;
    moiety_status status = moietyi_driver_open(&driver);
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(driver, cuCtxGetCurrent, (&current));
    if (status != MOIETY_OK)
        return status;
    if (!current)
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_host_pin: no context is current");
    return moietyi_context_init(out, driver, current, &mark, 1);
}

/* Takes the lock, in a thread that cannot be cancelled until pin_leave(). */
static int pin_enter(void)
{
    int cancel_state = moietyi_cancel_hold();
    moietyi_lock(&lock);
    return cancel_state;
}

static void pin_leave(int cancel_state)
{
    moietyi_unlock(&lock);
    moietyi_cancel_restore(cancel_state);
}

moiety_status moiety_host_pin(void *address, size_t size_bytes)
{
    struct span bytes = {0, 0};
    struct moietyi_context own_context = {0};
    moiety_status status =
        pin_check("moiety_host_pin", address, size_bytes, &bytes);
    if (status == MOIETY_OK)
        status = find_own_context(&own_context);
    if (status != MOIETY_OK)
        return status;
    struct range *fresh = calloc(1, sizeof(*fresh));
    if (!fresh)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory for the record of a pinned range");
    int cancel_state = pin_enter();
    /* First, so that no thread unpins a pinned part meanwhile. */
    status = cover_locked(&own_context, hold_locked(&bytes, fresh));
    if (status != MOIETY_OK) {
        struct moietyi_failure kept;
        moietyi_failure_keep(&kept);
        (void)drop_locked(&bytes);
        (void)sweep_locked();
        moietyi_failure_restore(&kept);
    }
    pin_leave(cancel_state);
    return status;
}

moiety_status moiety_host_unpin(void *address, size_t size_bytes)
{
    struct span bytes = {0, 0};
    moiety_status status =
        pin_check("moiety_host_unpin", address, size_bytes, &bytes);
    if (status != MOIETY_OK)
        return status;
    int cancel_state = pin_enter();
    if (drop_locked(&bytes))
        status = sweep_locked();
    else {
        status = moietyi_fail(MOIETY_E_FOREIGN,
                              "moiety_host_unpin: %zu bytes at %p are not a "
                              "range that was pinned",
                              size_bytes, address);
    }
    pin_leave(cancel_state);
    return status;
}

moiety_status moiety_host_pin_keep(uint64_t most_bytes)
{
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    int cancel_state = pin_enter();
    keep_bytes = most_bytes;
    moiety_status status = sweep_locked();
    pin_leave(cancel_state);
    return status;
}
