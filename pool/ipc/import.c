/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * An import: the short-cut for one's own, the hit, or the opening of a segment.
 */
#include "pool/ipc/import.h"

#include <string.h>

#include "pool/base/failure.h"
#include "pool/ipc/closings.h"
#include "pool/ipc/exports.h"
#include "pool/ipc/handle.h"
#include "pool/ipc/message/mapping.h"
#include "pool/ipc/opener.h"
#include "pool/ipc/openings.h"

static binade_status check_machine(const struct binadei_process *exporter,
                                   const struct binadei_process *self)
{
    if (memcmp(exporter->machine, self->machine, sizeof(self->machine)) == 0)
        return BINADE_OK;
    return binadei_fail(BINADE_E_UNSUPPORTED,
                        "the handle was made on another machine, or before "
                        "this one was booted");
}

/* What came by the fabric, and tickets of it, may be of any machine. */
static bool is_of_one_machine(const binade_ipc_handle *handle,
                              const struct binadei_received *memory)
{
    return handle->kind != BINADE_IPC_MAPPED || (memory && !memory->fabrics);
}

static bool is_own_handle(const binade_ipc_handle *handle,
                          const struct binadei_process *exporter,
                          const struct binadei_process *self)
{
    return binadei_process_is(exporter, self) &&
           (handle->kind != BINADE_IPC_MAPPED ||
            binadei_run_name_of(handle).nonce == binadei_process_nonce());
}

static void fill_exporter(const binade_ipc_handle *handle,
                          struct binadei_process *out)
{
    memcpy(out->machine, handle->machine, sizeof(out->machine));
    out->pid_namespace = handle->pid_namespace;
    out->start_ticks = handle->start_ticks;
    out->pid = handle->pid;
}

/* Gives back what is idle and too much. */
static binade_status give_idle(const struct binadei_driver *driver,
                               uint32_t keep_count)
{
    struct binadei_opening *idle;
    while ((idle = binadei_opening_take_idle(keep_count))) {
        binade_status status = binadei_opener_close(driver, idle);
        binadei_opening_gave(idle, status == BINADE_OK);
        if (status != BINADE_OK)
            return status;
    }
    return BINADE_OK;
}

/* The segment's address; a failed call has left nothing behind. */
static binade_status open_fresh(const struct binadei_driver *driver,
                                struct binadei_opening *opening,
                                const binade_ipc_handle *handle,
                                const struct binadei_received *memory,
                                struct binadei_importer *importer,
                                binade_devptr *out_address)
{
    *out_address = 0;
    binade_status status =
        binadei_opener_open(driver, opening, handle, memory, out_address);
    binadei_opening_end(opening, importer, *out_address);
    if (status == BINADE_OK)
        /* What is refused stays idle, and is tried again. */
        (void)give_idle(driver, BINADE_IPC_IDLE_MAX);
    return status;
}

static binade_status import_refuse(enum binadei_opening_found found)
{
    switch (found) {
    case BINADEI_OPENING_STALE:
        return binadei_fail(BINADE_E_STALE,
                            "the exporter has released that export, and made "
                            "another since");
    case BINADEI_OPENING_IN_USE:
        return binadei_fail(BINADE_E_STALE,
                            "a segment that was at the same place in the "
                            "exporter before is still imported here");
    case BINADEI_OPENING_CORRUPT:
        return binadei_fail(BINADE_E_CORRUPT,
                            "the handle contradicts another of the segment");
    default:
        return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                            "no memory to note an import");
    }
}

static binade_status find_segment(const struct binadei_driver *driver,
                                  const struct binadei_opening_key *key,
                                  const binade_ipc_handle *handle,
                                  const struct binadei_received *memory,
                                  struct binadei_importer *importer,
                                  binade_devptr *out_address)
{
    for (;;) {
        struct binadei_opening *opening = NULL;
        enum binadei_opening_found found =
            binadei_opening_find(key, handle, importer, &opening, out_address);
        if (found == BINADEI_OPENING_HIT)
            return BINADE_OK;
        if (found == BINADEI_OPENING_FRESH)
            return open_fresh(driver, opening, handle, memory, importer,
                              out_address);
        if (found != BINADEI_OPENING_OLD)
            return import_refuse(found);
        binade_status status = binadei_opener_close(driver, opening);
        binadei_opening_gave(opening, status == BINADE_OK);
        if (status != BINADE_OK)
            return status;
    }
}

static binade_status import_foreign(const struct binadei_driver *driver,
                                    const binade_ipc_handle *handle,
                                    const struct binadei_received *memory,
                                    const struct binadei_process *exporter,
                                    CUcontext context, binade_devptr *out)
{
    struct binadei_opening_key key = {.segment_id = handle->segment_id,
                                      .exporter = *exporter};
    struct binadei_importer importer;
    binade_devptr address;
    binade_status status =
        binadei_opener_context(driver, handle, context, &importer);
    if (status != BINADE_OK)
        return status;
    key.context_id = importer.id;
    if (handle->kind == BINADE_IPC_MAPPED)
        key.run = binadei_run_name_of(handle).sum;
    status = find_segment(driver, &key, handle, memory, &importer, &address);
    /* What no opening took over: the segment has it, or is not open. */
    binadei_opener_release(driver, &importer);
    if (status == BINADE_OK)
        *out = address + handle->offset_bytes;
    return status;
}

binade_status binadei_import(const struct binadei_driver *driver,
                             const binade_ipc_handle *handle,
                             const struct binadei_received *memory,
                             CUcontext context, binade_devptr *out)
{
    const struct binadei_process *self;
    struct binadei_process exporter;
    if (handle->kind == BINADE_IPC_MAPPED
            ? !binadei_mapping_is_possible(driver)
            : !driver->cuIpcOpenMemHandle || !driver->cuIpcCloseMemHandle)
        return binadei_fail(BINADE_E_UNSUPPORTED,
                            "the driver cannot import memory");
    binade_status status = binadei_process_self(&self);
    if (status != BINADE_OK)
        return status;
    fill_exporter(handle, &exporter);
    if (is_of_one_machine(handle, memory))
        status = check_machine(&exporter, self);
    if (status != BINADE_OK)
        return status;
    if (is_own_handle(handle, &exporter, self))
        return binadei_exports_open(handle, out);
    return import_foreign(driver, handle, memory, &exporter, context, out);
}

binade_status binadei_import_received(const struct binadei_driver *driver,
                                      int socket, CUcontext context,
                                      binade_ipc_handle *out_handle,
                                      binade_devptr *out)
{
    struct binadei_received received;
    binade_status status = binadei_channel_receive(socket, &received);
    if (status != BINADE_OK)
        return status;
    /* Not before: what is refused does not stay on its way. */
    if (context)
        status = binadei_context_check(driver, context);
    if (status == BINADE_OK)
        status =
            binadei_import(driver, &received.handle,
                           received.count ? &received : NULL, context, out);
    if (status == BINADE_OK && out_handle)
        *out_handle = received.handle;
    binadei_received_fini(&received);
    return status;
}

binade_status binadei_import_trim(const struct binadei_driver *driver,
                                  uint32_t keep_count, uint32_t *out_open)
{
    binade_status status = binadei_closings_poll(driver);
    if (status == BINADE_OK)
        status = give_idle(driver, keep_count);
    *out_open = binadei_opening_count();
    return status;
}
