/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A transport that registers all memory of a pool, as RDMA libraries do: each
 * segment before a block is in it, until its memory goes.
 */
#include <moiety/moiety.h>
#include <moiety/segment.h>

#include <pthread.h>
#include <stdio.h>

#include "driver.h"

enum { BLOCKS = 20, REGIONS = 256, MIB = 1 << 20 };

struct transport {
    pthread_mutex_t lock; /* one thread grows the pool, others send */
    /* Beside each there would be what ibv_reg_mr() gave. */
    moiety_segment_info regions[REGIONS];
    unsigned region_count;
};

/* Cannot refuse the segment: what finds no place here is not sent. */
static void register_segment(void *user, const moiety_segment_info *segment)
{
    struct transport *transport = user;
    pthread_mutex_lock(&transport->lock);
    if (transport->region_count < REGIONS)
        transport->regions[transport->region_count++] = *segment;
    pthread_mutex_unlock(&transport->lock);
}

static void deregister_segment(void *user, const moiety_segment_info *segment)
{
    struct transport *transport = user;
    pthread_mutex_lock(&transport->lock);
    unsigned i = 0;
    while (i < transport->region_count &&
           transport->regions[i].id != segment->id)
        i++;
    if (i < transport->region_count)
        transport->regions[i] = transport->regions[--transport->region_count];
    pthread_mutex_unlock(&transport->lock);
}

/* Sends what is at `at` to the end of its region; its bytes. 0: there is none. */
static uint64_t send_part(struct transport *transport, moiety_devptr at)
{
    uint64_t sent_bytes = 0;
    pthread_mutex_lock(&transport->lock);
    for (unsigned i = 0; i < transport->region_count; i++) {
        uint64_t offset_bytes = at - transport->regions[i].address;
        if (offset_bytes < transport->regions[i].size_bytes)
            sent_bytes = transport->regions[i].size_bytes - offset_bytes;
    }
    pthread_mutex_unlock(&transport->lock);
    return sent_bytes;
}

/* A block may lie in several segments: one work request for each. */
static bool send_block(struct transport *transport, moiety_pool *pool,
                       size_t size_bytes)
{
    moiety_devptr block;
    if (!did(moiety_alloc(pool, size_bytes, MOIETY_STREAM_ANY, &block), "get"))
        return false;
    uint64_t sent_bytes = 0;
    uint64_t part_bytes = 1;
    for (; sent_bytes < size_bytes && part_bytes; sent_bytes += part_bytes)
        part_bytes = send_part(transport, block + sent_bytes);
    /* The transport is done with it, and no stream used it. */
    return did(moiety_free(pool, block, MOIETY_STREAM_DONE), "free") &&
           sent_bytes >= size_bytes;
}

int main(void)
{
    static struct transport transport = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const moiety_segment_watcher watcher = {.struct_size = sizeof watcher,
                                            .user = &transport,
                                            .added = register_segment,
                                            .releasing = deregister_segment};
    moiety_pool *pool;
    moiety_watch watch;
    if (!did(moiety_pool_create(NULL, &pool), "create") ||
        !did(moiety_segment_watch(pool, &watcher, &watch), "watch"))
        return 1;
    size_t count = 0;
    while (count < BLOCKS && send_block(&transport, pool, count * 8 * MIB + 1))
        count++;
    printf("%zu blocks were sent\n", count);
    /* Ends the watch, and reports the release of all segments. */
    if (!did(moiety_pool_destroy(pool, NULL), "destroy"))
        return 1;
    printf("%u regions are left\n", transport.region_count);
    return 0;
}
