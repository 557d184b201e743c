/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/stream/stream_state.h"

#include <stdlib.h>
#include <string.h>

#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/base/lock.h"
#include "pool/base/step.h"
#include "pool/stream/event.h"

static struct moietyi_stream_state **
stream_state_bucket_of(struct moietyi_streams *streams, CUstream stream)
{
    uint64_t mixed = (uintptr_t)stream >> 3;
    mixed *= UINT64_C(0x9E3779B97F4A7C15);
    return &streams->buckets[(mixed >> 32) % MOIETYI_STREAM_STATE_BUCKETS];
}

bool moietyi_stream_state_try_take(struct moietyi_stream_state *stream_state)
{
    return moietyi_role_try_take(&stream_state->epoch.is_taken);
}

void moietyi_stream_state_release(struct moietyi_stream_state *stream_state)
{
    moietyi_role_release(&stream_state->epoch.is_taken);
}

/* The stream that the caller means, without synonyms. */
static CUstream normal(moiety_stream stream)
{
    return stream ? stream : MOIETY_STREAM_LEGACY;
}

static bool stream_state_has_handle(CUstream stream)
{
    return stream != MOIETY_STREAM_LEGACY && stream != MOIETY_STREAM_PER_THREAD;
}

/* Stream states' lock held. */
static struct moietyi_stream_state *
stream_state_find(struct moietyi_streams *streams, CUstream stream,
                  const void *owner)
{
    struct moietyi_stream_state *stream_state =
        *stream_state_bucket_of(streams, stream);
    while (stream_state &&
           (stream_state->stream != stream || stream_state->owner != owner))
        stream_state = stream_state->next_in_bucket;
    return stream_state;
}

/* A stream state with a later number is not used again: its notes are used
 * up. */
#define LAST_NOTE (UINT32_MAX - MOIETYI_STREAM_STATES_MAX)

static bool is_unused(const struct moietyi_stream_state *stream_state)
{
    return moietyi_stream_state_is_closed(stream_state) &&
           stream_state->note <= LAST_NOTE &&
           /* SU.acquire: what its users did. */
           atomic_load_explicit(&stream_state->cache_count,
                                memory_order_acquire) == 0 &&
           !moietyi_stream_state_grains(stream_state);
}

/* Stream states' lock held. */
static void count_user(struct moietyi_stream_state *stream_state)
{
    /* relaxed: the lock orders it with a thread that would use the stream state
     * again. */
    atomic_fetch_add_explicit(&stream_state->cache_count, 1,
                              memory_order_relaxed);
}

/* Stream states' lock held. */
static void append_closed(struct moietyi_streams *streams,
                          struct moietyi_stream_state *stream_state)
{
    stream_state->next_in_bucket = NULL;
    if (streams->closed_last)
        streams->closed_last->next_in_bucket = stream_state;
    else
        streams->closed_first = stream_state;
    streams->closed_last = stream_state;
    /* relaxed: advice. */
    atomic_fetch_add_explicit(&streams->closed_count, 1, memory_order_relaxed);
}

/* The next one to look at; there is one. Stream states' lock held. */
static struct moietyi_stream_state *pop_closed(struct moietyi_streams *streams)
{
    struct moietyi_stream_state *stream_state = streams->closed_first;
    streams->closed_first = stream_state->next_in_bucket;
    if (!streams->closed_first)
        streams->closed_last = NULL;
    atomic_fetch_sub_explicit(&streams->closed_count, 1, memory_order_relaxed);
    return stream_state;
}

static unsigned closed_count(const struct moietyi_streams *streams)
{
    /* relaxed: advice, or the stream states' lock is held. */
    return atomic_load_explicit(&streams->closed_count, memory_order_relaxed);
}

static bool is_table_full(const struct moietyi_streams *streams)
{
    /* relaxed: changed under the lock that is held. */
    return atomic_load_explicit(&streams->stream_state_count,
                                memory_order_relaxed) ==
           MOIETYI_STREAM_STATES_MAX;
}

/* A closed stream state without users, and its epoch's role, so that no thread
 * asks for the event that is to be destroyed; stream states' lock held. It
 * looks at a few, or at all if no new one can be made. */
static struct moietyi_stream_state *find_unused(struct moietyi_streams *streams)
{
    unsigned looks = closed_count(streams);
    if (looks > MOIETYI_CLOSED_LOOKS && !is_table_full(streams))
        looks = MOIETYI_CLOSED_LOOKS;
    for (; looks; looks--) {
        struct moietyi_stream_state *stream_state = pop_closed(streams);
        if (is_unused(stream_state) &&
            moietyi_stream_state_try_take(stream_state)) {
            if (is_unused(stream_state))
                return stream_state;
            moietyi_stream_state_release(stream_state);
        }
        append_closed(streams, stream_state);
    }
    return NULL;
}

