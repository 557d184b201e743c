// SPDX-License-Identifier: Apache-2.0
#include "tests/ipc/peer.h"

#include "moiety/ipc.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/ipc/tcp.h"

extern char **environ;

namespace ipc_test
{
namespace
{

void EndUnless(bool condition, const char *what)
{
    if (condition)
        return;
    std::perror(what);
    std::abort();
}

// No fork: the test's process may use the driver already.
pid_t Spawn(int theirs, const std::vector<std::string> &settings)
{
    char program[] = "tests/ipc/peer_program";
    char *arguments[] = {program, nullptr};
    std::vector<char *> environment;
    for (const std::string &setting : settings)
        environment.push_back(const_cast<char *>(setting.c_str()));
    for (char **at = environ; *at; at++)
        environment.push_back(*at);
    environment.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, theirs, kPeerDescriptor);
    pid_t pid = -1;
    int error = posix_spawn(&pid, program, &actions, nullptr, arguments,
                            environment.data());
    posix_spawn_file_actions_destroy(&actions);
    EndUnless(error == 0, program);
    return pid;
}

} // namespace

Peer::Peer(const std::vector<std::string> &settings)
{
    int sockets[2];
    EndUnless(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0,
              "socketpair");
    // Not at the number that the peer gets: dup2() would leave it
    // close-on-exec.
    int theirs = fcntl(sockets[1], F_DUPFD_CLOEXEC, 10);
    pid_ = Spawn(theirs, settings);
    close(theirs);
    close(sockets[1]);
    socket_ = sockets[0];
}

Peer::~Peer()
{
    End();
}

Reply Peer::Ask(const Command &command)
{
    Reply reply = {};
    EXPECT_EQ(static_cast<ssize_t>(sizeof command),
              send(socket_, &command, sizeof command, MSG_NOSIGNAL));
    EXPECT_EQ(static_cast<ssize_t>(sizeof reply),
              recv(socket_, &reply, sizeof reply, MSG_WAITALL))
        << "the peer is gone";
    message_ = reply.message;
    return reply;
}

uint64_t Peer::Ask(Do what, uint64_t address, uint64_t size_bytes,
                   uint64_t value)
{
    Command command = {};
    command.what = what;
    command.address = address;
    command.size_bytes = size_bytes;
    command.value = value;
    Reply reply = Ask(command);
    EXPECT_EQ(MOIETY_OK, reply.status) << reply.message;
    return reply.value;
}

moiety_status Peer::Import(const moiety_ipc_handle &handle,
                           moiety_devptr *out_address, int64_t device)
{
    Command command = {};
    command.what = Do::kImport;
    command.handle = handle;
    command.handle_bytes = sizeof handle;
    command.device = device;
    Reply reply = Ask(command);
    *out_address = reply.address;
    return static_cast<moiety_status>(reply.status);
}

void Peer::BeginReceive(Do what)
{
    Command command = {};
    command.what = what;
    EXPECT_EQ(static_cast<ssize_t>(sizeof command),
              send(socket_, &command, sizeof command, MSG_NOSIGNAL));
}

moiety_status Peer::EndReceive(moiety_devptr *out_address)
{
    Reply reply = {};
    EXPECT_EQ(static_cast<ssize_t>(sizeof reply),
              recv(socket_, &reply, sizeof reply, MSG_WAITALL))
        << "the peer is gone";
    message_ = reply.message;
    *out_address = reply.address;
    return static_cast<moiety_status>(reply.status);
}

moiety_status Peer::Receive(moiety_pool *pool, moiety_devptr block,
                            moiety_devptr *out_address)
{
    BeginReceive(Do::kReceive);
    EXPECT_EQ(MOIETY_OK, moiety_ipc_send(pool, block, socket_))
        << moiety_last_error_message();
    return EndReceive(out_address);
}

moiety_status Peer::ReceiveOverTcp(moiety_pool *pool, moiety_devptr block,
                                   moiety_devptr *out_address)
{
    int tcp = Connect();
    BeginReceive(Do::kReceiveOverTcp);
    EXPECT_EQ(MOIETY_OK, moiety_ipc_send(pool, block, tcp))
        << moiety_last_error_message();
    return EndReceive(out_address);
}

