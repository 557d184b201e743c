/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where a checked pool's memory comes from: the caches and the space, like any
 * pool's, or the source for each block alone. What goes back has nothing
 * pending, so it serves any stream.
 */
#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/cache/gate.h"
#include "pool/checked/state.h"
#include "pool/oom/escalate.h"

static moiety_status take_of_pool(struct moietyi_call *call,
                                  struct moietyi_block_record *record,
                                  size_t alignment_bytes)
{
    struct moietyi_request request = {
        moietyi_size_of_bytes(record->base_bytes), record->base_bytes,
        alignment_bytes > MOIETYI_GRAIN_BYTES
            ? (uint32_t)(alignment_bytes / MOIETYI_GRAIN_BYTES)
            : 1,
        false};
    return moietyi_alloc_escalating(call, &request, false, &record->base);
}

static moiety_status give_to_pool(struct moietyi_call *call, moiety_devptr base)
{
    struct moietyi_call done = *call;
    struct moietyi_block block;
    moiety_status status = moietyi_block_at(call->engine, base, &block);
    done.push = call->thread_state->done;
    done.is_capturing = false;
    return status == MOIETY_OK ? moietyi_put(&done, &block, base) : status;
}

/* Asks a source of the program's for what such a source may be asked for. */
static uint64_t rounded(const struct moietyi_checked *checked, uint64_t bytes)
{
    uint64_t unit = checked->source.granularity_bytes;
    if (checked->is_own_device)
        return bytes;
    if (unit < MOIETYI_PAGE_BYTES)
        unit = MOIETYI_PAGE_BYTES;
    return (bytes + unit - 1) / unit * unit;
}

/* The limit is counted before the source is asked. */
static bool checked_backing_reserve_limit(struct moietyi_checked *checked,
                                          uint64_t bytes)
{
    pthread_mutex_lock(&checked->lock);
    uint64_t limit_bytes = moietyi_limit_of(checked->body);
    bool is_there = checked->reserved_bytes <= limit_bytes &&
                    limit_bytes - checked->reserved_bytes >= bytes;
    if (is_there)
        checked->reserved_bytes += bytes;
    if (checked->peak_bytes < checked->reserved_bytes)
        checked->peak_bytes = checked->reserved_bytes;
    checked->reserve_count += is_there;
    pthread_mutex_unlock(&checked->lock);
    return is_there;
}

static void release_limit(struct moietyi_checked *checked, uint64_t bytes,
                          bool was_there)
{
    pthread_mutex_lock(&checked->lock);
    checked->reserved_bytes -= bytes;
    if (was_there)
        checked->release_count++;
    else
        checked->reserve_count--;
    pthread_mutex_unlock(&checked->lock);
}

/* A source of the program's is asked for one thing at a time: waits while
 * another thread asks, without the lock. */
static void begin_turn(struct moietyi_checked *checked)
{
    if (checked->is_own_device)
        return;
    pthread_mutex_lock(&checked->lock);
    while (checked->is_asked)
        pthread_cond_wait(&checked->answered, &checked->lock);
    checked->is_asked = true;
    pthread_mutex_unlock(&checked->lock);
}

static void end_turn(struct moietyi_checked *checked)
{
    if (checked->is_own_device)
        return;
    pthread_mutex_lock(&checked->lock);
    checked->is_asked = false;
    pthread_cond_signal(&checked->answered);
    pthread_mutex_unlock(&checked->lock);
}

static moiety_status
checked_backing_reserve(struct moietyi_call *call,
                        struct moietyi_block_record *record)
{
    struct moietyi_checked *checked = call->pool->body->checked;
    uint64_t bytes = record->base_bytes;
    if (!checked_backing_reserve_limit(checked, bytes)) {
        return moietyi_fail(
            checked->source.flags & MOIETY_SOURCE_PINNED
                ? MOIETY_E_NO_PINNED_MEMORY
                : MOIETY_E_NO_DEVICE_MEMORY,
            "%llu bytes: above the pool's limit of %llu",
            (unsigned long long)bytes,
            (unsigned long long)moietyi_limit_of(checked->body));
    }
    moietyi_slow_path_end(call->thread_state);
    begin_turn(checked);
    moiety_status status =
        checked->source.reserve(checked->source.context, bytes, &record->base);
    end_turn(checked);
    moietyi_slow_path_begin(call->thread_state);
    if (status != MOIETY_OK)
        release_limit(checked, bytes, false);
    return status;
}