/* Whose memory a stream state is for. */
struct identity {
    enum moietyi_stream_state_kind kind;
    CUstream stream;
    CUcontext context;
    const void *owner;
};

/* A thread that polls reads these fields with the epoch's role. So the caller
 * has the role, or no other thread knows the stream state yet. */
static void stream_state_identify(struct moietyi_stream_state *stream_state,
                                  const struct identity *who)
{
    stream_state->kind = who->kind;
    stream_state->stream = who->stream;
    stream_state->context = who->context;
    stream_state->owner = who->owner;
}

/* In no table yet. NULL: no memory. */
static struct moietyi_stream_state *
stream_state_create(struct moietyi_heap *heap)
{
    struct moietyi_stream_state *stream_state = aligned_alloc(
        alignof(struct moietyi_stream_state), sizeof(*stream_state));
    if (!stream_state)
        return NULL;
    memset(stream_state, 0, sizeof(*stream_state));
    stream_state->heap = heap;
    return stream_state;
}

/* Stream states' lock held; the table has room. */
static void stream_state_append(struct moietyi_streams *streams,
                                struct moietyi_stream_state *stream_state,
                                const struct identity *who)
{
    /* relaxed: changed under the lock that is held. */
    unsigned count = atomic_load_explicit(&streams->stream_state_count,
                                          memory_order_relaxed);
    stream_state->index = count;
    stream_state->note = count + 1;
    stream_state_identify(stream_state, who);
    /* relaxed: SN publishes it. */
    atomic_store_explicit(&streams->stream_states[count], stream_state,
                          memory_order_relaxed);
    /* SN.release: pollers that see the count see the stream state. */
    atomic_store_explicit(&streams->stream_state_count, count + 1,
                          memory_order_release);
}

struct moietyi_stream_state *
moietyi_stream_state_make(struct moietyi_streams *streams,
                          enum moietyi_stream_state_kind kind,
                          struct moietyi_heap *heap)
{
    const struct identity who = {.kind = kind};
    struct moietyi_stream_state *stream_state = stream_state_create(heap);
    if (!stream_state)
        return NULL;
    moietyi_lock(&streams->stream_states_lock);
    stream_state_append(streams, stream_state, &who);
    moietyi_unlock(&streams->stream_states_lock);
    return stream_state;
}

/* A stream state with a heap, for a new stream; without the lock, so that no
 * thread allocates under it. NULL: no memory. */
static struct moietyi_stream_state *
create_fresh(const struct moietyi_streams *streams)
{
    struct moietyi_heap *heap = moietyi_heap_create(streams->space);
    struct moietyi_stream_state *fresh =
        heap ? stream_state_create(heap) : NULL;
    if (!fresh)
        moietyi_heap_destroy(heap);
    return fresh;
}

static void destroy_fresh(struct moietyi_stream_state *fresh)
{
    if (fresh)
        moietyi_heap_destroy(fresh->heap);
    free(fresh);
}

/* Stream states' lock held. A retired one, or `*fresh`, which becomes NULL.
 * NULL: there is no retired one, and no fresh one or no room for it. `out_left`
 * gets the final event of the stream that had the stream state before, or
 * NULL. */
static struct moietyi_stream_state *
open_stream_state(struct moietyi_streams *streams, const struct identity *who,
                  struct moietyi_stream_state **fresh, CUevent *out_left)
{
    struct moietyi_stream_state *stream_state = find_unused(streams);
    bool is_used_again = stream_state != NULL;
    if (is_used_again) {
        stream_state->note += MOIETYI_STREAM_STATES_MAX;
        stream_state_identify(stream_state, who);
    } else if (*fresh && !is_table_full(streams)) {
        stream_state = *fresh;
        *fresh = NULL;
        stream_state_append(streams, stream_state, who);
    } else {
        return NULL;
    }
    /* relaxed, here and below: who uses the stream state now finds it under the
     * lock that is held. */
    *out_left = atomic_exchange_explicit(&stream_state->final_event, NULL,
                                         memory_order_relaxed);
    /* relaxed: as above. */
    atomic_store_explicit(&stream_state->is_closed, false,
                          memory_order_relaxed);
    if (is_used_again)
        moietyi_stream_state_release(stream_state);
    struct moietyi_stream_state **bucket =
        stream_state_bucket_of(streams, who->stream);
    stream_state->next_in_bucket = *bucket;
    *bucket = stream_state;
    return stream_state;
}

