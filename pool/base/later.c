/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Edge LA: a thread puts a handle on the list and then tries it once more; another
 * ends what kept it, such as a capture guard, and then looks at the count. Both are
 * sequentially consistent, so at least one of the two destroys it.
 */
#include "pool/base/later.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/base/log.h"

struct later {
    struct later *next;
    moietyi_destroy_fn *destroy;
    void *handle;
};

atomic_uint moietyi_later_count; /* Edge LA */

/* Guards the two below; nothing is destroyed under it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct later *waiting;
static uint64_t try_count; /* how often the list was asked for */

static struct later *later_take_all(bool is_first, uint64_t *out_tries)
{
    pthread_mutex_lock(&lock);
    struct later *all = waiting;
    waiting = NULL;
    try_count += is_first;
    *out_tries = try_count;
    pthread_mutex_unlock(&lock);
    return all;
}

/* Whether another thread asked meanwhile, and may have found the list empty. */
static bool later_keep(struct later *one, uint64_t tries)
{
    pthread_mutex_lock(&lock);
    one->next = waiting;
    waiting = one;
    bool is_wanted = try_count != tries;
    pthread_mutex_unlock(&lock);
    return is_wanted;
}

static void later_forget(struct later *one, moiety_status status)
{
    /* Whoever destroyed it by its handle meanwhile was told then. */
    if (status != MOIETY_OK && status != MOIETY_E_INVALID)
        moietyi_log_or_print(MOIETY_LOG_WARNING, "destroyed later: %s",
                             moietyi_failure_message());
    free(one);
    /* LA.seq_cst: as all at the count. */
    (void)atomic_fetch_sub_explicit(&moietyi_later_count, 1,
                                    memory_order_seq_cst);
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

void moietyi_later_try(void)
{
    char failure[MOIETYI_MESSAGE_BYTES];
    uint64_t tries;
    failure_keep(failure);
    struct later *all = later_take_all(true, &tries);
    while (all) {
        bool is_again = false;
        while (all) {
            struct later *one = all;
            all = one->next;
            moiety_status status = one->destroy(one->handle);
            if (status == MOIETY_E_BUSY)
                is_again |= later_keep(one, tries);
            else
                later_forget(one, status);
        }
        all = is_again ? later_take_all(false, &tries) : NULL;
    }
    failure_restore(failure);
}

moiety_status moietyi_later_destroy(moietyi_destroy_fn *destroy, void *handle)
{
    char failure[MOIETYI_MESSAGE_BYTES];
    moietyi_later_run();
    failure_keep(failure);
    moiety_status status = destroy(handle);
    if (status != MOIETY_E_BUSY)
        return status;
    struct later *one = calloc(1, sizeof(*one));
    if (!one)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory to note what is destroyed later");
    one->destroy = destroy;
    one->handle = handle;
    moietyi_log(MOIETY_LOG_INFO, "destroyed later: %s",
                moietyi_failure_message());
    /* LA.seq_cst: before the try that follows. */
    (void)atomic_fetch_add_explicit(&moietyi_later_count, 1,
                                    memory_order_seq_cst);
    (void)later_keep(one, 0);
    moietyi_later_try();
    failure_restore(failure);
    return MOIETY_OK;
}
