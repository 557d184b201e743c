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

static moiety_status check_machine(const struct moietyi_process *exporter,
                                   const struct moietyi_process *self)
{
    if (memcmp(exporter->machine, self->machine, sizeof(self->machine)) == 0)
        return MOIETY_OK;
    return moietyi_fail(MOIETY_E_UNSUPPORTED,
                        "the handle was made on another machine, or before "
                        "this one was booted");
}

/* Memory that came by the fabric, and its tickets, may be of any machine. */
static bool is_of_one_machine(const moiety_ipc_handle *handle,
                              const struct moietyi_received *memory)
{
    return handle->kind != MOIETY_IPC_MAPPED || (memory && !memory->fabrics);
}

static bool is_own_handle(const moiety_ipc_handle *handle,
                          const struct moietyi_process *exporter,
                          const struct moietyi_process *self)
{
    return moietyi_process_is(exporter, self) &&
           (handle->kind != MOIETY_IPC_MAPPED ||
            moietyi_run_name_of(handle).nonce == moietyi_process_nonce());
}

static void fill_exporter(const moiety_ipc_handle *handle,
                          struct moietyi_process *out)
{
    memcpy(out->machine, handle->machine, sizeof(out->machine));
    out->pid_namespace = handle->pid_namespace;
    out->start_ticks = handle->start_ticks;
    out->pid = handle->pid;
}

/* Gives back what is idle and too much. */
static moiety_status give_idle(const struct moietyi_driver *driver,
                               uint32_t keep_count)
{
    struct moietyi_opening *idle;
    while ((idle = moietyi_opening_take_idle(keep_count))) {
        moiety_status status = moietyi_opener_close(driver, idle);
        moietyi_opening_gave(idle, status == MOIETY_OK);
        if (status != MOIETY_OK)
            return status;
    }
    return MOIETY_OK;
}

/* The segment's address; a failed call has left nothing behind. */
static moiety_status open_fresh(const struct moietyi_driver *driver,
                                struct moietyi_opening *opening,
                                const moiety_ipc_handle *handle,
                                const struct moietyi_received *memory,
                                struct moietyi_importer *importer,
                                moiety_devptr *out_address)
{
    *out_address = 0;
    moiety_status status =
        moietyi_opener_open(driver, opening, handle, memory, out_address);
    moietyi_opening_end(opening, importer, *out_address);
    if (status == MOIETY_OK)
        /* Refused ones stay idle, and are tried again. */
        (void)give_idle(driver, MOIETY_IPC_IDLE_MAX);
    return status;
}

static moiety_status import_refuse(enum moietyi_opening_found found)
{
    switch (found) {
    case MOIETYI_OPENING_STALE:
        return moietyi_fail(MOIETY_E_STALE,
                            "the exporter has released that export, and made "
                            "another since");
    case MOIETYI_OPENING_IN_USE:
        return moietyi_fail(MOIETY_E_STALE,
                            "a segment that was at the same place in the "
                            "exporter before is still imported here");
    case MOIETYI_OPENING_CORRUPT:
        return moietyi_fail(MOIETY_E_CORRUPT,
                            "the handle contradicts another of the segment");
    default:
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory to note an import");
    }
}

static moiety_status find_segment(const struct moietyi_driver *driver,
                                  const struct moietyi_opening_key *key,
                                  const moiety_ipc_handle *handle,
                                  const struct moietyi_received *memory,
                                  struct moietyi_importer *importer,
                                  moiety_devptr *out_address)
{
    for (;;) {
        struct moietyi_opening *opening = NULL;
        enum moietyi_opening_found found =
            moietyi_opening_find(key, handle, importer, &opening, out_address);
        if (found == MOIETYI_OPENING_HIT)
            return MOIETY_OK;
        if (found == MOIETYI_OPENING_FRESH)
            return open_fresh(driver, opening, handle, memory, importer,
                              out_address);
        if (found != MOIETYI_OPENING_OLD)
            return import_refuse(found);
        moiety_status status = moietyi_opener_close(driver, opening);
        moietyi_opening_gave(opening, status == MOIETY_OK);
        if (status != MOIETY_OK)
            return status;
    }
}

static moiety_status import_foreign(const struct moietyi_driver *driver,
                                    const moiety_ipc_handle *handle,
                                    const struct moietyi_received *memory,
                                    const struct moietyi_process *exporter,
                                    CUcontext context, moiety_devptr *out)
{
    struct moietyi_opening_key key = {.segment_id = handle->segment_id,
                                      .exporter = *exporter};
    struct moietyi_importer importer;
    moiety_devptr address;
    moiety_status status =
        moietyi_opener_context(driver, handle, context, &importer);
    if (status != MOIETY_OK)
        return status;
    key.context_id = importer.id;
    if (handle->kind == MOIETY_IPC_MAPPED)
        key.run = moietyi_run_name_of(handle).sum;
    status = find_segment(driver, &key, handle, memory, &importer, &address);
    /* What no opening took over: the segment has it, or is not open. */
    moietyi_opener_release(driver, &importer);
    if (status == MOIETY_OK)
        *out = address + handle->offset_bytes;
    return status;
}

moiety_status moietyi_import(const struct moietyi_driver *driver,
                             const moiety_ipc_handle *handle,
                             const struct moietyi_received *memory,
                             CUcontext context, moiety_devptr *out)
{
    const struct moietyi_process *self;
    struct moietyi_process exporter;
    if (handle->kind == MOIETY_IPC_MAPPED
            ? !moietyi_mapping_is_possible(driver)
            : !driver->cuIpcOpenMemHandle || !driver->cuIpcCloseMemHandle)
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "the driver cannot import memory");
    moiety_status status = moietyi_process_self(&self);
    if (status != MOIETY_OK)
        return status;
    fill_exporter(handle, &exporter);
    if (is_of_one_machine(handle, memory))
        status = check_machine(&exporter, self);
    if (status != MOIETY_OK)
        return status;
    if (is_own_handle(handle, &exporter, self))
        return moietyi_exports_open(handle, out);
    return import_foreign(driver, handle, memory, &exporter, context, out);
}

moiety_status moietyi_import_received(const struct moietyi_driver *driver,
                                      int socket, CUcontext context,
                                      moiety_ipc_handle *out_handle,
                                      moiety_devptr *out)
{
    struct moietyi_received received;
    moiety_status status = moietyi_channel_receive(socket, &received);
    if (status != MOIETY_OK)
        return status;
    /* Not before: what is refused does not stay on its way. */
    if (context)
        status = moietyi_context_check(driver, context);
    if (status == MOIETY_OK)
        status =
            moietyi_import(driver, &received.handle,
                           received.count ? &received : NULL, context, out);
    if (status == MOIETY_OK && out_handle)
        *out_handle = received.handle;
    moietyi_received_fini(&received);
    return status;
}

moiety_status moietyi_import_trim(const struct moietyi_driver *driver,
                                  uint32_t keep_count, uint32_t *out_open)
{
    moiety_status status = moietyi_closings_poll(driver);
    if (status == MOIETY_OK)
        status = give_idle(driver, keep_count);
    *out_open = moietyi_opening_count();
    return status;
}
