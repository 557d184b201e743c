/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the library is, by its version, and what a device can do: the public side
 * of the probe, and names of the features.
 */
#include "moiety/probe.h"

#include <stddef.h>

#include "moiety/version.h"
#include "pool/base/failure.h"
#include "pool/driver/driver_table.h"
#include "pool/driver/probe.h"

/* In the order of their bits: name i belongs to bit i. */
static const char *const feature_names[] = {
    "stream ids",          "context events",    "mapped memory (VMM)",
    "fd export",           "fabric export",     "host-NUMA memory",
    "driver memory pools", "legacy IPC",        "stream wait/write words",
    "managed memory",      "host registration", "unified addresses",
    "capture modes",
};

const char *moiety_feature_name(uint64_t feature)
{
    size_t count = sizeof(feature_names) / sizeof(feature_names[0]);
    for (size_t i = 0; i < count; i++)
        if (feature == UINT64_C(1) << i)
            return feature_names[i];
    return NULL;
}

moiety_status moiety_probe(int device, moiety_caps *out)
{
    const struct moietyi_driver *driver;
    moiety_caps caps;
    if (!out)
        return moietyi_fail(MOIETY_E_INVALID, "moiety_probe: out is NULL");
    if (out->struct_size < sizeof(*out)) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_probe: struct_size is %u, must be %zu or "
                            "more",
                            (unsigned)out->struct_size, sizeof(*out));
    }
    moiety_status status = moietyi_driver_open(&driver);
    if (status == MOIETY_OK)
        status = moietyi_driver_probe(driver, device, &caps);
    if (status == MOIETY_OK)
        *out = caps;
    return status;
}

/* A call and not only a macro: a program may run with a newer library than it was
 * built with. */
const char *moiety_version(void)
{
    return MOIETY_VERSION_STRING;
}
