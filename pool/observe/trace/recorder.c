/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _DEFAULT_SOURCE
#include "pool/observe/trace/recorder.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "pool/base/barrier.h"
#include "pool/base/failure.h"
#include "pool/base/lock.h"
#include "pool/observe/trace/record_queue.h"
#include "pool/ring/ring.h"

/* How often a thread is looked at that reads the clock; then it was
 * interrupted, and what is later than its entry waits in the queue. */
#define LOOKS 64U
/* How long the end of the process waits for a thread that writes. */
#define EXIT_TRIES 1000U
#define EXIT_NAP_NS 1000000L

/* The history's record_lock, but for the last two. */
struct moietyi_recorder {
    struct moietyi_history *history;
    struct moietyi_trace_file *file;
    struct moietyi_record_queue queue; /* taken and not written */
    uint64_t settled_ticks;            /* all that is before was written */
    uint64_t lost;
    uint64_t late; /* written behind later ones */
    uint64_t last_ticks;
    /* Of all; the lock below. */
    struct moietyi_recorder *next;
};

/* Inside of a record_lock; its holder waits for no other. */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct moietyi_recorder *all;
/* Edge: none; relaxed: no more than a number. Of the process that recorded last:
 * a child of a fork inherits a lock that nobody may ever release. */
static _Atomic pid_t process;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool is_ready;

/* False: it is lost. */
static bool recorder_take(struct moietyi_recorder *recorder,
                          const struct moietyi_history_ring *ring,
                          uint64_t number)
{
    moiety_history_entry *room = moietyi_record_queue_room(&recorder->queue);
    if (room && !moietyi_history_copy(ring, number, room))
        return false;
    if (room && moietyi_record_queue_append(&recorder->queue))
        return true;
    moietyi_trace_fail(recorder->file, MOIETY_E_NO_HOST_MEMORY);
    return false;
}

static void take_ring(struct moietyi_recorder *recorder,
                      struct moietyi_history_ring *ring)
{
    /* relaxed: written under the lock that is held. */
    uint64_t taken = moietyi_load_relaxed(&ring->taken);
    /* HE.acquire: the entries up to there. */
    uint64_t written = moietyi_load_acquire(&ring->written);
    moietyi_record_queue_part(&recorder->queue);
    for (; taken != written; taken++)
        recorder->lost += !recorder_take(recorder, ring, taken);
    /* RD.release: they were read. */
    moietyi_store_release(&ring->taken, written);
}

/* The ticks of the entry that the ring's owner is about to write, 0 for none,
 * MOIETYI_HISTORY_NOW if it does not come to say. */
static uint64_t recorder_look(const struct moietyi_history_ring *ring)
{
    /* RP.acquire: the entries before the 0. Sequentially consistent for
     * processes without a barrier. */
    uint64_t pending = moietyi_load_seq_cst(&ring->pending);
    for (unsigned i = 0; pending == MOIETYI_HISTORY_NOW && i < LOOKS; i++) {
        (void)sched_yield();
        /* RP.seq_cst: as above. */
        pending = moietyi_load_seq_cst(&ring->pending);
    }
    return pending;
}

/* Where there is none for all threads each has its own; then nothing is to be
 * looked at before the clock was read, which another reading waits for. */
static bool recorder_pass_barrier(const struct moietyi_history *history)
{
    if (moietyi_barrier_is_there())
        return moietyi_barrier_all();
    (void)moietyi_ticks_after(history->is_counter);
    return true;
}

/* Takes what there is, which is all that was noted before `out_now`; returns the
 * ticks that no entry comes before any more. */
static uint64_t take_all(struct moietyi_recorder *recorder, uint64_t *out_now)
{
    uint64_t limit = moietyi_ticks_after(recorder->history->is_counter);
    *out_now = limit;
    if (!recorder_pass_barrier(recorder->history))
        limit = recorder->settled_ticks;
    for (struct moietyi_history_ring *ring =
             moietyi_history_rings(recorder->history);
         ring; ring = ring->next) {
        uint64_t pending = recorder_look(ring);
        if (pending == MOIETYI_HISTORY_NOW)
            limit = recorder->settled_ticks;
        else if (pending && pending < limit)
            limit = pending;
        take_ring(recorder, ring);
    }
    return limit;
}

