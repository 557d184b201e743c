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
#include <stdio.h>

#include "pool/base/cancel.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/base/lock.h"
#include "pool/base/log.h"

atomic_uint moietyi_later_count; /* Edge LA */

/* Guards the rest, and all handles' parts; nothing is ended under it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct moietyi_later *listed;
static uint64_t looks;  /* how often a thread came by */
static uint64_t wanted; /* the last one that did not only glance */

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
    moietyi_lock(&lock);
    bool is_taken = one->is_taken;
    one->is_taken = true;
    moietyi_unlock(&lock);
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
    moietyi_lock(&lock);
    later_put_back(one, is_gone);
    /* Another thread came by meanwhile, and passed it over. */
    bool is_again = one->is_listed && one->tried < wanted;
    moietyi_unlock(&lock);
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

/* For what succeeds though a part of it was refused. */
static void failure_keep(char failure[MOIETYI_MESSAGE_BYTES])
{
    (void)snprintf(failure, MOIETYI_MESSAGE_BYTES, "%s",
                   moietyi_failure_message());
}

static void failure_restore(const char *failure)
{
    (void)moietyi_fail(MOIETY_OK, "%s", failure);
}

static moiety_status later_end_taken(struct moietyi_later *one,
                                     enum moietyi_end how)
{
    moiety_status status = one->end(one->handle, how);
    if (status != MOIETY_OK && status != MOIETY_E_BUSY)
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
        moietyi_unlock(&lock);
        moiety_status status = later_end_taken(one, how);
        moietyi_lock(&lock);
        later_put_back(one, status != MOIETY_E_BUSY);
        /* Other threads came by, and passed it over. */
        if (look < wanted)
            look = wanted;
    }
}

static bool lock_for(enum moietyi_end how)
{
    if (how == MOIETYI_END_GLANCES)
        return moietyi_try_lock(&lock);
    moietyi_lock(&lock);
    return true;
}

void moietyi_later_try(enum moietyi_end how)
{
    char failure[MOIETYI_MESSAGE_BYTES];
    if (moietyi_is_forked())
        return;
    int cancel_state = moietyi_cancel_hold();
    failure_keep(failure);
    if (lock_for(how)) {
        try_all(how);
        moietyi_unlock(&lock);
    }
    failure_restore(failure);
    moietyi_cancel_restore(cancel_state);
}

/* Not what is on the list already. */
static bool later_take_new(struct moietyi_later *one, moietyi_end_fn *end,
                           void *handle)
{
    moietyi_lock(&lock);
    bool is_new = !one->is_taken && !one->is_listed;
    if (is_new) {
        one->end = end;
        one->handle = handle;
        one->is_taken = true;
    }
    moietyi_unlock(&lock);
    return is_new;
}

moiety_status moietyi_later_end(struct moietyi_later *one, moietyi_end_fn *end,
                                void *handle)
{
    char failure[MOIETYI_MESSAGE_BYTES];
    moietyi_later_run(MOIETYI_END_LOOKS);
    if (!later_take_new(one, end, handle))
        return MOIETY_OK;
    failure_keep(failure);
    moiety_status status = end(handle, MOIETYI_END_WAITS);
    if (status != MOIETY_E_BUSY)
        return status; /* it stays taken */
    moietyi_log(MOIETY_LOG_INFO, "destroyed later: %s",
                moietyi_failure_message());
    moietyi_lock(&lock);
    later_list(one);
    later_put_back(one, false);
    moietyi_unlock(&lock);
    moietyi_later_try(MOIETYI_END_LOOKS);
    failure_restore(failure);
    return MOIETY_OK;
}
