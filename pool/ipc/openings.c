/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/ipc/openings.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct binadei_opening_key) ==
                   3 * sizeof(uint64_t) + sizeof(struct binadei_process),
               "compared as bytes");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* A record has left the states OPENING or CLOSING. */
static pthread_cond_t settled = PTHREAD_COND_INITIALIZER;
static struct binadei_opening *openings; /* under the lock */

/* All below: lock held, unless it takes it. */

static bool openings_is_key(const struct binadei_opening *opening,
                            const struct binadei_opening_key *key)
{
    return opening->key.segment_id == key->segment_id &&
           memcmp(&opening->key, key, sizeof(*key)) == 0;
}

static bool openings_is_idle(const struct binadei_opening *opening)
{
    return opening->state == BINADEI_OPEN && !opening->import_count &&
           !opening->closing_count;
}

static struct binadei_opening **
link_of_key(const struct binadei_opening_key *key)
{
    struct binadei_opening **at = &openings;
    while (*at && !openings_is_key(*at, key))
        at = &(*at)->next;
    return at;
}

static struct binadei_opening **link_of(const struct binadei_opening *opening)
{
    struct binadei_opening **at = &openings;
    while (*at != opening)
        at = &(*at)->next;
    return at;
}

static void move_to_front(struct binadei_opening **at)
{
    struct binadei_opening *opening = *at;
    *at = opening->next;
    opening->next = openings;
    openings = opening;
}

static void openings_drop(struct binadei_opening *opening)
{
    *link_of(opening) = opening->next;
    free(opening);
}

/* What is open under the same handle of the driver as another segment: one that
 * the exporter gave up, in whose place is another now. The driver would answer
 * with the old one's address. */
static struct binadei_opening *
find_double(const struct binadei_opening_key *key,
            const binade_ipc_handle *handle)
{
    struct binadei_opening *opening = openings;
    while (opening && (opening->key.context_id != key->context_id ||
                       memcmp(opening->driver_handle, handle->driver_handle,
                              sizeof(opening->driver_handle)) != 0))
        opening = opening->next;
    return opening;
}

/* NULL: no memory. */
static struct binadei_opening *
openings_make(const struct binadei_opening_key *key,
              const binade_ipc_handle *handle,
              const struct binadei_importer *importer)
{
    struct binadei_opening *opening = calloc(1, sizeof(*opening));
    if (!opening)
        return NULL;
    opening->key = *key;
    opening->importer = *importer;
    opening->importer.has_primary = false; /* not before it is open */
    memcpy(opening->driver_handle, handle->driver_handle,
           sizeof(opening->driver_handle));
    opening->segment_bytes = handle->segment_bytes;
    opening->generation = handle->generation;
    opening->state = BINADEI_OPENING;
    opening->next = openings;
    openings = opening;
    return opening;
}

/* One retention is enough for all imports of a segment: a second one stays the
 * importer's, to give back. */
static void take_primary(struct binadei_opening *opening,
                         struct binadei_importer *importer)
{
    if (opening->importer.has_primary || !importer->has_primary)
        return;
    opening->importer.device = importer->device;
    opening->importer.has_primary = true;
    importer->has_primary = false;
}

static enum binadei_opening_found hit(struct binadei_opening **at,
                                      const binade_ipc_handle *handle,
                                      struct binadei_importer *importer,
                                      binade_devptr *out_address)
{
    struct binadei_opening *opening = *at;
    if (handle->segment_bytes != opening->segment_bytes ||
        memcmp(handle->driver_handle, opening->driver_handle,
               sizeof(opening->driver_handle)) != 0)
        return BINADEI_OPENING_CORRUPT;
    if (handle->generation < opening->generation)
        return BINADEI_OPENING_STALE;
    opening->generation = handle->generation;
    opening->import_count++;
    take_primary(opening, importer);
    *out_address = opening->address;
    /* The next search finds it first. */
    move_to_front(at);
    return BINADEI_OPENING_HIT;
}

