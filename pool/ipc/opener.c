/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The driver opens a segment only for a process that is not its owner, on a
 * device that can reach it. What stands in the way is looked for first, so that
 * the status says it: the driver has one code for most of it.
 */
#include "pool/ipc/opener.h"

#include <stdatomic.h>
#include <string.h>

#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/driver/context.h"
#include "pool/driver/probe.h"
#include "pool/ipc/message/mapping.h"

bool moietyi_opener_is_gone(moiety_status status)
{
    return status == MOIETY_E_CONTEXT_DESTROYED ||
           status == MOIETY_E_DEINITIALIZED;
}

/* The device of this process that has the uuid. */
static moiety_status opener_find_device(const struct moietyi_driver *driver,
                                        const uint8_t *uuid, CUdevice *out)
{
    int count = 0;
    CUuuid found;
    moiety_status status = MOIETYI_CALL(driver, cuDeviceGetCount, (&count));
    for (int i = 0; i < count && status == MOIETY_OK; i++) {
        status = MOIETYI_CALL(driver, cuDeviceGet, (out, i));
        if (status == MOIETY_OK)
            status = MOIETYI_CALL(driver, cuDeviceGetUuid, (&found, *out));
        if (status == MOIETY_OK &&
            memcmp(found.bytes, uuid, sizeof(found.bytes)) == 0)
            return MOIETY_OK;
    }
    if (status != MOIETY_OK)
        return status;
    return moietyi_fail(MOIETY_E_NO_DEVICE,
                        "the memory is on a device that is not among the %d of "
                        "this process",
                        count);
}

static moiety_status retain_primary(const struct moietyi_driver *driver,
                                    const moiety_ipc_handle *handle,
                                    struct moietyi_importer *out)
{
    struct moietyi_section section;
    moiety_status status = moietyi_section_enter(driver, NULL, &section);
    if (status != MOIETY_OK)
        return status;
    status = opener_find_device(driver, handle->device_uuid, &out->device);
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(driver, cuDevicePrimaryCtxRetain,
                              (&out->context, out->device));
    out->has_primary = status == MOIETY_OK;
    (void)moietyi_section_leave(&section);
    return status;
}

static moiety_status opener_identify(const struct moietyi_driver *driver,
                                     struct moietyi_importer *importer)
{
    unsigned long long id = (uintptr_t)importer->context;
    moiety_status status =
        driver->cuCtxGetId
            ? MOIETYI_CALL(driver, cuCtxGetId, (importer->context, &id))
            : MOIETY_OK;
    importer->id = id;
    return status;
}

moiety_status moietyi_opener_context(const struct moietyi_driver *driver,
                                     const moiety_ipc_handle *handle,
                                     CUcontext context,
                                     struct moietyi_importer *out)
{
    moiety_status status = MOIETY_OK;
    *out = (struct moietyi_importer){.context = context};
    if (!out->context)
        status = MOIETYI_CALL(driver, cuCtxGetCurrent, (&out->context));
    if (status == MOIETY_OK && !out->context)
        status = retain_primary(driver, handle, out);
    if (status != MOIETY_OK)
        return status;
    status = opener_identify(driver, out);
    if (status != MOIETY_OK)
        moietyi_opener_release(driver, out);
    return status;
}

/* A driver that refuses may report earlier work, and have released the context:
 * a second release would take another user's reference. */
void moietyi_opener_release(const struct moietyi_driver *driver,
                            const struct moietyi_importer *importer)
{
    if (importer->has_primary)
        (void)driver->cuDevicePrimaryCtxRelease(importer->device);
}

/* A driver may crash where a context is entered that was destroyed. */
moiety_status moietyi_opener_enter(const struct moietyi_driver *driver,
                                   const struct moietyi_opening *opening,
                                   struct moietyi_section *out)
{
    const struct moietyi_importer *importer = &opening->importer;
    /* The section refuses in a child, and says so. */
    moiety_status status =
        moietyi_is_forked()
            ? MOIETY_OK
            : moietyi_context_ask(driver, importer->context, importer->id);
    if (status != MOIETY_OK)
        return moietyi_fail(status, "the context of the import is gone, and "
                                    "the import with it");
    return moietyi_section_enter(driver, importer->context, out);
}