/* Found, or opened. */
static struct moietyi_stream_state *
find_or_open(struct moietyi_streams *streams, const struct identity *who,
             struct moietyi_stream_state **fresh, CUevent *out_left)
{
    struct moietyi_stream_state *stream_state =
        stream_state_find(streams, who->stream, who->owner);
    return stream_state ? stream_state
                        : open_stream_state(streams, who, fresh, out_left);
}

static moiety_status
stream_state_context_of(const struct moietyi_streams *streams, CUstream stream,
                        CUcontext *out)
{
    *out = streams->contexts[0];
    if (!stream_state_has_handle(stream))
        return MOIETY_OK;
    moiety_status status =
        MOIETYI_CALL(streams->driver, cuStreamGetCtx, (stream, out));
    return status == MOIETY_OK
               ? status
               : moietyi_fail(status, "stream %p: %s", (void *)stream,
                              moietyi_failure_message());
}

moiety_status moietyi_stream_state_use(struct moietyi_streams *streams,
                                       const void *thread, moiety_stream stream,
                                       struct moietyi_stream_state **out)
{
    CUstream named = normal(stream);
    const void *owner = named == MOIETY_STREAM_PER_THREAD ? thread : NULL;
    struct moietyi_stream_state *fresh = NULL;
    CUcontext context;
    CUevent left = NULL;
    moiety_status status = stream_state_context_of(streams, named, &context);
    if (status != MOIETY_OK)
        return status;
    const struct identity who = {owner ? MOIETYI_STREAM_STATE_PER_THREAD
                                       : MOIETYI_STREAM_STATE_STREAM,
                                 named, context, owner};
    moietyi_lock(&streams->stream_states_lock);
    MOIETYI_STEP("locked.stream_state");
    struct moietyi_stream_state *stream_state =
        find_or_open(streams, &who, &fresh, &left);
    if (!stream_state && !is_table_full(streams)) {
        moietyi_unlock(&streams->stream_states_lock);
        fresh = create_fresh(streams);
        moietyi_lock(&streams->stream_states_lock);
        stream_state = find_or_open(streams, &who, &fresh, &left);
    }
    if (!stream_state)
        stream_state = streams->any;
    count_user(stream_state);
    moietyi_unlock(&streams->stream_states_lock);
    /* Another thread was faster. */
    destroy_fresh(fresh);
    /* The final event of the stream that had the stream state before, if any:
     * destroyed only now that nobody refers to the stream state. */
    moietyi_event_destroy(streams, left);
    *out = stream_state;
    return MOIETY_OK;
}

bool moietyi_stream_state_use_found(struct moietyi_streams *streams,
                                    struct moietyi_stream_state *stream_state)
{
    moietyi_lock(&streams->stream_states_lock);
    bool is_open = !moietyi_stream_state_is_closed(stream_state);
    if (is_open)
        count_user(stream_state);
    moietyi_unlock(&streams->stream_states_lock);
    return is_open;
}

struct moietyi_stream_state *
moietyi_stream_state_use_noted(struct moietyi_streams *streams, uint32_t note)
{
    moietyi_lock(&streams->stream_states_lock);
    /* relaxed: written under the lock that is held. */
    struct moietyi_stream_state *stream_state = atomic_load_explicit(
        &streams->stream_states[(note - 1) % MOIETYI_STREAM_STATES_MAX],
        memory_order_relaxed);
    if (stream_state && stream_state->note == note &&
        !moietyi_stream_state_is_closed(stream_state))
        count_user(stream_state);
    else
        stream_state = NULL;
    moietyi_unlock(&streams->stream_states_lock);
    return stream_state;
}

void moietyi_stream_state_unuse(struct moietyi_stream_state *stream_state)
{
    /* SU.release: what was done with it, to the thread that uses the stream
     * state again. */
    atomic_fetch_sub_explicit(&stream_state->cache_count, 1,
                              memory_order_release);
}

/* Stream states' lock held: no longer found by its stream. */
static void unlink_stream_state(struct moietyi_streams *streams,
                                struct moietyi_stream_state *stream_state)
{
    struct moietyi_stream_state **at =
        stream_state_bucket_of(streams, stream_state->stream);
    while (*at != stream_state)
        at = &(*at)->next_in_bucket;
    *at = stream_state->next_in_bucket;
    append_closed(streams, stream_state);
    /* PI.seq_cst: against moietyi_stream_state_pin(). */
    atomic_store_explicit(&stream_state->is_closed, true, memory_order_seq_cst);
}