/* Writes what is before the limit, and keeps the rest. */
static void write_until(struct moietyi_recorder *recorder, uint64_t limit)
{
    const struct moietyi_history *history = recorder->history;
    struct moietyi_moment now = moietyi_moment_now(history->is_counter);
    moiety_history_entry *entry;
    moietyi_record_queue_begin(&recorder->queue);
    while ((entry = moietyi_record_queue_next(&recorder->queue, limit))) {
        recorder->late += entry->time_ns < recorder->last_ticks;
        recorder->last_ticks = entry->time_ns;
        entry->time_ns = moietyi_time_of(&history->begin, &now, entry->time_ns);
        moietyi_trace_put(recorder->file, entry);
    }
    moietyi_record_queue_end(&recorder->queue);
    if (limit > recorder->settled_ticks)
        recorder->settled_ticks = limit;
}

static void drain(struct moietyi_recorder *recorder)
{
    int cancelling;
    /* Writing is a place where threads are cancelled. */
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
    uint64_t now;
    uint64_t limit = take_all(recorder, &now);
    write_until(recorder, limit);
    (void)pthread_setcancelstate(cancelling, NULL);
}

void moietyi_history_make_room(struct moietyi_history_ring *ring,
                               uint64_t ticks)
{
    struct moietyi_history *history = ring->history;
    /* relaxed, and RP.release: only the owner writes. Others need not wait for
     * it now. */
    if (moietyi_load_relaxed(&ring->pending) == MOIETYI_HISTORY_NOW)
        moietyi_store_release(&ring->pending, ticks);
    pthread_mutex_lock(&history->record_lock);
    /* relaxed, both: the lock has them. */
    if (history->recorder && moietyi_load_relaxed(&ring->written) -
                                     moietyi_load_relaxed(&ring->taken) >
                                 ring->mask)
        drain(history->recorder);
    pthread_mutex_unlock(&history->record_lock);
}

/* From now on nothing of it is taken, or all that is written. */
static void recorder_set_all(const struct moietyi_history *history, bool is_on)
{
    for (struct moietyi_history_ring *ring = moietyi_history_rings(history);
         ring; ring = ring->next) {
        /* RD.release. HE.acquire. */
        moietyi_store_release(&ring->taken,
                              is_on ? moietyi_load_acquire(&ring->written)
                                    : MOIETYI_HISTORY_TAKEN);
    }
}

static void recorder_list(struct moietyi_recorder *recorder)
{
    moietyi_lock(&all_lock);
    recorder->next = all;
    all = recorder;
    moietyi_unlock(&all_lock);
}

static void recorder_unlist(const struct moietyi_recorder *recorder)
{
    moietyi_lock(&all_lock);
    struct moietyi_recorder **at = &all;
    while (*at != recorder)
        at = &(*at)->next;
    *at = recorder->next;
    moietyi_unlock(&all_lock);
}

/* record_lock held. */
static moiety_status recorder_finish(struct moietyi_recorder *recorder,
                                     struct moietyi_trace_sums *out,
                                     uint64_t *out_lost)
{
    struct moietyi_history *history = recorder->history;
    uint64_t now;
    /* Calls that are under way are left out, and what came after. */
    (void)take_all(recorder, &now);
    write_until(recorder, now);
    recorder_set_all(history, false);
    history->recorder = NULL;
    recorder_unlist(recorder);
    moietyi_trace_count(recorder->file, "late_times", recorder->late);
    moietyi_trace_count(recorder->file, "lost", recorder->lost);
    moietyi_trace_end(recorder->file);
    moietyi_trace_sums(recorder->file, out);
    *out_lost = recorder->lost;
    moiety_status status = moietyi_trace_check(recorder->file);
    moietyi_trace_free(recorder->file);
    moietyi_record_queue_fini(&recorder->queue);
    free(recorder);
    return status;
}

/* True: the first recorder's history, with its record_lock, or NULL where there is
 * no recorder. A history that is listed is there. */
