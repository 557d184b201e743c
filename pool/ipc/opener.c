/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The driver opens a segment only for a process that is not its owner, on a
 * device that can reach it. What stands in the way is looked for first, so that
 * the status says it: the driver has one code for most of it.
 */
#include "pool/ipc/opener.h"

#include <string.h>

#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/driver/context.h"
#include "pool/ipc/message/mapping.h"

bool binadei_opener_is_gone(binade_status status)
{
    return status == BINADE_E_CONTEXT_DESTROYED ||
           status == BINADE_E_DEINITIALIZED;
}

/* The device of this process that has the uuid. */
static binade_status opener_find_device(const struct binadei_driver *driver,
                                        const uint8_t *uuid, CUdevice *out)
{
    int count = 0;
    CUuuid found;
    binade_status status = BINADEI_CALL(driver, cuDeviceGetCount, (&count));
    for (int i = 0; i < count && status == BINADE_OK; i++) {
        status = BINADEI_CALL(driver, cuDeviceGet, (out, i));
        if (status == BINADE_OK)
            status = BINADEI_CALL(driver, cuDeviceGetUuid, (&found, *out));
        if (status == BINADE_OK &&
            memcmp(found.bytes, uuid, sizeof(found.bytes)) == 0)
            return BINADE_OK;
    }
    if (status != BINADE_OK)
        return status;
    return binadei_fail(BINADE_E_NO_DEVICE,
                        "the memory is on a device that is not among the %d of "
                        "this process",
                        count);
}

static binade_status retain_primary(const struct binadei_driver *driver,
                                    const binade_ipc_handle *handle,
                                    struct binadei_importer *out)
{
    struct binadei_section section;
    binade_status status = binadei_section_enter(driver, NULL, &section);
    if (status != BINADE_OK)
        return status;
    status = opener_find_device(driver, handle->device_uuid, &out->device);
    if (status == BINADE_OK)
        status = BINADEI_CALL(driver, cuDevicePrimaryCtxRetain,
                              (&out->context, out->device));
    out->has_primary = status == BINADE_OK;
    (void)binadei_section_leave(&section);
    return status;
}

static binade_status opener_identify(const struct binadei_driver *driver,
                                     struct binadei_importer *importer)
{
    unsigned long long id = (uintptr_t)importer->context;
    binade_status status =
        driver->cuCtxGetId
            ? BINADEI_CALL(driver, cuCtxGetId, (importer->context, &id))
            : BINADE_OK;
    importer->id = id;
    return status;
}

binade_status binadei_opener_context(const struct binadei_driver *driver,
                                     const binade_ipc_handle *handle,
                                     CUcontext context,
                                     struct binadei_importer *out)
{
    binade_status status = BINADE_OK;
    *out = (struct binadei_importer){.context = context};
    if (!out->context)
        status = BINADEI_CALL(driver, cuCtxGetCurrent, (&out->context));
    if (status == BINADE_OK && !out->context)
        status = retain_primary(driver, handle, out);
    if (status != BINADE_OK)
        return status;
    status = opener_identify(driver, out);
    if (status != BINADE_OK)
        binadei_opener_release(driver, out);
    return status;
}

void binadei_opener_release(const struct binadei_driver *driver,
                            const struct binadei_importer *importer)
{
    /* Nobody would try again later. */
    if (importer->has_primary &&
        driver->cuDevicePrimaryCtxRelease(importer->device) != CUDA_SUCCESS)
        (void)driver->cuDevicePrimaryCtxRelease(importer->device);
}

/* A driver may crash where a context is entered that was destroyed. */
binade_status binadei_opener_enter(const struct binadei_driver *driver,
                                   const struct binadei_opening *opening,
                                   struct binadei_section *out)
{
    const struct binadei_importer *importer = &opening->importer;
    /* The section refuses in a child, and says so. */
    binade_status status =
        binadei_is_forked()
            ? BINADE_OK
            : binadei_context_ask(driver, importer->context, importer->id);
    if (status != BINADE_OK)
        return binadei_fail(status, "the context of the import is gone, and "
                                    "the import with it");
    return binadei_section_enter(driver, importer->context, out);
}

/* In the section of the importing context. */
static binade_status opener_check_device(const struct binadei_driver *driver,
                                         const binade_ipc_handle *handle)
{
    CUdevice device = 0;
    CUdevice own = 0;
    int can_access = 0;
    binade_status status =
        opener_find_device(driver, handle->device_uuid, &device);
    if (status == BINADE_OK)
        status = BINADEI_CALL(driver, cuCtxGetDevice, (&own));
    if (status != BINADE_OK || own == device)
        return status;
    status =
        BINADEI_CALL(driver, cuDeviceCanAccessPeer, (&can_access, own, device));
    if (status == BINADE_OK && !can_access)
        return binadei_fail(BINADE_E_UNSUPPORTED,
                            "device %d cannot access the memory of device %d",
                            (int)own, (int)device);
    return status;
}

static binade_status opener_explain(const struct binadei_opening *opening,
                                    binade_status status)
{
    enum binadei_process_state state =
        binadei_process_state(&opening->key.exporter);
    if (state == BINADEI_PROCESS_GONE) {
        return binadei_fail(BINADE_E_PEER_GONE,
                            "process %llu, which exported the memory, has "
                            "ended",
                            (unsigned long long)opening->key.exporter.pid);
    }
    if (status != BINADE_E_INVALID)
        return status;
    return binadei_fail(BINADE_E_STALE,
                        "the driver does not open the segment: process %llu "
                        "%s",
                        (unsigned long long)opening->key.exporter.pid,
                        state == BINADEI_PROCESS_LIVES
                            ? "has given it back"
                            : "of another pid namespace has given it back, or "
                              "has ended, or is out of reach");
}

