/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A thread that closes descriptors. The last close of memory runs the driver,
 * and may block for as long as a device hangs; clients are answered meanwhile.
 */
#ifndef MOIETY_SERVE_KEEPER_CLOSER_H_
#define MOIETY_SERVE_KEEPER_CLOSER_H_

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOIETYI_CLOSER_ROOM ((size_t)4096)

/* Three counts that only grow: reaped <= closed <= pushed <= reaped + room. */
struct moietyi_closer {
    pthread_mutex_t lock;
    pthread_cond_t work;
    int event; /* eventfd: readable when something was closed */
    size_t pushed;
    size_t closed;
    size_t reaped;
    struct {
        int descriptor;
        uint64_t region; /* 0: of none */
    } items[MOIETYI_CLOSER_ROOM];
};

/* False: no thread, or no descriptor. It is never ended. */
bool moietyi_closer_start(struct moietyi_closer *closer);
size_t moietyi_closer_room(struct moietyi_closer *closer);
/* There is room. */
void moietyi_closer_push(struct moietyi_closer *closer, int descriptor,
                         uint64_t region);
/* False: nothing more was closed. Otherwise the region of the next one. */
bool moietyi_closer_reap(struct moietyi_closer *closer, uint64_t *out_region);

#endif
