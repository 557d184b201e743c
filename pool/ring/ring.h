/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What threads did with a pool last: a ring for each thread state, which its
 * thread writes and anybody reads. A pool without a history has no rings, and
 * its thread states have none. Of a pool with one the attention word is never 0
 * in its flags, so that no hit is plain: see pool/core/recorded.h.
 *
 * Edge HE. An entry is six words. Its writer first sets the sequence to 0, then
 * writes the others, each with release, and then the sequence. A reader loads
 * the sequence, the others, each with acquire, and the sequence again. If any
 * of the words that it got is of a later entry, then the second look finds the
 * 0 that came before that word, or what came after the 0, and not the sequence
 * that it found first. Neither side waits for the other.
 *
 * A recorder (recorder.h) takes all entries, so a writer whose ring has only
 * entries that were not taken takes them itself before it goes on. And it has
 * to know which entries are still to come:
 *
 * Edge RP. Before an owner reads the clock for an entry it stores 1 to
 * `pending`, and 0 when the entry is written; if much lies in between, the time
 * that it read. The recorder reads the clock, passes a barrier in all threads
 * and looks. What it finds 0 writes later entries only with later times, and
 * what was written before is seen.
 */
#ifndef MOIETY_POOL_RING_RING_H_
#define MOIETY_POOL_RING_RING_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "moiety/history.h"
#include "moiety/status.h"
#include "moiety/types.h"
#include "pool/base/atomics.h"
#include "pool/base/step.h"
#include "pool/base/ticks.h"

struct moietyi_history;
struct moietyi_recorder;

/* More than is ever written: nothing has to be taken. */
#define MOIETYI_HISTORY_TAKEN (UINT64_MAX >> 1)
/* Its owner reads the clock. */
#define MOIETYI_HISTORY_NOW UINT64_C(1)

struct moietyi_history_entry {
    /* Edge HE: each word (release) -> its reader (acquire). */
    moietyi_atomic_word sequence; /* the entry's number + 1, 0: none */
    moietyi_atomic_word ticks;
    moietyi_atomic_word address;
    moietyi_atomic_word size_bytes;
    moietyi_atomic_word stream;
    moietyi_atomic_word what; /* kind, status, thread */
};

struct moietyi_history_ring {
    /* Constant once the ring is listed. */
    struct moietyi_history_ring *next;
    uint64_t mask;
    bool is_counter; /* as moietyi_ticks() wants it */
    /* Of the thread states that had it, one after the other; the registry's
     * lock. */
    struct moietyi_history_ring *next_ended;
    /* The owner's. */
    uint32_t thread_id;
    /* Edge HE: entries so far; the owner writes (release), readers begin there
     * (acquire). */
    moietyi_atomic_word written;
    /* Edge RP: 0, 1, or the ticks of the entry that its owner is about to write;
     * the owner writes (release), the recorder reads (acquire). */
    moietyi_atomic_word pending;
    /* Edge RD: of `written` the recorder has so many; it writes (release), the
     * owner reads (acquire) before it overwrites one. Without a recorder
     * MOIETYI_HISTORY_TAKEN. */
    moietyi_atomic_word taken;
    struct moietyi_history *history; /* constant */
    bool is_fenced; /* constant: there is no barrier for all threads */
    /* While somebody reads; the readers' lock. */
    uint64_t left;             /* entries that were not looked at yet */
    uint64_t lost;             /* of those that were noted at the beginning */
    bool has_head;             /* of the others, the next one is: */
    moiety_history_entry head; /* its time in ticks */
    struct moietyi_history_entry entries[];
};

struct moietyi_history {
    uint64_t entry_count; /* of each ring; a power of two */
    bool is_counter;
    struct moietyi_moment begin;
    /* Edge HL: listed (release) -> read (acquire). Rings stay until the end. */
    _Atomic(struct moietyi_history_ring *) rings;
    /* Of thread states that are gone, oldest first; the registry's lock. */
    struct moietyi_history_ring *ended;
    struct moietyi_history_ring **ended_end;
    uint32_t ended_count;
    pthread_mutex_t readers_lock;
    /* Outermost but for the recorders' own; held while rings are listed. */
    pthread_mutex_t record_lock;
    struct moietyi_recorder *recorder; /* record_lock; NULL: there is none */
};