static CUresult opener_close_at(const struct binadei_driver *driver,
                                binade_devptr address)
{
    CUresult code = driver->cuIpcCloseMemHandle((CUdeviceptr)address);
    /* Nobody would try again later. */
    return code == CUDA_SUCCESS
               ? code
               : driver->cuIpcCloseMemHandle((CUdeviceptr)address);
}

/* No access past the end of what was opened, whatever the handle says. */
static binade_status opener_check_size(const struct binadei_driver *driver,
                                       const binade_ipc_handle *handle,
                                       CUdeviceptr address)
{
    CUdeviceptr base = 0;
    size_t size_bytes = 0;
    binade_status status = BINADEI_CALL(driver, cuMemGetAddressRange,
                                        (&base, &size_bytes, address));
    if (status != BINADE_OK ||
        (base == address && size_bytes == handle->segment_bytes))
        return status;
    return binadei_fail(BINADE_E_CORRUPT,
                        "the handle speaks of a segment of %llu bytes, the "
                        "driver of %zu",
                        (unsigned long long)handle->segment_bytes, size_bytes);
}

/* In the section. */
static binade_status open_in(const struct binadei_driver *driver,
                             const struct binadei_opening *opening,
                             const binade_ipc_handle *handle, CUdeviceptr *out)
{
    CUipcMemHandle driver_handle;
    memcpy(driver_handle.reserved, handle->driver_handle,
           sizeof(driver_handle.reserved));
    binade_status status = opener_check_device(driver, handle);
    if (status != BINADE_OK)
        return status;
    status =
        BINADEI_CALL(driver, cuIpcOpenMemHandle,
                     (out, driver_handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    if (status != BINADE_OK)
        return opener_explain(opening, status);
    status = opener_check_size(driver, handle, *out);
    if (status != BINADE_OK)
        (void)opener_close_at(driver, *out);
    return status;
}

/* The descriptors are the memory: the exporter may be gone. What comes by the
 * fabric may be of a device that no process of this machine has. */
static binade_status map_in(const struct binadei_driver *driver,
                            const binade_ipc_handle *handle,
                            const struct binadei_received *memory,
                            CUdeviceptr *out)
{
    binade_status status =
        memory->fabrics ? BINADE_OK : opener_check_device(driver, handle);
    return status == BINADE_OK ? binadei_mapping_open(driver, memory, out)
                               : status;
}

static binade_status opener_map(const struct binadei_driver *driver,
                                const struct binadei_opening *opening,
                                const binade_ipc_handle *handle,
                                const struct binadei_received *memory,
                                binade_devptr *out)
{
    struct binadei_section section;
    CUdeviceptr address = 0;
    if (!memory) {
        return binadei_fail(BINADE_E_STALE,
                            "this process has not received the memory that the "
                            "ticket names, or has given it back: the owner "
                            "sends it by binade_ipc_send()");
    }
    binade_status status = binadei_opener_enter(driver, opening, &section);
    if (status != BINADE_OK)
        return status;
    status = map_in(driver, handle, memory, &address);
    (void)binadei_section_leave(&section);
    if (status == BINADE_OK)
        *out = address;
    return status;
}

binade_status binadei_opener_open(const struct binadei_driver *driver,
                                  const struct binadei_opening *opening,
                                  const binade_ipc_handle *handle,
                                  const struct binadei_received *memory,
                                  binade_devptr *out)
{
    struct binadei_section section;
    CUdeviceptr address = 0;
    if (opening->key.run)
        return opener_map(driver, opening, handle, memory, out);
    if (binadei_process_state(&opening->key.exporter) == BINADEI_PROCESS_GONE)
        return opener_explain(opening, BINADE_E_PEER_GONE);
    binade_status status = binadei_opener_enter(driver, opening, &section);
    if (status != BINADE_OK)
        return status;
    status = open_in(driver, opening, handle, &address);
    (void)binadei_section_leave(&section);
    if (status == BINADE_OK)
        *out = address;
    return status;
}

/* A mapping is no context's: it stays when the context goes. */
static binade_status opener_unmap(const struct binadei_driver *driver,
                                  const struct binadei_opening *opening)
{
    struct binadei_section section;
    binade_status status = binadei_section_enter(driver, NULL, &section);
    if (status != BINADE_OK)
        return status;
    status =
        binadei_mapping_close(driver, opening->address, opening->segment_bytes);
    (void)binadei_section_leave(&section);
    if (status == BINADE_OK &&
        binadei_context_ask(driver, opening->importer.context,
                            opening->importer.id) == BINADE_OK)
        binadei_opener_release(driver, &opening->importer);
    return binadei_opener_is_gone(status) ? BINADE_OK : status;
}

binade_status binadei_opener_close(const struct binadei_driver *driver,
                                   const struct binadei_opening *opening)
{
    struct binadei_section section;
    if (opening->key.run)
        return opener_unmap(driver, opening);
    binade_status status = binadei_opener_enter(driver, opening, &section);
    if (status == BINADE_OK) {
        status = BINADEI_CALL(driver, cuIpcCloseMemHandle,
                              ((CUdeviceptr)opening->address));
        (void)binadei_section_leave(&section);
    }
    /* A context that was reset is not ours to release any more. */
    if (status == BINADE_OK)
        binadei_opener_release(driver, &opening->importer);
    return binadei_opener_is_gone(status) ? BINADE_OK : status;
}