static enum binadei_opening_found find_or_make(
    const struct binadei_opening_key *key, const binade_ipc_handle *handle,
    const struct binadei_importer *importer, struct binadei_opening **out)
{
    struct binadei_opening *old = find_double(key, handle);
    if (!old) {
        *out = openings_make(key, handle, importer);
        return *out ? BINADEI_OPENING_FRESH : BINADEI_OPENING_NO_MEMORY;
    }
    if (!openings_is_idle(old))
        return BINADEI_OPENING_IN_USE;
    old->state = BINADEI_CLOSING;
    *out = old;
    return BINADEI_OPENING_OLD;
}

/* Whether another thread is at work on what the import needs. */
static bool is_unsettled(struct binadei_opening **at,
                         const struct binadei_opening_key *key,
                         const binade_ipc_handle *handle)
{
    const struct binadei_opening *opening =
        *at ? *at : find_double(key, handle);
    return opening && opening->state != BINADEI_OPEN;
}

enum binadei_opening_found
binadei_opening_find(const struct binadei_opening_key *key,
                     const binade_ipc_handle *handle,
                     struct binadei_importer *importer,
                     struct binadei_opening **out, binade_devptr *out_address)
{
    enum binadei_opening_found found;
    struct binadei_opening **at;
    pthread_mutex_lock(&lock);
    while (is_unsettled(at = link_of_key(key), key, handle))
        pthread_cond_wait(&settled, &lock);
    found = *at ? hit(at, handle, importer, out_address)
                : find_or_make(key, handle, importer, out);
    pthread_mutex_unlock(&lock);
    return found;
}

void binadei_opening_end(struct binadei_opening *opening,
                         struct binadei_importer *importer,
                         binade_devptr address)
{
    pthread_mutex_lock(&lock);
    opening->address = address;
    opening->state = BINADEI_OPEN;
    opening->import_count = 1;
    if (address)
        take_primary(opening, importer);
    else
        openings_drop(opening);
    pthread_cond_broadcast(&settled);
    pthread_mutex_unlock(&lock);
}

struct binadei_opening *binadei_opening_take_idle(uint32_t keep_count)
{
    uint32_t idle_count = 0;
    struct binadei_opening *last = NULL;
    pthread_mutex_lock(&lock);
    for (struct binadei_opening *opening = openings; opening;
         opening = opening->next) {
        if (!openings_is_idle(opening))
            continue;
        idle_count++;
        last = opening;
    }
    if (idle_count <= keep_count)
        last = NULL;
    if (last)
        last->state = BINADEI_CLOSING;
    pthread_mutex_unlock(&lock);
    return last;
}

void binadei_opening_gave(struct binadei_opening *opening, bool is_closed)
{
    pthread_mutex_lock(&lock);
    opening->state = BINADEI_OPEN;
    if (is_closed)
        openings_drop(opening);
    else
        /* So that the next try is another's. */
        move_to_front(link_of(opening));
    pthread_cond_broadcast(&settled);
    pthread_mutex_unlock(&lock);
}

static bool openings_has(const struct binadei_opening *opening,
                         binade_devptr address)
{
    return opening->state == BINADEI_OPEN && address >= opening->address &&
           address - opening->address < opening->segment_bytes;
}

binade_status binadei_opening_begin_close(binade_devptr address,
                                          struct binadei_opening **out)
{
    binade_status status = BINADE_E_FOREIGN;
    pthread_mutex_lock(&lock);
    /* One segment may be open in two contexts at one address. */
    for (struct binadei_opening *opening = openings;
         opening && status != BINADE_OK; opening = opening->next) {
        if (!openings_has(opening, address))
            continue;
        status = BINADE_E_INVALID;
        if (!opening->import_count)
            continue;
        opening->import_count--;
        opening->closing_count++;
        *out = opening;
        status = BINADE_OK;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

void binadei_opening_undo_close(struct binadei_opening *opening)
{
    pthread_mutex_lock(&lock);
    opening->import_count++;
    opening->closing_count--;
    pthread_mutex_unlock(&lock);
}

void binadei_opening_end_close(struct binadei_opening *opening)
{
    pthread_mutex_lock(&lock);
    opening->closing_count--;
    move_to_front(link_of(opening));
    pthread_mutex_unlock(&lock);
}

uint32_t binadei_opening_count(void)
{
    uint32_t count = 0;
    pthread_mutex_lock(&lock);
    for (const struct binadei_opening *opening = openings; opening;
         opening = opening->next)
        count++;
    pthread_mutex_unlock(&lock);
    return count;
}