/* In the section of the importing context. */
static moiety_status opener_check_device(const struct moietyi_driver *driver,
                                         const moiety_ipc_handle *handle)
{
    CUdevice device = 0;
    CUdevice own = 0;
    int can_access = 0;
    moiety_status status =
        opener_find_device(driver, handle->device_uuid, &device);
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(driver, cuCtxGetDevice, (&own));
    if (status != MOIETY_OK || own == device)
        return status;
    status =
        MOIETYI_CALL(driver, cuDeviceCanAccessPeer, (&can_access, own, device));
    if (status == MOIETY_OK && !can_access)
        return moietyi_no_access(driver, (int)own, (int)device);
    return status;
}

/* Edge: none; relaxed: words of a message hang on it. The driver has opened a
 * segment: it opens those that are there. */
static atomic_bool has_opened;

/* The driver has one code for what was given back and, on WSL2 and behind some
 * libraries, for any segment. */
static const char *why_not(enum moietyi_process_state state)
{
    /* relaxed: see above. */
    if (!atomic_load_explicit(&has_opened, memory_order_relaxed))
        return "has given it back or has ended, or the driver opens no memory "
               "of other processes, as on WSL2: it has opened none so far";
    return state == MOIETYI_PROCESS_LIVES
               ? "has given it back"
               : "of another pid namespace has given it back, or has ended, or "
                 "is out of reach";
}

static bool is_stale(void)
{
    moiety_driver_error error = {.struct_size = sizeof(error)};
    return moiety_last_driver_error(&error) == MOIETY_OK &&
           error.code == CUDA_ERROR_INVALID_VALUE;
}

static moiety_status opener_explain(const struct moietyi_opening *opening,
                                    moiety_status status)
{
    enum moietyi_process_state state =
        moietyi_process_state(&opening->key.exporter);
    if (state == MOIETYI_PROCESS_GONE) {
        return moietyi_fail(MOIETY_E_PEER_GONE,
                            "process %llu, which exported the memory, has "
                            "ended",
                            (unsigned long long)opening->key.exporter.pid);
    }
    if (status != MOIETY_E_INVALID || !is_stale())
        return status;
    return moietyi_fail(MOIETY_E_STALE,
                        "the driver does not open the segment: process %llu "
                        "%s",
                        (unsigned long long)opening->key.exporter.pid,
                        why_not(state));
}

static bool opener_is_mapped(const struct moietyi_driver *driver,
                             CUdeviceptr address)
{
    CUdeviceptr base = 0;
    size_t size_bytes = 0;
    return driver->cuMemGetAddressRange(&base, &size_bytes, address) ==
               CUDA_SUCCESS &&
           base == address;
}

/* A close that fails may have closed it all the same: another thread may have
 * opened something there since. */
static void opener_close_at(const struct moietyi_driver *driver,
                            CUdeviceptr address)
{
    CUresult code = driver->cuIpcCloseMemHandle(address);
    for (int i = 1; i < MOIETYI_UNDO_TRIES && code != CUDA_SUCCESS &&
                    opener_is_mapped(driver, address);
         i++)
        code = driver->cuIpcCloseMemHandle(address);
}

/* No access past the end of the opened segment, for any handle. */
static moiety_status opener_check_size(const struct moietyi_driver *driver,
                                       const moiety_ipc_handle *handle,
                                       CUdeviceptr address)
{
    CUdeviceptr base = 0;
    size_t size_bytes = 0;
    moiety_status status = MOIETYI_CALL(driver, cuMemGetAddressRange,
                                        (&base, &size_bytes, address));
    if (status != MOIETY_OK ||
        (base == address && size_bytes == handle->segment_bytes))
        return status;
    return moietyi_fail(MOIETY_E_CORRUPT,
                        "the handle speaks of a segment of %llu bytes, the "
                        "driver of %zu",
                        (unsigned long long)handle->segment_bytes, size_bytes);
}

