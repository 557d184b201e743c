/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The rings' life, and reading them. A reader walks all rings from their newest
 * entries backwards and takes the latest of their heads, until the
 * caller's room is full: so it needs no memory, and what writers overwrite
 * meanwhile is what it would have come to last.
 */
#include "pool/ring/ring.h"

#include <stdlib.h>

#include "pool/base/barrier.h"

/* Rings of threads that have ended are used again when there are more. */
#define ENDED_RINGS 8U
#define KIND_BITS 8U
#define STATUS_MASK UINT64_C(0xffffff)

struct moietyi_history *moietyi_history_create(uint64_t entries)
{
    struct moietyi_history *history = calloc(1, sizeof(*history));
    if (!history)
        return NULL;
    history->entry_count = 1;
    while (history->entry_count < entries)
        history->entry_count *= 2;
    history->is_counter = moietyi_ticks_are_there();
    history->begin = moietyi_moment_now(history->is_counter);
    history->ended_end = &history->ended;
    pthread_mutex_init(&history->readers_lock, NULL);
    pthread_mutex_init(&history->record_lock, NULL);
    return history;
}

struct moietyi_history_ring *
moietyi_history_rings(const struct moietyi_history *history)
{
    /* HL.acquire. */
    return atomic_load_explicit(&history->rings, memory_order_acquire);
}

void moietyi_history_destroy(struct moietyi_history *history)
{
    if (!history)
        return;
    struct moietyi_history_ring *ring = moietyi_history_rings(history);
    while (ring) {
        struct moietyi_history_ring *next = ring->next;
        free(ring);
        ring = next;
    }
    pthread_mutex_destroy(&history->readers_lock);
    pthread_mutex_destroy(&history->record_lock);
    free(history);
}

struct moietyi_history_ring *
moietyi_history_reuse(struct moietyi_history *history)
{
    struct moietyi_history_ring *ring = history->ended;
    if (history->ended_count < ENDED_RINGS)
        return NULL;
    history->ended = ring->next_ended;
    if (!history->ended)
        history->ended_end = &history->ended;
    history->ended_count--;
    return ring;
}

static void history_list(struct moietyi_history *history,
                         struct moietyi_history_ring *ring)
{
    pthread_mutex_lock(&history->record_lock);
    /* relaxed: HL publishes it. */
    moietyi_store_relaxed(&ring->taken,
                          history->recorder ? 0 : MOIETYI_HISTORY_TAKEN);
    /* relaxed: compared and stored. */
    struct moietyi_history_ring *seen =
        atomic_load_explicit(&history->rings, memory_order_relaxed);
    do {
        ring->next = seen;
        /* HL.release: the ring is empty, and has its size. */
    } while (!atomic_compare_exchange_weak_explicit(&history->rings, &seen,
                                                    ring, memory_order_release,
                                                    memory_order_relaxed));
    pthread_mutex_unlock(&history->record_lock);
}

struct moietyi_history_ring *
moietyi_history_begin(struct moietyi_history *history,
                      struct moietyi_history_ring *ring, uint32_t thread_id)
{
    if (!ring) {
        ring = calloc(1, sizeof(*ring) +
                             history->entry_count * sizeof(ring->entries[0]));
        if (!ring)
            return NULL;
        ring->mask = history->entry_count - 1;
        ring->is_counter = history->is_counter;
        ring->is_fenced = !moietyi_barrier_is_there();
        ring->history = history;
        history_list(history, ring);
    }
    ring->thread_id = thread_id;
    return ring;
}

void moietyi_history_end(struct moietyi_history *history,
                         struct moietyi_history_ring *ring)
{
    ring->next_ended = NULL;
    *history->ended_end = ring;
    history->ended_end = &ring->next_ended;
    history->ended_count++;
}

