/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/ipc_probe.h"

#include <string.h>

#include "pool/ipc/handle.h"
#include "pool/ipc/process.h"

void ipc_probe_seal(moiety_ipc_handle *handle)
{
    moietyi_handle_seal(handle);
}

uint64_t ipc_probe_checksum(const void *bytes, size_t size_bytes)
{
    return moietyi_checksum(bytes, size_bytes);
}

moiety_status ipc_probe_read(const void *bytes, size_t handle_bytes)
{
    moiety_ipc_handle handle;
    return moietyi_handle_read(bytes, handle_bytes, &handle);
}

enum ipc_probe_state ipc_probe_exporter(const moiety_ipc_handle *handle)
{
    struct moietyi_process process = {
        .pid_namespace = handle->pid_namespace,
        .start_ticks = handle->start_ticks,
        .pid = handle->pid,
    };
    memcpy(process.machine, handle->machine, sizeof(process.machine));
    switch (moietyi_process_state(&process)) {
    case MOIETYI_PROCESS_LIVES:
        return IPC_PROBE_LIVES;
    case MOIETYI_PROCESS_GONE:
        return IPC_PROBE_GONE;
    default:
        return IPC_PROBE_UNSEEN;
    }
}

bool ipc_probe_make_own(moiety_ipc_handle *handle)
{
    const struct moietyi_process *self;
    if (moietyi_process_self(&self) != MOIETY_OK)
        return false;
    memcpy(handle->machine, self->machine, sizeof(handle->machine));
    handle->pid_namespace = self->pid_namespace;
    handle->start_ticks = self->start_ticks;
    handle->pid = (uint32_t)self->pid;
    return true;
}
