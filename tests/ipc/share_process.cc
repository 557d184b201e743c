// SPDX-License-Identifier: Apache-2.0
#include "tests/ipc/share_process.h"

#include "moiety/ipc.h"
#include "moiety/probe.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "pool/driver/cuda_abi.h"
#include "tests/support/driver_probe.h"
#include "tests/support/tools/pools.h"

extern char **environ;

namespace share_test
{
namespace
{

constexpr int kDescriptor = 3;

struct Order {
    Task task;
    uint32_t writer;
    uint64_t count; // blocks that follow
};

void EndUnless(bool condition, const char *what)
{
    if (condition)
        return;
    std::fprintf(stderr, "share: cannot go on: %s: %s\n", what,
                 moiety_last_error_message());
    std::abort();
}

// An entry of the driver that the library has opened.
template <typename... Parameters, typename... Arguments>
void Call(const char *entry, CUresult (*)(Parameters...),
          Arguments... arguments)
{
    auto function = reinterpret_cast<CUresult (*)(Parameters...)>(
        driver_probe_function(entry));
    EndUnless(function && function(arguments...) == CUDA_SUCCESS, entry);
}

#define CALL(entry, parameters, ...)                                           \
    Call(entry, static_cast<CUresult(*) parameters>(nullptr), __VA_ARGS__)

void Send(int socket, const void *bytes, size_t count)
{
    EndUnless(send(socket, bytes, count, MSG_NOSIGNAL) ==
                  static_cast<ssize_t>(count),
              "send");
}

bool Receive(int socket, void *bytes, size_t count)
{
    return count == 0 || recv(socket, bytes, count, MSG_WAITALL) ==
                             static_cast<ssize_t>(count);
}

void Note(Answer *answer, moiety_status status)
{
    if (status == MOIETY_OK || answer->status != MOIETY_OK)
        return;
    answer->status = status;
    std::snprintf(answer->message, sizeof answer->message, "%.255s",
                  moiety_last_error_message());
}

moiety_devptr Import(const Block &block, Answer *answer)
{
    moiety_devptr address = 0;
    Note(answer, moiety_ipc_import(&block.handle, sizeof block.handle, nullptr,
                                   &address));
    return address;
}

// The closes are asked for at the end: till then all work may be under way.
void Visit(const std::vector<Block> &blocks, uint32_t writer, Answer *answer)
{
    std::vector<moiety_closing> closings;
    for (size_t i = 0; i < blocks.size(); i++) {
        moiety_closing closing = nullptr;
        moiety_devptr address = Import(blocks[i], answer);
        if (!address)
            continue;
        answer->wrong_count +=
            !Holds(address, blocks[i].size_bytes, WordOf(i, writer - 1));
        Write(address, blocks[i].size_bytes, WordOf(i, writer));
        Note(answer, moiety_ipc_close(address, OwnStream(), &closing));
        closings.push_back(closing);
    }
    for (moiety_closing closing : closings)
        Note(answer, moiety_ipc_wait(closing, 60000));
    Note(answer, moiety_ipc_trim(MOIETY_IPC_IDLE_MAX, &answer->open_count));
}

void Share(Answer *answer)
{
    static moiety_pool *pool = nullptr;
    moiety_pool_options options = Exportable(2 << 20);
    Block *block = &answer->block;
    block->size_bytes = 64 << 10;
    if (!pool)
        Note(answer, moiety_pool_create(&options, &pool));
    Note(answer,
         moiety_alloc(pool, block->size_bytes, OwnStream(), &block->address));
    Note(answer, moiety_ipc_export(pool, block->address, &block->handle));
    Write(block->address, block->size_bytes, WordOf(0, 0));
    Holds(block->address, block->size_bytes, WordOf(0, 0));
}

pid_t Spawn(int theirs)
{
    char program[] = "/proc/self/exe", role[] = "--serve";
    char *arguments[] = {program, role, nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, theirs, kDescriptor);
    pid_t pid = -1;
    EndUnless(
        posix_spawn(&pid, program, &actions, nullptr, arguments, environ) == 0,
        program);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

} // namespace

uint32_t WordOf(size_t index, uint32_t writer)
{
    return static_cast<uint32_t>(index) * 16 + writer;
}

std::string OpenDevice()
{
    moiety_caps caps = {};
    CUcontext context = nullptr;
    caps.struct_size = sizeof caps;
    if (moiety_probe(0, &caps) != MOIETY_OK)
        return moiety_last_error_message();
    CALL("cuDevicePrimaryCtxRetain", (CUcontext *, CUdevice), &context, 0);
    CALL("cuCtxSetCurrent", (CUcontext), context);
    return "";
}

moiety_stream OwnStream()
{
    static CUstream stream = [] {
        CUstream made = nullptr;
        CALL("cuStreamCreate", (CUstream *, unsigned), &made,
             static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
        return made;
    }();
    return stream;
}

void Write(moiety_devptr address, uint64_t size_bytes, uint32_t word)
{
    CALL("cuMemsetD32Async", (CUdeviceptr, unsigned, size_t, CUstream), address,
         word, static_cast<size_t>(size_bytes / 4), OwnStream());
}

bool Holds(moiety_devptr address, uint64_t size_bytes, uint32_t word)
{
    std::vector<uint32_t> words(size_bytes / 4);
    CALL("cuMemcpyDtoHAsync", (void *, CUdeviceptr, size_t, CUstream),
         static_cast<void *>(words.data()), address, words.size() * 4,
         OwnStream());
    CALL("cuStreamSynchronize", (CUstream), OwnStream());
    return std::all_of(words.begin(), words.end(),
                       [word](uint32_t found) { return found == word; });
}

moiety_pool_options Exportable(uint64_t segment_bytes)
{
    moiety_pool_options options = driver_options();
    options.flags = MOIETY_POOL_EXPORTABLE;
    options.first_segment_bytes = segment_bytes;
    options.largest_segment_bytes = segment_bytes;
    return options;
}

Process::Process()
{
    int sockets[2];
    EndUnless(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0,
              "socketpair");
    // Not at the number that the process gets: dup2() would leave it
    // close-on-exec.
    int theirs = fcntl(sockets[1], F_DUPFD_CLOEXEC, 10);
    pid_ = Spawn(theirs);
    close(theirs);
    close(sockets[1]);
    socket_ = sockets[0];
}

Process::~Process()
{
    close(socket_);
    if (pid_ > 0)
        waitpid(pid_, nullptr, 0);
}

Answer Process::Ask(Task task, const std::vector<Block> &blocks,
                    uint32_t writer)
{
    Order order = {task, writer, blocks.size()};
    Answer answer = {};
    Send(socket_, &order, sizeof order);
    if (!blocks.empty())
        Send(socket_, blocks.data(), blocks.size() * sizeof(Block));
    EndUnless(Receive(socket_, &answer, sizeof answer), "the other process");
    return answer;
}

void Process::Kill()
{
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
}

int Serve()
{
    Order order;
    std::string missing = OpenDevice();
    EndUnless(missing.empty(), missing.c_str());
    while (Receive(kDescriptor, &order, sizeof order)) {
        std::vector<Block> blocks(order.count);
        Answer answer = {};
        if (!Receive(kDescriptor, blocks.data(), order.count * sizeof(Block)))
            return 1;
        if (order.task == Task::kVisit)
            Visit(blocks, order.writer, &answer);
        else if (order.task == Task::kImport)
            Import(blocks[0], &answer);
        else if (order.task == Task::kTrim)
            Note(&answer, moiety_ipc_trim(0, &answer.open_count));
        else
            Share(&answer);
        Send(kDescriptor, &answer, sizeof answer);
    }
    return 0;
}

} // namespace share_test