moiety_status Peer::ReceiveBytesOverTcp(const std::vector<char> &bytes,
                                        moiety_devptr *out_address)
{
    int tcp = Connect();
    BeginReceive(Do::kReceiveOverTcp);
    EXPECT_EQ(static_cast<ssize_t>(bytes.size()),
              send(tcp, bytes.data(), bytes.size(), MSG_NOSIGNAL));
    return EndReceive(out_address);
}

int Peer::Connect()
{
    if (tcp_ >= 0)
        return tcp_;
    uint16_t port;
    int listener = Listen(&port);
    Ask(Do::kConnect, 0, 0, port);
    tcp_ = Accept(listener);
    close(listener);
    return tcp_;
}

moiety_status Peer::SendOverTcp(moiety_devptr address)
{
    Command command = {};
    Connect();
    command.what = Do::kSendOverTcp;
    command.address = address;
    return static_cast<moiety_status>(Ask(command).status);
}

moiety_status Peer::ImportBytes(const moiety_ipc_handle &handle, size_t bytes)
{
    Command command = {};
    command.what = Do::kImport;
    command.handle = handle;
    command.handle_bytes = bytes;
    return static_cast<moiety_status>(Ask(command).status);
}

moiety_status Peer::Close(moiety_devptr address, On stream,
                          uint64_t *out_closing)
{
    Command command = {};
    command.what = Do::kClose;
    command.address = address;
    command.stream = stream;
    Reply reply = Ask(command);
    if (out_closing)
        *out_closing = reply.value;
    return static_cast<moiety_status>(reply.status);
}

moiety_status Peer::CloseAndWait(moiety_devptr address, On stream)
{
    Command command = {};
    command.what = Do::kCloseAndWait;
    command.address = address;
    command.stream = stream;
    return static_cast<moiety_status>(Ask(command).status);
}

moiety_status Peer::Wait(uint64_t closing, uint32_t timeout_ms)
{
    Command command = {};
    command.what = Do::kWait;
    command.address = closing;
    command.size_bytes = timeout_ms;
    return static_cast<moiety_status>(Ask(command).status);
}

uint64_t Peer::Trim(uint32_t keep_count)
{
    return Ask(Do::kTrim, 0, 0, keep_count);
}

moiety_devptr Peer::Alloc(size_t size_bytes)
{
    Command command = {};
    command.what = Do::kAlloc;
    command.size_bytes = size_bytes;
    Reply reply = Ask(command);
    EXPECT_EQ(MOIETY_OK, reply.status) << reply.message;
    return reply.address;
}

moiety_ipc_handle Peer::Export(moiety_devptr address)
{
    Command command = {};
    command.what = Do::kExport;
    command.address = address;
    Reply reply = Ask(command);
    EXPECT_EQ(MOIETY_OK, reply.status) << reply.message;
    return reply.handle;
}

bool Peer::Holds(moiety_devptr address, size_t size_bytes, uint32_t word)
{
    return Ask(Do::kHolds, address, size_bytes, word) == 1;
}

void Peer::Fill(moiety_devptr address, size_t size_bytes, uint32_t word)
{
    Ask(Do::kFill, address, size_bytes, word);
}

void Peer::KillOnly()
{
    EXPECT_EQ(0, kill(pid_, SIGKILL));
    siginfo_t info = {};
    EXPECT_EQ(0,
              waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT));
}

void Peer::Kill()
{
    int status = 0;
    EXPECT_EQ(0, kill(pid_, SIGKILL));
    EXPECT_EQ(pid_, waitpid(pid_, &status, 0));
    EXPECT_TRUE(WIFSIGNALED(status));
    pid_ = -1;
}

void Peer::End()
{
    int status = 0;
    for (int *end : {&socket_, &tcp_}) {
        if (*end >= 0)
            close(*end);
        *end = -1;
    }
    if (pid_ < 0)
        return;
    EXPECT_EQ(pid_, waitpid(pid_, &status, 0));
    pid_ = -1;
    EXPECT_TRUE(WIFEXITED(status) ? WEXITSTATUS(status) == 0
                                  : WTERMSIG(status) == SIGKILL)
        << status;
}

} // namespace ipc_test