static moiety_status
checked_backing_release(struct moietyi_checked *checked,
                        const struct moietyi_block_record *record)
{
    moiety_status status = checked->source.release(
        checked->source.context, record->base, record->base_bytes);
    /* The memory is gone without it. */
    if (status == MOIETY_E_DEINITIALIZED ||
        status == MOIETY_E_CONTEXT_DESTROYED || status == MOIETY_E_FORKED)
        status = MOIETY_OK;
    if (status == MOIETY_OK)
        release_limit(checked, record->base_bytes, true);
    return status;
}

static moiety_status release_in_call(struct moietyi_checked *checked,
                                     struct moietyi_call *call,
                                     const struct moietyi_block_record *record)
{
    moietyi_slow_path_end(call->thread_state);
    moiety_status status = checked_backing_release(checked, record);
    moietyi_slow_path_begin(call->thread_state);
    return status;
}

/* What is refused is tried once more: there is no later. */
static moiety_status
release_at_the_end(struct moietyi_checked *checked,
                   const struct moietyi_block_record *record)
{
    moiety_status status = checked_backing_release(checked, record);
    return status == MOIETY_OK ? status
                               : checked_backing_release(checked, record);
}

static uint64_t misfit(moiety_devptr base, size_t alignment_bytes)
{
    return base & (alignment_bytes - 1);
}

/* A reservation that does not fit goes back like a block that was freed: the
 * source may refuse to take it just now. */
static void set_aside(struct moietyi_checked *checked,
                      struct moietyi_block_record *unissued,
                      const struct moietyi_block_record *record)
{
    unissued->base = record->base;
    unissued->base_bytes = record->base_bytes;
    unissued->is_unissued = true;
    unissued->is_looked_at = true;
    moietyi_quarantine_add_unissued(checked, unissued);
}

/* Once as it is; if that is not aligned, with room to be. */
static moiety_status take_of_source(struct moietyi_call *call,
                                    struct moietyi_block_record *record,
                                    size_t alignment_bytes)
{
    struct moietyi_checked *checked = call->pool->body->checked;
    struct moietyi_block_record *unissued = calloc(1, sizeof(*unissued));
    uint64_t bytes = record->base_bytes;
    if (!unissued)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory to note a block in");
    record->base_bytes = rounded(checked, bytes);
    moiety_status status = checked_backing_reserve(call, record);
    if (status == MOIETY_OK && misfit(record->base, alignment_bytes)) {
        set_aside(checked, unissued, record);
        record->base_bytes = rounded(checked, bytes + alignment_bytes);
        return checked_backing_reserve(call, record);
    }
    free(unissued);
    return status;
}

moiety_status moietyi_backing_take(struct moietyi_call *call,
                                   struct moietyi_block_record *record,
                                   size_t alignment_bytes)
{
    uint64_t wanted_bytes = record->base_bytes;
    if (!call->pool->body->checked->is_passing)
        return take_of_pool(call, record, alignment_bytes);
    moiety_status status = take_of_source(call, record, alignment_bytes);
    if (status != MOIETY_OK)
        record->base_bytes = wanted_bytes;
    return status;
}

moiety_status moietyi_backing_give(struct moietyi_checked *checked,
                                   struct moietyi_call *call,
                                   const struct moietyi_block_record *record)
{
    if (checked->is_passing)
        return call ? release_in_call(checked, call, record)
                    : release_at_the_end(checked, record);
    /* At the end all goes with the segments. */
    return call ? give_to_pool(call, record->base) : MOIETY_OK;
}
