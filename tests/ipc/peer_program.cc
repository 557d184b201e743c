// SPDX-License-Identifier: Apache-2.0
//
// The process at the other end: does what it is told over its socket, and ends
// when that is closed.
#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>

#include "pool/driver/cuda_abi.h"
#include "tests/ipc/peer_protocol.h"
#include "tests/ipc/tcp.h"
#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace ipc_test;

moiety_pool *own_pool = nullptr; // made when it is first needed
int tcp = -1;

moiety_pool *ThePool()
{
    moiety_pool_options options = pool_test::Defaults();
    const char *device = std::getenv("MOIETY_PEER_DEVICE");
    options.device = device ? std::atoi(device) : 0;
    options.flags = MOIETY_POOL_EXPORTABLE;
    if (std::getenv("MOIETY_PEER_MAPPED"))
        set_kind(&options, KIND_MAPPED);
    options.first_segment_bytes = 2 * pool_test::kMiB;
    options.largest_segment_bytes = 2 * pool_test::kMiB;
    if (!own_pool && moiety_pool_create(&options, &own_pool) != MOIETY_OK)
        std::abort();
    return own_pool;
}

pool_test::Stream &HeldStream()
{
    static pool_test::Stream *stream = new pool_test::Stream;
    return *stream;
}

moiety_stream StreamOf(On on)
{
    switch (on) {
    case On::kLegacy:
        return MOIETY_STREAM_LEGACY;
    case On::kHeld:
        return HeldStream();
    case On::kAny:
        return MOIETY_STREAM_ANY;
    default:
        return MOIETY_STREAM_DONE;
    }
}

moiety_context ContextOf(int64_t device)
{
    CUcontext context = nullptr;
    if (device == 0)
        return pool_test::PrimaryContext();
    pool_test::Get<CUresult(CUcontext *, CUdevice)>("cuDevicePrimaryCtxRetain")(
        &context, static_cast<CUdevice>(device));
    return context;
}

moiety_status Import(const Command &command, Reply *reply)
{
    moiety_devptr address = 0;
    moiety_status status =
        moiety_ipc_import(&command.handle, command.handle_bytes,
                          ContextOf(command.device), &address);
    reply->address = address;
    return status;
}

moiety_status Receive(int socket, Reply *reply)
{
    moiety_devptr address = 0;
    moiety_status status = moiety_ipc_receive(
        socket, pool_test::PrimaryContext(), &reply->handle, &address);
    reply->address = address;
    return status;
}

moiety_status Close(const Command &command, Reply *reply)
{
    moiety_closing closing = nullptr;
    moiety_status status =
        moiety_ipc_close(command.address, StreamOf(command.stream), &closing);
    reply->value = reinterpret_cast<uintptr_t>(closing);
    return status;
}

moiety_status Trim(const Command &command, Reply *reply)
{
    uint32_t open_count = 0;
    moiety_status status =
        moiety_ipc_trim(static_cast<uint32_t>(command.value), &open_count);
    reply->value = open_count;
    return status;
}

moiety_status Alloc(const Command &command, Reply *reply)
{
    moiety_devptr address = 0;
    moiety_status status = moiety_alloc(ThePool(), command.size_bytes,
                                        MOIETY_STREAM_LEGACY, &address);
    reply->address = address;
    return status;
}

// What returns a status.
moiety_status Obey(const Command &command, Reply *reply)
{
    switch (command.what) {
    case Do::kImport:
        return Import(command, reply);
    case Do::kReceive:
        return Receive(kPeerDescriptor, reply);
    case Do::kReceiveOverTcp:
        return Receive(tcp, reply);
    case Do::kSendOverTcp:
        return moiety_ipc_send(ThePool(), command.address, tcp);
    case Do::kClose:
        return Close(command, reply);
    case Do::kCloseAndWait:
        return moiety_ipc_close(command.address, StreamOf(command.stream),
                                nullptr);
    case Do::kWait:
        return moiety_ipc_wait(
            reinterpret_cast<moiety_closing>(command.address),
            static_cast<uint32_t>(command.size_bytes));
    case Do::kTrim:
        return Trim(command, reply);
    case Do::kAlloc:
        return Alloc(command, reply);
    case Do::kFree:
        return moiety_free(ThePool(), command.address,
                           StreamOf(command.stream));
    case Do::kExport:
        return moiety_ipc_export(ThePool(), command.address, &reply->handle);
    case Do::kRelease:
        return moiety_ipc_release_exports(ThePool(), command.address);
    case Do::kTrimPool: {
        uint64_t bytes = 0;
        moiety_status status = moiety_pool_trim(ThePool(), 0, &bytes);
        reply->value = bytes;
        return status;
    }
    default:
        return MOIETY_E_UNSUPPORTED;
    }
}

void FailCall(uint64_t n)
{
    pool_test::SetFaults(
        n ? "*:nth=" + std::to_string(n) + ":code=CUDA_ERROR_UNKNOWN" : "");
}

// What is the memory's and the stand-in's. False: it is none of these.
bool ObeyElse(const Command &command, Reply *reply)
{
    switch (command.what) {
    case Do::kFill:
    case Do::kFillLater:
        pool_test::Fill(command.address, command.size_bytes,
                        static_cast<uint32_t>(command.value));
        if (command.what == Do::kFill)
            pool_test::Synchronize();
        return true;
    case Do::kQueue:
        pool_test::Get<CUresult(CUdeviceptr, unsigned char, size_t, CUstream)>(
            "cuMemsetD8Async")(command.address,
                               static_cast<unsigned char>(command.value),
                               command.size_bytes, HeldStream());
        return true;
    case Do::kHolds:
        reply->value = pool_test::Holds(command.address, command.size_bytes,
                                        static_cast<uint32_t>(command.value));
        return true;
    case Do::kHold:
        HeldStream().Hold();
        return true;
    case Do::kReleaseHold:
        HeldStream().Release();
        return true;
    case Do::kConnect:
        tcp = ipc_test::ConnectTo(static_cast<uint16_t>(command.value));
        return true;
    case Do::kCreates:
        reply->value = pool_test::Calls("cuMemCreate");
        return true;
    case Do::kOpens:
        reply->value = pool_test::Calls("cuIpcOpenMemHandle");
        return true;
    case Do::kCloses:
        reply->value = pool_test::Calls("cuIpcCloseMemHandle");
        return true;
    case Do::kLiveImports:
        reply->value = static_cast<uint64_t>(pool_test::Live("ipc"));
        return true;
    case Do::kLiveMapped:
        reply->value = static_cast<uint64_t>(pool_test::Live("vmm"));
        return true;
    case Do::kFailCall:
        FailCall(command.value);
        reply->value = pool_test::Calls();
        return true;
    default:
        return false;
    }
}

} // namespace

int main()
{
    Command command;
    pool_test::UseStandin();
    while (recv(kPeerDescriptor, &command, sizeof command, MSG_WAITALL) ==
           static_cast<ssize_t>(sizeof command)) {
        Reply reply = {};
        if (!ObeyElse(command, &reply))
            reply.status = Obey(command, &reply);
        std::snprintf(reply.message, sizeof reply.message, "%.255s",
                      moiety_last_error_message());
        if (send(kPeerDescriptor, &reply, sizeof reply, MSG_NOSIGNAL) !=
            static_cast<ssize_t>(sizeof reply))
            return 1;
    }
    return moiety_pool_destroy(own_pool, nullptr) == MOIETY_OK ? 0 : 1;
}
