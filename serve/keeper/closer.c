/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "serve/keeper/closer.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "pool/base/lock.h"

static void *closer_work(void *argument)
{
    struct moietyi_closer *closer = argument;
    uint64_t one = 1;
    moietyi_lock(&closer->lock);
    for (;;) {
        while (closer->closed == closer->pushed)
            moietyi_lock_wait(&closer->lock, &closer->work);
        int descriptor =
            closer->items[closer->closed % MOIETYI_CLOSER_ROOM].descriptor;
        moietyi_unlock(&closer->lock);
        (void)close(descriptor);
        moietyi_lock(&closer->lock);
        closer->closed++;
        /* It only fails when it is readable already. */
        ssize_t written = write(closer->event, &one, sizeof(one));
        (void)written;
    }
    return NULL;
}

bool moietyi_closer_start(struct moietyi_closer *closer)
{
    pthread_t thread;
    closer->pushed = 0;
    closer->closed = 0;
    closer->reaped = 0;
    closer->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return closer->event >= 0 && pthread_mutex_init(&closer->lock, NULL) == 0 &&
           pthread_cond_init(&closer->work, NULL) == 0 &&
           pthread_create(&thread, NULL, closer_work, closer) == 0 &&
           pthread_detach(thread) == 0;
}

size_t moietyi_closer_room(struct moietyi_closer *closer)
{
    moietyi_lock(&closer->lock);
    size_t room = MOIETYI_CLOSER_ROOM - (closer->pushed - closer->reaped);
    moietyi_unlock(&closer->lock);
    return room;
}

void moietyi_closer_push(struct moietyi_closer *closer, int descriptor,
                         uint64_t region)
{
    moietyi_lock(&closer->lock);
    size_t at = closer->pushed++ % MOIETYI_CLOSER_ROOM;
    closer->items[at].descriptor = descriptor;
    closer->items[at].region = region;
    pthread_cond_signal(&closer->work);
    moietyi_unlock(&closer->lock);
}

bool moietyi_closer_reap(struct moietyi_closer *closer, uint64_t *out_region)
{
    moietyi_lock(&closer->lock);
    bool has_closed = closer->reaped != closer->closed;
    if (has_closed)
        *out_region =
            closer->items[closer->reaped++ % MOIETYI_CLOSER_ROOM].region;
    moietyi_unlock(&closer->lock);
    return has_closed;
}
