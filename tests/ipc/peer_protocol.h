/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a test tells the process at the other end of its handles, and what that
 * answers. Both ends are built from this file, so structs travel as they are.
 */
#ifndef MOIETY_TESTS_IPC_PEER_PROTOCOL_H_
#define MOIETY_TESTS_IPC_PEER_PROTOCOL_H_

#include <cstdint>

#include "moiety/ipc.h"
#include "moiety/moiety.h"

namespace ipc_test
{

// Where a peer finds its socket.
constexpr int kPeerDescriptor = 3;

enum class Do : uint32_t {
    // Importing. `stream`: one of the enum below.
    kImport, // handle, handle_bytes, device -> address
    kClose,  // address, stream -> value: the number of the close, if asked
    kCloseAndWait,
    kWait,    // address: the number; size_bytes: milliseconds
    kReceive, // a message of moiety_ipc_send() follows -> address, handle
    kTrim,    // value: how many to keep -> value: how many are open
    // The same over TCP.
    kConnect, // value: the port of this machine
    kReceiveOverTcp,
    kSendOverTcp, // address, of the peer's own
    // Exporting, from a pool of the peer's own.
    kAlloc,    // size_bytes -> address
    kFree,     // address
    kExport,   // address -> handle
    kRelease,  // address
    kTrimPool, // -> value: bytes
    // The memory.
    kFill,      // address, size_bytes, value
    kFillLater, // the same on the legacy stream; does not wait for it
    kQueue,     // the same, of bytes, on the held stream; does not wait
    kHolds,     // address, size_bytes, value -> value: 1 or 0
    // The stand-in.
    kHold,        // holds the stream
    kReleaseHold, // lets it go on
    kCreates,     // -> value: calls of cuMemCreate so far
    kOpens,       // -> value: calls of cuIpcOpenMemHandle so far
    kCloses,      // and of cuIpcCloseMemHandle
    kLiveImports, // -> value: what the driver has open
    kLiveMapped,  // -> value: the same of mapped memory
    kFailCall, // value: which call from now on, 0: none -> value: calls so far
};

enum class On : uint32_t { kDone, kLegacy, kHeld, kAny };

struct Command {
    Do what;
    On stream;
    uint64_t address;
    uint64_t size_bytes;
    uint64_t value;
    int64_t device; // whose primary context imports
    uint64_t handle_bytes;
    moiety_ipc_handle handle;
};

struct Reply {
    int32_t status;
    uint32_t reserved;
    uint64_t address;
    uint64_t value;
    moiety_ipc_handle handle;
    char message[256];
};

} // namespace ipc_test

#endif