static bool recorder_try_first(struct moietyi_history **out)
{
    bool is_locked = false;
    if (!moietyi_try_lock(&all_lock))
        return false;
    *out = all ? all->history : NULL;
    is_locked = !*out || pthread_mutex_trylock(&(*out)->record_lock) == 0;
    moietyi_unlock(&all_lock);
    return is_locked;
}

/* NULL: none is left, or a lock is not to be had. */
static struct moietyi_history *recorder_wait_for_first(void)
{
    struct moietyi_history *history = NULL;
    for (unsigned i = 0; i < EXIT_TRIES; i++) {
        if (recorder_try_first(&history))
            return history;
        moietyi_nap(EXIT_NAP_NS);
    }
    return NULL;
}

/* Other threads may still be running, or be gone with a lock. */
static void finish_at_exit(void)
{
    struct moietyi_trace_sums sums;
    uint64_t lost;
    struct moietyi_history *history;
    if (atomic_load_explicit(&process, memory_order_relaxed) != getpid())
        return;
    while ((history = recorder_wait_for_first()) != NULL) {
        if (recorder_finish(history->recorder, &sums, &lost) != MOIETY_OK)
            (void)fprintf(stderr, "moiety: %s\n", moietyi_failure_message());
        pthread_mutex_unlock(&history->record_lock);
    }
}

static void recorder_get_ready(void)
{
    is_ready = atexit(finish_at_exit) == 0;
}

static struct moietyi_recorder *recorder_make(struct moietyi_history *history,
                                              struct moietyi_trace_file *file)
{
    struct moietyi_recorder *recorder = calloc(1, sizeof(*recorder));
    if (pthread_once(&once, recorder_get_ready) != 0 || !is_ready ||
        !recorder) {
        free(recorder);
        return NULL;
    }
    recorder->history = history;
    recorder->file = file;
    return recorder;
}

/* record_lock held. */
static void recorder_begin(struct moietyi_recorder *recorder)
{
    struct moietyi_history *history = recorder->history;
    struct moietyi_moment now;
    /* Once so that owners overwrite nothing any more, and once for what they
     * wrote before they saw that. */
    recorder_set_all(history, true);
    (void)recorder_pass_barrier(history);
    recorder_set_all(history, true);
    now = moietyi_moment_now(history->is_counter);
    recorder->settled_ticks = now.ticks;
    moietyi_trace_begin(recorder->file, now.time_ns);
    history->recorder = recorder;
    recorder_list(recorder);
    atomic_store_explicit(&process, getpid(), memory_order_relaxed);
}

moiety_status moietyi_recorder_start(struct moietyi_history *history,
                                     struct moietyi_trace_file *file)
{
    struct moietyi_recorder *recorder = recorder_make(history, file);
    if (!recorder)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY, "no memory for recording");
    pthread_mutex_lock(&history->record_lock);
    bool is_free = !history->recorder;
    if (is_free)
        recorder_begin(recorder);
    pthread_mutex_unlock(&history->record_lock);
    if (is_free)
        return MOIETY_OK;
    free(recorder);
    return moietyi_fail(MOIETY_E_IN_USE, "the pool is recorded already");
}

bool moietyi_recorder_sums(struct moietyi_history *history, bool takes_all,
                           struct moietyi_trace_sums *out, uint64_t *out_lost)
{
    pthread_mutex_lock(&history->record_lock);
    struct moietyi_recorder *recorder = history->recorder;
    if (recorder) {
        if (takes_all) {
            drain(recorder);
            moietyi_trace_flush(recorder->file);
        }
        moietyi_trace_sums(recorder->file, out);
        *out_lost = recorder->lost;
    }
    pthread_mutex_unlock(&history->record_lock);
    return recorder != NULL;
}

moiety_status moietyi_recorder_stop(struct moietyi_history *history,
                                    struct moietyi_trace_sums *out,
                                    uint64_t *out_lost)
{
    int cancelling;
    moiety_status status = MOIETY_OK;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
    pthread_mutex_lock(&history->record_lock);
    if (history->recorder)
        status = recorder_finish(history->recorder, out, out_lost);
    pthread_mutex_unlock(&history->record_lock);
    (void)pthread_setcancelstate(cancelling, NULL);
    return status;
}