/* HE.acquire of the entry's five words: with a later entry's word comes its 0. */
bool moietyi_history_copy(const struct moietyi_history_ring *ring,
                          uint64_t number, moiety_history_entry *out)
{
    const struct moietyi_history_entry *entry =
        &ring->entries[number & ring->mask];
    /* HE.acquire: the entry of this number, or later words. */
    if (moietyi_load_acquire(&entry->sequence) != number + 1)
        return false;
    out->time_ns = moietyi_load_acquire(&entry->ticks);
    out->address = moietyi_load_acquire(&entry->address);
    out->size_bytes = moietyi_load_acquire(&entry->size_bytes);
    uint64_t stream = moietyi_load_acquire(&entry->stream);
    uint64_t what = moietyi_load_acquire(&entry->what);
    MOIETYI_STEP("history.read");
    /* relaxed: the loads above keep it behind them. */
    if (moietyi_load_relaxed(&entry->sequence) != number + 1)
        return false;
    out->stream = (moiety_stream)(uintptr_t)stream;
    out->kind = (uint32_t)(what & ((1U << KIND_BITS) - 1));
    out->status = (uint32_t)(what >> KIND_BITS & STATUS_MASK);
    out->thread_id = (uint32_t)(what >> 32);
    out->sequence = number;
    return true;
}

/* Goes on to the ring's next entry towards the older ones. */
static void move_head(struct moietyi_history_ring *ring)
{
    ring->has_head =
        ring->left && moietyi_history_copy(ring, ring->left - 1, &ring->head);
    if (ring->has_head) {
        ring->left--;
        return;
    }
    /* Older entries were overwritten before. */
    ring->lost = ring->left;
    ring->left = 0;
}

static void begin_reading(const struct moietyi_history *history,
                          moiety_history_summary *out)
{
    out->ring_count = 0;
    out->noted_count = 0;
    for (struct moietyi_history_ring *ring = moietyi_history_rings(history);
         ring; ring = ring->next) {
        /* HE.acquire: the entries up to there, or later ones. */
        ring->left = moietyi_load_acquire(&ring->written);
        ring->lost =
            ring->left > ring->mask + 1 ? ring->left - (ring->mask + 1) : 0;
        out->ring_count++;
        out->noted_count += ring->left;
        move_head(ring);
    }
}

/* The ring with the latest entry that is left, or NULL. One that was listed
 * after the beginning has none. */
static struct moietyi_history_ring *
latest(const struct moietyi_history *history)
{
    struct moietyi_history_ring *found = NULL;
    for (struct moietyi_history_ring *ring = moietyi_history_rings(history);
         ring; ring = ring->next)
        if (ring->has_head &&
            (!found || ring->head.time_ns > found->head.time_ns))
            found = ring;
    return found;
}

static uint64_t sum_of_lost(const struct moietyi_history *history)
{
    uint64_t lost = 0;
    for (struct moietyi_history_ring *ring = moietyi_history_rings(history);
         ring; ring = ring->next)
        lost += ring->lost;
    return lost;
}

/* They were found newest first, and with ticks for times. */
static void turn_round(const struct moietyi_history *history,
                       moiety_history_entry *entries, size_t count)
{
    struct moietyi_moment now = moietyi_moment_now(history->is_counter);
    for (size_t i = 0; i < count / 2; i++) {
        moiety_history_entry entry = entries[i];
        entries[i] = entries[count - 1 - i];
        entries[count - 1 - i] = entry;
    }
    for (size_t i = 0; i < count; i++)
        entries[i].time_ns =
            moietyi_time_of(&history->begin, &now, entries[i].time_ns);
}

void moietyi_history_read(struct moietyi_history *history,
                          moiety_history_entry *out_entries, size_t capacity,
                          moiety_history_summary *out)
{
    struct moietyi_history_ring *ring;
    size_t count = 0;
    pthread_mutex_lock(&history->readers_lock);
    begin_reading(history, out);
    while (count < capacity && (ring = latest(history))) {
        out_entries[count++] = ring->head;
        move_head(ring);
    }
    out->lost_count = sum_of_lost(history);
    pthread_mutex_unlock(&history->readers_lock);
    turn_round(history, out_entries, count);
    out->count = count;
}
