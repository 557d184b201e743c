/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lets tests in C++ make up handles that look genuine, and ask who lives. Calls
 * and reads; asserts nothing.
 */
#ifndef MOIETY_TESTS_SUPPORT_IPC_PROBE_H_
#define MOIETY_TESTS_SUPPORT_IPC_PROBE_H_

#include <stdbool.h>

#include "moiety/ipc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes the checksum right, version and size too. */
void ipc_probe_seal(moiety_ipc_handle *handle);
/* The sum behind the parts of a message of moiety_ipc_send(). */
uint64_t ipc_probe_checksum(const void *bytes, size_t size_bytes);
/* What the library makes of the bytes by themselves. */
moiety_status ipc_probe_read(const void *bytes, size_t handle_bytes);

enum ipc_probe_state { IPC_PROBE_LIVES, IPC_PROBE_GONE, IPC_PROBE_UNSEEN };

/* Of the process that a handle says it is from. */
enum ipc_probe_state ipc_probe_exporter(const moiety_ipc_handle *handle);
/* The handle says from now on that it is from this process. */
bool ipc_probe_make_own(moiety_ipc_handle *handle);

#ifdef __cplusplus
}
#endif

#endif
