/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The layout is pinned here: exporter and importer may be built by different
 * compilers, and bytes that nobody wrote would differ from handle to handle.
 */
#include "pool/ipc/handle.h"

#include <stdbool.h>
#include <string.h>

#include "pool/base/failure.h"

#define AT(field, offset)                                                      \
    _Static_assert(offsetof(moiety_ipc_handle, field) == (offset),             \
                   "the layout of a handle is fixed: " #field)

AT(version, 0);
AT(struct_size, 4);
AT(driver_handle, 8);
AT(segment_bytes, 72);
AT(offset_bytes, 80);
AT(size_bytes, 88);
AT(device_uuid, 96);
AT(machine, 112);
AT(pid_namespace, 128);
AT(start_ticks, 136);
AT(pid, 144);
AT(kind, 148);
AT(segment_id, 152);
AT(generation, 160);
AT(checksum, 168);
_Static_assert(sizeof(moiety_ipc_handle) == 176, "a handle has no padding");

_Static_assert(sizeof(struct moietyi_run_name) ==
                   sizeof(((moiety_ipc_handle *)NULL)->driver_handle),
               "it is there instead");

/* Word by word, as an export has no time for bytes. Each step can be undone
 * (xor, odd factor, xor of the upper half), so bytes that differ in one word only
 * never have the same sum. */
uint64_t moietyi_checksum(const void *bytes, size_t size_bytes)
{
    uint64_t sum = UINT64_C(0x6d6f696574790001);
    for (size_t at = 0; at < size_bytes; at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, (const char *)bytes + at, sizeof(word));
        sum = (sum ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        sum ^= sum >> 32;
    }
    return sum;
}

static uint64_t handle_checksum_of(const moiety_ipc_handle *handle)
{
    return moietyi_checksum(handle, offsetof(moiety_ipc_handle, checksum));
}

void moietyi_handle_seal(moiety_ipc_handle *handle)
{
    handle->version = MOIETY_IPC_VERSION;
    handle->struct_size = (uint32_t)sizeof(*handle);
    handle->checksum = handle_checksum_of(handle);
}

static bool is_sound(const moiety_ipc_handle *handle)
{
    return handle->struct_size == sizeof(*handle) &&
           handle->kind <= MOIETY_IPC_MAPPED &&
           handle->checksum == handle_checksum_of(handle) &&
           handle->size_bytes &&
           handle->offset_bytes <= handle->segment_bytes &&
           handle->size_bytes <= handle->segment_bytes - handle->offset_bytes;
}

moiety_status moietyi_handle_read(const void *bytes, size_t handle_bytes,
                                  moiety_ipc_handle *out)
{
    if (handle_bytes != sizeof(*out)) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "a handle has %zu bytes, this has %zu",
                            sizeof(*out), handle_bytes);
    }
    memcpy(out, bytes, sizeof(*out));
    if (out->version != MOIETY_IPC_VERSION) {
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "the handle has version %u; this library reads %u",
                            (unsigned)out->version,
                            (unsigned)MOIETY_IPC_VERSION);
    }
    if (!is_sound(out))
        return moietyi_fail(MOIETY_E_CORRUPT,
                            "the handle's bytes are not as they were made");
    return MOIETY_OK;
}