/* An operation, as its thread sees it. */
struct moietyi_note {
    uint32_t kind; /* moiety_history_kind */
    moiety_status status;
    uint64_t ticks;
    moiety_devptr address;
    uint64_t size_bytes;
    moiety_stream stream;
};

/* `entries` is not 0. NULL: no memory. */
struct moietyi_history *moietyi_history_create(uint64_t entries);
/* With all rings. NULL is fine. */
void moietyi_history_destroy(struct moietyi_history *history);

/* The ring that ended first, whose entries stay until they are overwritten, where
 * enough have ended; or NULL. The registry's lock is held. */
struct moietyi_history_ring *
moietyi_history_reuse(struct moietyi_history *history);
/* Begins it for a thread's new thread state, or a new ring where it is NULL.
 * NULL: no memory. */
struct moietyi_history_ring *
moietyi_history_begin(struct moietyi_history *history,
                      struct moietyi_history_ring *ring, uint32_t thread_id);
/* Its thread state is gone; the registry's lock is held. */
void moietyi_history_end(struct moietyi_history *history,
                         struct moietyi_history_ring *ring);

/* Copies an entry; its time stays in ticks. False: it was overwritten, or is
 * being overwritten. */
bool moietyi_history_copy(const struct moietyi_history_ring *ring,
                          uint64_t number, moiety_history_entry *out);
/* The ring that was listed last, or NULL. */
struct moietyi_history_ring *
moietyi_history_rings(const struct moietyi_history *history);
/* Waits until the ring has room for an entry of these ticks; its owner's. */
void moietyi_history_make_room(struct moietyi_history_ring *ring,
                               uint64_t ticks);

/* The newest, oldest first; `out` but for its size. */
void moietyi_history_read(struct moietyi_history *history,
                          moiety_history_entry *out_entries, size_t capacity,
                          moiety_history_summary *out);

/* Inside: an entry's time is about to be read. */
static inline void moietyi_history_begin_note(struct moietyi_history_ring *ring)
{
    if (ring->is_fenced) {
        /* RP.seq_cst: before the clock, without anybody's barrier. */
        (void)atomic_exchange_explicit(&ring->pending, MOIETYI_HISTORY_NOW,
                                       memory_order_seq_cst);
        /* No clock is read before that is over. */
        (void)moietyi_ticks_after(ring->is_counter);
    } else {
        /* RP, relaxed: the recorder's barrier stands between it and the clock. */
        moietyi_store_relaxed(&ring->pending, MOIETYI_HISTORY_NOW);
    }
    /* RP: the compiler reads the clock later, too. */
    atomic_signal_fence(memory_order_seq_cst);
    MOIETYI_STEP("history.pending");
}

/* The entry is written. */
static inline void moietyi_history_end_note(struct moietyi_history_ring *ring)
{
    /* RP.release: a thread that sees the 0 sees the entry. */
    moietyi_store_release(&ring->pending, 0);
}

/* Inside, of the calling thread's own thread state, between the two above.
 * HE.release of the entry's five words: who sees one of them sees the 0 before
 * them. */
static inline void moietyi_history_write(struct moietyi_history_ring *ring,
                                         const struct moietyi_note *note)
{
    /* relaxed: only the owner writes. */
    uint64_t written = moietyi_load_relaxed(&ring->written);
    struct moietyi_history_entry *entry = &ring->entries[written & ring->mask];
    /* RD.acquire: what is overwritten was read. */
    if (__builtin_expect(
            (int64_t)(written - moietyi_load_acquire(&ring->taken)) >
                (int64_t)ring->mask,
            0))
        moietyi_history_make_room(ring, note->ticks);
    /* HE, relaxed: each of the stores below releases it. */
    moietyi_store_relaxed(&entry->sequence, 0);
    MOIETYI_STEP("history.begun");
    moietyi_store_release(&entry->ticks, note->ticks);
    moietyi_store_release(&entry->address, note->address);
    MOIETYI_STEP("history.half");
    moietyi_store_release(&entry->size_bytes, note->size_bytes);
    moietyi_store_release(&entry->stream, (uintptr_t)note->stream);
    moietyi_store_release(&entry->what, note->kind |
                                            (uint64_t)note->status << 8 |
                                            (uint64_t)ring->thread_id << 32);
    /* HE.release: a reader that sees the number sees the entry. */
    moietyi_store_release(&entry->sequence, written + 1);
    /* HE.release: a reader that begins here finds this entry or a later one. */
    moietyi_store_release(&ring->written, written + 1);
}

#endif
