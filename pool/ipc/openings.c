/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/ipc/openings.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/lock.h"

_Static_assert(sizeof(struct moietyi_opening_key) ==
                   3 * sizeof(uint64_t) + sizeof(struct moietyi_process),
               "compared as bytes");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* A record has left the states OPENING or CLOSING. */
static pthread_cond_t settled = PTHREAD_COND_INITIALIZER;
static struct moietyi_opening *openings; /* under the lock */

/* All below: lock held, unless it takes it. */

static bool openings_is_key(const struct moietyi_opening *opening,
                            const struct moietyi_opening_key *key)
{
    return opening->key.segment_id == key->segment_id &&
           memcmp(&opening->key, key, sizeof(*key)) == 0;
}

static bool openings_is_idle(const struct moietyi_opening *opening)
{
    return opening->state == MOIETYI_OPEN && !opening->import_count &&
           !opening->closing_count;
}

static struct moietyi_opening **
link_of_key(const struct moietyi_opening_key *key)
{
    struct moietyi_opening **at = &openings;
    while (*at && !openings_is_key(*at, key))
        at = &(*at)->next;
    return at;
}

static struct moietyi_opening **link_of(const struct moietyi_opening *opening)
{
    struct moietyi_opening **at = &openings;
    while (*at != opening)
        at = &(*at)->next;
    return at;
}

static void move_to_front(struct moietyi_opening **at)
{
    struct moietyi_opening *opening = *at;
    *at = opening->next;
    opening->next = openings;
    openings = opening;
}

static void openings_drop(struct moietyi_opening *opening)
{
    *link_of(opening) = opening->next;
    free(opening);
}

/* What is open under the same handle of the driver as another segment: one that
 * the exporter gave up, in whose place is another now. The driver would answer
 * with the old one's address. */
static struct moietyi_opening *
find_double(const struct moietyi_opening_key *key,
            const moiety_ipc_handle *handle)
{
    struct moietyi_opening *opening = openings;
    while (opening && (opening->key.context_id != key->context_id ||
                       memcmp(opening->driver_handle, handle->driver_handle,
                              sizeof(opening->driver_handle)) != 0))
        opening = opening->next;
    return opening;
}

/* Lists a zeroed record. */
static void openings_list(struct moietyi_opening *opening,
                          const struct moietyi_opening_key *key,
                          const moiety_ipc_handle *handle,
                          const struct moietyi_importer *importer)
{
    opening->key = *key;
    opening->importer = *importer;
    opening->importer.has_primary = false; /* not before it is open */
    memcpy(opening->driver_handle, handle->driver_handle,
           sizeof(opening->driver_handle));
    opening->segment_bytes = handle->segment_bytes;
    opening->generation = handle->generation;
    opening->state = MOIETYI_OPENING;
    opening->next = openings;
    openings = opening;
}

/* One retention is enough for all imports of a segment: a second one stays the
 * importer's, to give back. */
static void take_primary(struct moietyi_opening *opening,
                         struct moietyi_importer *importer)
{
    if (opening->importer.has_primary || !importer->has_primary)
        return;
    opening->importer.device = importer->device;
    opening->importer.has_primary = true;
    importer->has_primary = false;
}

static enum moietyi_opening_found hit(struct moietyi_opening **at,
                                      const moiety_ipc_handle *handle,
                                      struct moietyi_importer *importer,
                                      moiety_devptr *out_address)
{
    struct moietyi_opening *opening = *at;
    if (handle->segment_bytes != opening->segment_bytes ||
        memcmp(handle->driver_handle, opening->driver_handle,
               sizeof(opening->driver_handle)) != 0)
        return MOIETYI_OPENING_CORRUPT;
    if (handle->generation < opening->generation)
        return MOIETYI_OPENING_STALE;
    opening->generation = handle->generation;
    opening->import_count++;
    take_primary(opening, importer);
    *out_address = opening->address;
    /* The next search finds it first. */
    move_to_front(at);
    return MOIETYI_OPENING_HIT;
}

/* `fresh` is for a record if there is memory for one; FRESH: it is that. */
static enum moietyi_opening_found
find_or_make(const struct moietyi_opening_key *key,
             const moiety_ipc_handle *handle,
             const struct moietyi_importer *importer,
             struct moietyi_opening *fresh, struct moietyi_opening **out)
{
    struct moietyi_opening *old = find_double(key, handle);
    if (!old && !fresh)
        return MOIETYI_OPENING_NO_MEMORY;
    if (!old) {
        openings_list(fresh, key, handle, importer);
        *out = fresh;
        return MOIETYI_OPENING_FRESH;
    }
    if (!openings_is_idle(old))
        return MOIETYI_OPENING_IN_USE;
    old->state = MOIETYI_CLOSING;
    *out = old;
    return MOIETYI_OPENING_OLD;
}

