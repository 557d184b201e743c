/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "numa/pinned/register.h"

#include <inttypes.h>
#include <sys/resource.h>

#include "numa/pinned/map.h"
#include "pool/base/failure.h"
#include "pool/driver/section.h"

/* A limit that is in the way is worth a word: the driver does not say it. */
static binade_status register_explain(binade_status status, size_t size_bytes)
{
    struct rlimit limit;
    if (status != BINADE_E_NO_PINNED_MEMORY ||
        getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur >= size_bytes)
        return status;
    return binadei_fail(status,
                        "%s: %zu bytes were to be pinned; RLIMIT_MEMLOCK is "
                        "%" PRIuMAX,
                        binadei_failure_message(), size_bytes,
                        (uintmax_t)limit.rlim_cur);
}

static binade_status register_pin(const struct binadei_driver *driver,
                                  struct binadei_region *region, unsigned flags)
{
    if (region->pages == BINADEI_PAGES_DRIVER)
        return BINADEI_CALL(driver, cuMemHostAlloc,
                            (&region->base, region->size_bytes, flags));
    return BINADEI_CALL(driver, cuMemHostRegister,
                        (region->base, region->size_bytes, flags));
}

static binade_status pin_and_find(const struct binadei_driver *driver,
                                  struct binadei_region *region, unsigned flags)
{
    CUdeviceptr device = 0;
    binade_status status = register_pin(driver, region, flags);
    region->is_pinned = status == BINADE_OK;
    if (status != BINADE_OK)
        return register_explain(status, region->size_bytes);
    status = BINADEI_CALL(driver, cuMemHostGetDevicePointer,
                          (&device, region->base, 0));
    region->device_address = device;
    return status;
}

static binade_status pin_in(struct binadei_context *own_context,
                            struct binadei_region *region, unsigned flags)
{
    struct binadei_section section;
    binade_status status = binadei_context_enter(own_context, &section);
    if (status != BINADE_OK)
        return status;
    status = pin_and_find(own_context->driver, region, flags);
    binade_status left = binadei_section_leave(&section);
    return status == BINADE_OK ? left : status;
}

binade_status binadei_register(struct binadei_context *own_context,
                               struct binadei_region *region, bool is_read_only)
{
    unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    if (is_read_only)
        flags |= CU_MEMHOSTREGISTER_READ_ONLY;
    return pin_in(own_context, region, flags);
}

binade_status binadei_register_combined(struct binadei_context *own_context,
                                        struct binadei_region *region)
{
    return pin_in(own_context, region,
                  CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
                      CU_MEMHOSTALLOC_WRITECOMBINED);
}

static binade_status register_unpin(const struct binadei_driver *driver,
                                    const struct binadei_region *region)
{
    return region->pages == BINADEI_PAGES_DRIVER
               ? BINADEI_CALL(driver, cuMemFreeHost, (region->base))
               : BINADEI_CALL(driver, cuMemHostUnregister, (region->base));
}

static binade_status unpin_in(struct binadei_context *own_context,
                              const struct binadei_region *region)
{
    struct binadei_section section;
    binade_status status = binadei_context_enter(own_context, &section);
    if (status != BINADE_OK)
        return status;
    status = register_unpin(own_context->driver, region);
    (void)binadei_section_leave(&section);
    /* Somebody was faster: the driver does not have it. */
    return status == BINADE_E_FOREIGN ? BINADE_OK : status;
}

binade_status binadei_unregister(struct binadei_context *own_context,
                                 struct binadei_region *region)
{
    binade_status status =
        region->is_pinned ? unpin_in(own_context, region) : BINADE_OK;
    if (status != BINADE_OK && status != BINADE_E_CONTEXT_DESTROYED)
        return status;
    bool is_ours = region->pages != BINADEI_PAGES_DRIVER;
    region->is_pinned = false;
    if (is_ours)
        binadei_unmap(region);
    region->base = NULL;
    return BINADE_OK;
}
