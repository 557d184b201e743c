/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Edge LA: a thread puts a handle on the list and then tries it once more; another
 * ends what kept it, such as a capture guard, and then looks at the count. Both are
 * sequentially consistent, so at least one of the two tries it after both. If a
 * third thread has it just then, that one tries it again: it finds that the list
 * was looked at since.
 */
#include "pool/base/later.h"

#include <pthread.h>

#include "pool/base/cancel.h"
#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/base/log.h"

atomic_uint moietyi_later_count; /* Edge LA */

/* Edge LO: whoever left the list -> who enters it. The thread that has it, or 0.
 * Guards the rest, and all handles' parts; nothing is ended meanwhile. A signal's
 * handler in that thread would wait for itself, so it is refused. */
static _Atomic uintptr_t list_owner;
static struct moietyi_later *listed;
static uint64_t looks;  /* how often a thread came by */
static uint64_t wanted; /* the last one that did not only glance */

static bool list_has_me(void)
{
    /* relaxed: a thread's own store, or anything else. */
    return atomic_load_explicit(&list_owner, memory_order_relaxed) ==
           (uintptr_t)pthread_self();
}

static bool list_try_enter(void)
{
    uintptr_t nobody = 0;
    /* LO.acquire. */
    return atomic_compare_exchange_strong_explicit(
        &list_owner, &nobody, (uintptr_t)pthread_self(), memory_order_acquire,
        memory_order_relaxed);
}

/* False: a signal interrupted this thread with it. */
static bool list_enter(void)
{
    unsigned rounds = 0;
    if (list_has_me())
        return false;
    while (!list_try_enter()) {
        int cancel_state = moietyi_cancel_hold();
        moietyi_let_others(&rounds);
        moietyi_cancel_restore(cancel_state);
    }
    return true;
}

static void list_leave(void)
{
    /* LO.release. */
    atomic_store_explicit(&list_owner, 0, memory_order_release);
}

/* Lock held. */
static void later_list(struct moietyi_later *one)
{
    one->next = listed;
    one->is_listed = true;
    listed = one;
    /* LA.seq_cst: before the try that follows. */
    (void)atomic_fetch_add_explicit(&moietyi_later_count, 1,
                                    memory_order_seq_cst);
}

/* Lock held. */
static void later_unlist(struct moietyi_later *one)
{
    struct moietyi_later **at = &listed;
    while (*at != one)
        at = &(*at)->next;
    *at = one->next;
    one->is_listed = false;
    /* LA.seq_cst: as all at the count. */
    (void)atomic_fetch_sub_explicit(&moietyi_later_count, 1,
                                    memory_order_seq_cst);
}

bool moietyi_later_take(struct moietyi_later *one)
{
    if (!list_enter())
        return false;
    bool is_taken = one->is_taken;
    one->is_taken = true;
    list_leave();
    return !is_taken;
}

/* Lock held. */
static void later_put_back(struct moietyi_later *one, bool is_gone)
{
    one->is_taken = is_gone;
    if (is_gone && one->is_listed)
        later_unlist(one);
}

void moietyi_later_release(struct moietyi_later *one, bool is_gone)
{
    (void)list_enter();
    later_put_back(one, is_gone);
    /* Another thread looked meanwhile, and passed it over. */
    bool is_again = one->is_listed && one->tried < wanted;
    list_leave();
    if (is_again)
        moietyi_later_try(MOIETYI_END_LOOKS);
}

/* Lock held. */
static struct moietyi_later *take_untried(uint64_t look)
{
    struct moietyi_later *one = listed;
    while (one && (one->is_taken || one->tried >= look))
        one = one->next;
    if (one) {
        one->is_taken = true;
        one->tried = look;
    }
    return one;
}

static moiety_status later_end_taken(struct moietyi_later *one,
                                     enum moietyi_end how)
{
    moiety_status status = one->end(one->handle, how);
    if (status != MOIETY_OK && !moietyi_end_is_refused(status))
        moietyi_log_or_print(MOIETY_LOG_WARNING, "destroyed later: %s",
                             moietyi_failure_message());
    return status;
}

/* Lock held, but while a handle is ended. */
static void try_all(enum moietyi_end how)
{
    struct moietyi_later *one;
    uint64_t look = ++looks;
    if (how != MOIETYI_END_GLANCES)
        wanted = look;
    while ((one = take_untried(look)) != NULL) {
        list_leave();
        moiety_status status = later_end_taken(one, how);
        (void)list_enter();
        later_put_back(one, !moietyi_end_is_refused(status));
        /* Other threads looked, and passed it over. */
        if (look < wanted)
            look = wanted;
    }
}

static bool lock_for(enum moietyi_end how)
{
    return how == MOIETYI_END_GLANCES ? list_try_enter() : list_enter();
}

void moietyi_later_try(enum moietyi_end how)
{
    struct moietyi_failure failure;
    if (moietyi_is_forked())
        return;
    int cancel_state = moietyi_cancel_hold();
    moietyi_failure_keep(&failure);
    if (lock_for(how)) {
        try_all(how);
        list_leave();
    }
    moietyi_failure_restore(&failure);
    moietyi_cancel_restore(cancel_state);
}

/* Only if it is not on the list already. */
static bool later_take_new(struct moietyi_later *one, moietyi_end_fn *end,
                           void *handle)
{
    (void)list_enter();
    bool is_new = !one->is_taken && !one->is_listed;
    if (is_new) {
        one->end = end;
        one->handle = handle;
        one->is_taken = true;
    }
    list_leave();
    return is_new;
}

moiety_status moietyi_later_end(struct moietyi_later *one, moietyi_end_fn *end,
                                void *handle)
{
    struct moietyi_failure failure;
    if (list_has_me())
        return moietyi_fail(MOIETY_E_REENTRANT,
                            "a signal interrupted a call that destroys");
    moietyi_later_run(MOIETYI_END_LOOKS);
    if (!later_take_new(one, end, handle))
        return MOIETY_OK;
    moietyi_failure_keep(&failure);
    moiety_status status = end(handle, MOIETYI_END_WAITS);
    if (!moietyi_end_is_refused(status))
        return status; /* it stays taken */
    moietyi_log(MOIETY_LOG_INFO, "destroyed later: %s",
                moietyi_failure_message());
    (void)list_enter();
    later_list(one);
    later_put_back(one, false);
    list_leave();
    moietyi_later_try(MOIETYI_END_LOOKS);
    moietyi_failure_restore(&failure);
    return MOIETY_OK;
}