struct moietyi_stream_state *
moietyi_stream_state_find(struct moietyi_streams *streams, CUstream stream)
{
    moietyi_lock(&streams->stream_states_lock);
    struct moietyi_stream_state *stream_state =
        stream_state_find(streams, stream, NULL);
    if (stream_state)
        count_user(stream_state);
    moietyi_unlock(&streams->stream_states_lock);
    return stream_state;
}

bool moietyi_stream_state_close(struct moietyi_streams *streams,
                                struct moietyi_stream_state *stream_state)
{
    unsigned rounds = 0;
    moietyi_lock(&streams->stream_states_lock);
    bool is_open = !moietyi_stream_state_is_closed(stream_state);
    if (is_open)
        unlink_stream_state(streams, stream_state);
    moietyi_unlock(&streams->stream_states_lock);
    /* PI.seq_cst: who pinned it before this records and goes on; who comes later
     * sees it closed. */
    while (is_open &&
           atomic_load_explicit(&stream_state->pins, memory_order_seq_cst) != 0)
        moietyi_let_others(&rounds);
    return is_open;
}

bool moietyi_stream_state_try_close_of(struct moietyi_streams *streams,
                                       const void *thread)
{
    if (!moietyi_try_lock(&streams->stream_states_lock))
        return false;
    struct moietyi_stream_state *stream_state =
        stream_state_find(streams, MOIETY_STREAM_PER_THREAD, thread);
    if (stream_state)
        unlink_stream_state(streams, stream_state);
    moietyi_unlock(&streams->stream_states_lock);
    return true;
}

bool moietyi_stream_state_pin(struct moietyi_stream_state *stream_state)
{
    /* PI.seq_cst: counted first, then looked, so that either the one who closes
     * sees the count or we see it closed. */
    atomic_fetch_add_explicit(&stream_state->pins, 1, memory_order_seq_cst);
    /* PI.seq_cst: the look. */
    if (!atomic_load_explicit(&stream_state->is_closed, memory_order_seq_cst))
        return true;
    moietyi_stream_state_unpin(stream_state);
    return false;
}

void moietyi_stream_state_unpin(struct moietyi_stream_state *stream_state)
{
    /* PI.seq_cst: what we recorded, to the thread that closes; release is
     * enough. */
    atomic_fetch_sub_explicit(&stream_state->pins, 1, memory_order_seq_cst);
}

unsigned moietyi_stream_states_closed_next(
    struct moietyi_streams *streams,
    struct moietyi_stream_state *out[MOIETYI_CLOSED_LOOKS])
{
    unsigned count = 0;
    if (!closed_count(streams))
        return 0;
    moietyi_lock(&streams->stream_states_lock);
    for (struct moietyi_stream_state *stream_state = streams->closed_first;
         stream_state && count < MOIETYI_CLOSED_LOOKS;
         stream_state = stream_state->next_in_bucket)
        out[count++] = stream_state;
    moietyi_unlock(&streams->stream_states_lock);
    return count;
}

uint64_t moietyi_stream_states_open_count(struct moietyi_streams *streams)
{
    uint64_t count = 0;
    moietyi_lock(&streams->stream_states_lock);
    for (uint32_t i = 0; i < moietyi_stream_state_count(streams); i++) {
        const struct moietyi_stream_state *stream_state =
            moietyi_stream_state_at(streams, i);
        count += stream_state->kind >= MOIETYI_STREAM_STATE_STREAM &&
                 !moietyi_stream_state_is_closed(stream_state);
    }
    moietyi_unlock(&streams->stream_states_lock);
    return count;
}

/* No call is under way. */
static void destroy_stream_state(struct moietyi_streams *streams,
                                 struct moietyi_stream_state *stream_state)
{
    /* relaxed: nobody else is there. */
    moietyi_event_destroy(
        streams,
        atomic_load_explicit(&stream_state->final_event, memory_order_relaxed));
    moietyi_event_destroy(streams, stream_state->epoch.event);
    if (stream_state->kind != MOIETYI_STREAM_STATE_ANY)
        moietyi_heap_destroy(stream_state->heap);
    free(stream_state);
}

void moietyi_stream_states_destroy(struct moietyi_streams *streams)
{
    for (uint32_t i = 0; i < moietyi_stream_state_count(streams); i++)
        destroy_stream_state(streams, moietyi_stream_state_at(streams, i));
}
