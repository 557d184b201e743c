/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The short-cut: who imports what this very process exported gets the address
 * itself. The driver would refuse to open such a handle.
 */
#include "pool/base/failure.h"
#include "pool/ipc/state.h"

/* Before any exports' own lock. */
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct binadei_exports *all;
static uint64_t last_serial;

void binadei_exports_enrol(struct binadei_exports *exports)
{
    pthread_mutex_lock(&registry_lock);
    exports->serial = ++last_serial;
    exports->next = all;
    all = exports;
    pthread_mutex_unlock(&registry_lock);
}

void binadei_exports_strike(struct binadei_exports *exports)
{
    pthread_mutex_lock(&registry_lock);
    struct binadei_exports **at = &all;
    while (*at != exports)
        at = &(*at)->next;
    *at = exports->next;
    pthread_mutex_unlock(&registry_lock);
}

/* The export that a handle is of, or NULL. The lock of its pool held. */
static struct binadei_export *find(const struct binadei_exports *exports,
                                   const binade_ipc_handle *handle)
{
    for (size_t i = 0; i < exports->segment_count; i++) {
        struct binadei_export *export = &exports->segments[i];
        if (export->common.segment_id == handle->segment_id &&
            export->common.generation == handle->generation)
            return export;
    }
    return NULL;
}

static bool open_of(struct binadei_exports *exports,
                    const binade_ipc_handle *handle, binade_devptr *out)
{
    pthread_mutex_lock(&exports->lock);
    struct binadei_export *export = find(exports, handle);
    if (export) {
        export->import_count++;
        *out = export->info.memory + handle->offset_bytes;
    }
    pthread_mutex_unlock(&exports->lock);
    return export != NULL;
}

binade_status binadei_exports_open(const binade_ipc_handle *handle,
                                   binade_devptr *out)
{
    bool is_found = false;
    pthread_mutex_lock(&registry_lock);
    for (struct binadei_exports *exports = all; exports && !is_found;
         exports = exports->next)
        is_found = open_of(exports, handle, out);
    pthread_mutex_unlock(&registry_lock);
    return is_found ? BINADE_OK
                    : binadei_fail(BINADE_E_STALE,
                                   "the handle is of this process, which has "
                                   "released that export");
}

/* BINADE_E_FOREIGN: it is not of these. */
static binade_status close_of(struct binadei_exports *exports,
                              binade_devptr address)
{
    binade_status status = BINADE_E_FOREIGN;
    pthread_mutex_lock(&exports->lock);
    struct binadei_export *export = binadei_export_at(exports, address);
    if (export && export->import_count) {
        export->import_count--;
        status = BINADE_OK;
    } else if (export) {
        status = BINADE_E_INVALID;
    }
    pthread_mutex_unlock(&exports->lock);
    return status;
}

binade_status binadei_exports_close(binade_devptr address)
{
    binade_status status = BINADE_E_FOREIGN;
    pthread_mutex_lock(&registry_lock);
    for (struct binadei_exports *exports = all;
         exports && status == BINADE_E_FOREIGN; exports = exports->next)
        status = close_of(exports, address);
    pthread_mutex_unlock(&registry_lock);
    return status;
}