/* Whether another thread is at work on what the import needs. */
static bool is_unsettled(struct moietyi_opening **at,
                         const struct moietyi_opening_key *key,
                         const moiety_ipc_handle *handle)
{
    const struct moietyi_opening *opening =
        *at ? *at : find_double(key, handle);
    return opening && opening->state != MOIETYI_OPEN;
}

enum moietyi_opening_found
moietyi_opening_find(const struct moietyi_opening_key *key,
                     const moiety_ipc_handle *handle,
                     struct moietyi_importer *importer,
                     struct moietyi_opening **out, moiety_devptr *out_address)
{
    enum moietyi_opening_found found;
    struct moietyi_opening **at;
    struct moietyi_opening *fresh = calloc(1, sizeof(*fresh));
    moietyi_lock(&lock);
    while (is_unsettled(at = link_of_key(key), key, handle))
        moietyi_lock_wait(&lock, &settled);
    found = *at ? hit(at, handle, importer, out_address)
                : find_or_make(key, handle, importer, fresh, out);
    moietyi_unlock(&lock);
    if (found != MOIETYI_OPENING_FRESH)
        free(fresh);
    return found;
}

void moietyi_opening_end(struct moietyi_opening *opening,
                         struct moietyi_importer *importer,
                         moiety_devptr address)
{
    moietyi_lock(&lock);
    opening->address = address;
    opening->state = MOIETYI_OPEN;
    opening->import_count = 1;
    if (address)
        take_primary(opening, importer);
    else
        openings_drop(opening);
    pthread_cond_broadcast(&settled);
    moietyi_unlock(&lock);
}

struct moietyi_opening *moietyi_opening_take_idle(uint32_t keep_count)
{
    uint32_t idle_count = 0;
    struct moietyi_opening *last = NULL;
    moietyi_lock(&lock);
    for (struct moietyi_opening *opening = openings; opening;
         opening = opening->next) {
        if (!openings_is_idle(opening))
            continue;
        idle_count++;
        last = opening;
    }
    if (idle_count <= keep_count)
        last = NULL;
    if (last)
        last->state = MOIETYI_CLOSING;
    moietyi_unlock(&lock);
    return last;
}

void moietyi_opening_gave(struct moietyi_opening *opening, bool is_closed)
{
    moietyi_lock(&lock);
    opening->state = MOIETYI_OPEN;
    if (is_closed)
        openings_drop(opening);
    else
        /* So that the next try is another's. */
        move_to_front(link_of(opening));
    pthread_cond_broadcast(&settled);
    moietyi_unlock(&lock);
}

static bool openings_has(const struct moietyi_opening *opening,
                         moiety_devptr address)
{
    return opening->state == MOIETYI_OPEN && address >= opening->address &&
           address - opening->address < opening->segment_bytes;
}

moiety_status moietyi_opening_begin_close(moiety_devptr address,
                                          struct moietyi_opening **out)
{
    moiety_status status = MOIETY_E_FOREIGN;
    moietyi_lock(&lock);
    /* One segment may be open in two contexts at one address. */
    for (struct moietyi_opening *opening = openings;
         opening && status != MOIETY_OK; opening = opening->next) {
        if (!openings_has(opening, address))
            continue;
        status = MOIETY_E_INVALID;
        if (!opening->import_count)
            continue;
        opening->import_count--;
        opening->closing_count++;
        *out = opening;
        status = MOIETY_OK;
    }
    moietyi_unlock(&lock);
    return status;
}

void moietyi_opening_undo_close(struct moietyi_opening *opening)
{
    moietyi_lock(&lock);
    opening->import_count++;
    opening->closing_count--;
    moietyi_unlock(&lock);
}

void moietyi_opening_end_close(struct moietyi_opening *opening)
{
    moietyi_lock(&lock);
    opening->closing_count--;
    move_to_front(link_of(opening));
    moietyi_unlock(&lock);
}

uint32_t moietyi_opening_count(void)
{
    uint32_t count = 0;
    moietyi_lock(&lock);
    for (const struct moietyi_opening *opening = openings; opening;
         opening = opening->next)
        count++;
    moietyi_unlock(&lock);
    return count;
}