/* In the section. */
static moiety_status open_in(const struct moietyi_driver *driver,
                             const struct moietyi_opening *opening,
                             const moiety_ipc_handle *handle, CUdeviceptr *out)
{
    CUipcMemHandle driver_handle;
    memcpy(driver_handle.reserved, handle->driver_handle,
           sizeof(driver_handle.reserved));
    moiety_status status = opener_check_device(driver, handle);
    if (status != MOIETY_OK)
        return status;
    status =
        MOIETYI_CALL(driver, cuIpcOpenMemHandle,
                     (out, driver_handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    if (status != MOIETY_OK)
        return opener_explain(opening, status);
    /* relaxed: see above. */
    atomic_store_explicit(&has_opened, true, memory_order_relaxed);
    status = opener_check_size(driver, handle, *out);
    if (status != MOIETY_OK)
        opener_close_at(driver, *out);
    return status;
}

/* The descriptors are the memory: the exporter may be gone. Memory that comes
 * by the fabric may be of a device that no process of this machine has. */
static moiety_status map_in(const struct moietyi_driver *driver,
                            const moiety_ipc_handle *handle,
                            const struct moietyi_received *memory,
                            CUdeviceptr *out)
{
    moiety_status status =
        memory->fabrics ? MOIETY_OK : opener_check_device(driver, handle);
    return status == MOIETY_OK ? moietyi_mapping_open(driver, memory, out)
                               : status;
}

static moiety_status opener_map(const struct moietyi_driver *driver,
                                const struct moietyi_opening *opening,
                                const moiety_ipc_handle *handle,
                                const struct moietyi_received *memory,
                                moiety_devptr *out)
{
    struct moietyi_section section;
    CUdeviceptr address = 0;
    if (!memory) {
        return moietyi_fail(MOIETY_E_STALE,
                            "this process has not received the memory that the "
                            "ticket names, or has given it back: the owner "
                            "sends it by moiety_ipc_send()");
    }
    moiety_status status = moietyi_opener_enter(driver, opening, &section);
    if (status != MOIETY_OK)
        return status;
    status = map_in(driver, handle, memory, &address);
    (void)moietyi_section_leave(&section);
    if (status == MOIETY_OK)
        *out = address;
    return status;
}

moiety_status moietyi_opener_open(const struct moietyi_driver *driver,
                                  const struct moietyi_opening *opening,
                                  const moiety_ipc_handle *handle,
                                  const struct moietyi_received *memory,
                                  moiety_devptr *out)
{
    struct moietyi_section section;
    CUdeviceptr address = 0;
    if (opening->key.run)
        return opener_map(driver, opening, handle, memory, out);
    if (moietyi_process_state(&opening->key.exporter) == MOIETYI_PROCESS_GONE)
        return opener_explain(opening, MOIETY_E_PEER_GONE);
    moiety_status status = moietyi_opener_enter(driver, opening, &section);
    if (status != MOIETY_OK)
        return status;
    status = open_in(driver, opening, handle, &address);
    (void)moietyi_section_leave(&section);
    if (status == MOIETY_OK)
        *out = address;
    return status;
}

/* A mapping is no context's: it stays when the context goes. */
static moiety_status opener_unmap(const struct moietyi_driver *driver,
                                  const struct moietyi_opening *opening)
{
    struct moietyi_section section;
    moiety_status status = moietyi_section_enter(driver, NULL, &section);
    if (status != MOIETY_OK)
        return status;
    status =
        moietyi_mapping_close(driver, opening->address, opening->segment_bytes);
    (void)moietyi_section_leave(&section);
    if (status == MOIETY_OK &&
        moietyi_context_ask(driver, opening->importer.context,
                            opening->importer.id) == MOIETY_OK)
        moietyi_opener_release(driver, &opening->importer);
    return moietyi_opener_is_gone(status) ? MOIETY_OK : status;
}

moiety_status moietyi_opener_close(const struct moietyi_driver *driver,
                                   const struct moietyi_opening *opening)
{
    struct moietyi_section section;
    if (opening->key.run)
        return opener_unmap(driver, opening);
    moiety_status status = moietyi_opener_enter(driver, opening, &section);
    if (status == MOIETY_OK) {
        status = MOIETYI_CALL(driver, cuIpcCloseMemHandle,
                              ((CUdeviceptr)opening->address));
        (void)moietyi_section_leave(&section);
    }
    /* A context that was reset is not ours to release any more. */
    if (status == MOIETY_OK)
        moietyi_opener_release(driver, &opening->importer);
    return moietyi_opener_is_gone(status) ? MOIETY_OK : status;
}
