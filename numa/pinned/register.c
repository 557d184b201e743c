/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "numa/pinned/register.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "numa/pinned/map.h"
#include "pool/base/failure.h"
#include "pool/driver/section.h"

/* Whether the kernel would not lock the region for this process: a limit does not
 * bind a privileged one. */
static bool is_lock_refused(const struct moietyi_region *region)
{
    if (region->pages == MOIETYI_PAGES_DRIVER)
        return false;
    if (mlock(region->base, region->size_bytes) != 0)
        return errno == ENOMEM || errno == EPERM || errno == EAGAIN;
    (void)munlock(region->base, region->size_bytes);
    return false;
}

/* Names a limit that is too low, because the driver does not. */
static moiety_status register_explain(moiety_status status,
                                      const struct moietyi_region *region)
{
    struct rlimit limit;
    if (status != MOIETY_E_NO_PINNED_MEMORY ||
        getrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
        limit.rlim_cur >= region->size_bytes || !is_lock_refused(region))
        return status;
    return moietyi_fail(status,
                        "%s: %zu bytes were to be pinned; RLIMIT_MEMLOCK is "
                        "%" PRIuMAX,
                        moietyi_failure_message(), region->size_bytes,
                        (uintmax_t)limit.rlim_cur);
}

static moiety_status register_pin(const struct moietyi_driver *driver,
                                  struct moietyi_region *region, unsigned flags)
{
    if (region->pages == MOIETYI_PAGES_DRIVER)
        return MOIETYI_CALL(driver, cuMemHostAlloc,
                            (&region->base, region->size_bytes, flags));
    return MOIETYI_CALL(driver, cuMemHostRegister,
                        (region->base, region->size_bytes, flags));
}

static moiety_status pin_and_find(const struct moietyi_driver *driver,
                                  struct moietyi_region *region, unsigned flags)
{
    CUdeviceptr device = 0;
    moiety_status status = register_pin(driver, region, flags);
    region->is_pinned = status == MOIETY_OK;
    if (status != MOIETY_OK)
        return register_explain(status, region);
    status = MOIETYI_CALL(driver, cuMemHostGetDevicePointer,
                          (&device, region->base, 0));
    region->device_address = device;
    return status;
}

static moiety_status pin_in(struct moietyi_context *own_context,
                            struct moietyi_region *region, unsigned flags)
{
    struct moietyi_section section;
    moiety_status status = moietyi_context_enter(own_context, &section);
    if (status != MOIETY_OK)
        return status;
    status = pin_and_find(own_context->driver, region, flags);
    moiety_status left = moietyi_section_leave(&section);
    return status == MOIETY_OK ? left : status;
}

moiety_status moietyi_register(struct moietyi_context *own_context,
                               struct moietyi_region *region, bool is_read_only)
{
    unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    if (is_read_only)
        flags |= CU_MEMHOSTREGISTER_READ_ONLY;
    return pin_in(own_context, region, flags);
}

moiety_status moietyi_allocate_pinned(struct moietyi_context *own_context,
                                      struct moietyi_region *region,
                                      bool is_combined)
{
    unsigned flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
    if (is_combined)
        flags |= CU_MEMHOSTALLOC_WRITECOMBINED;
    return pin_in(own_context, region, flags);
}

static moiety_status register_unpin(const struct moietyi_driver *driver,
                                    const struct moietyi_region *region)
{
    return region->pages == MOIETYI_PAGES_DRIVER
               ? MOIETYI_CALL(driver, cuMemFreeHost, (region->base))
               : MOIETYI_CALL(driver, cuMemHostUnregister, (region->base));
}

static moiety_status unpin_in(struct moietyi_context *own_context,
                              const struct moietyi_region *region)
{
    struct moietyi_section section;
    moiety_status status = moietyi_context_enter(own_context, &section);
    if (status != MOIETY_OK)
        return status;
    status = register_unpin(own_context->driver, region);
    (void)moietyi_section_leave(&section);
    /* Already unregistered: the driver does not have it. */
    return status == MOIETY_E_FOREIGN ? MOIETY_OK : status;
}

moiety_status moietyi_unregister(struct moietyi_context *own_context,
                                 struct moietyi_region *region)
{
    moiety_status status =
        region->is_pinned ? unpin_in(own_context, region) : MOIETY_OK;
    if (status != MOIETY_OK && status != MOIETY_E_CONTEXT_DESTROYED)
        return status;
    bool is_ours = region->pages != MOIETYI_PAGES_DRIVER;
    region->is_pinned = false;
    if (is_ours)
        moietyi_unmap(region);
    region->base = NULL;
    return MOIETY_OK;
}
