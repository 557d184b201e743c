// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/roles.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <map>

#include "tests/conformance/checks.h"

extern char **environ;

namespace conformance
{

namespace
{

std::map<std::string, Role> &roles()
{
    static std::map<std::string, Role> all;
    return all;
}

int Spawn(const std::string &name, int peer, int output)
{
    std::string argument = "--role=" + name;
    char program[] = "driver_conformance_test";
    char *arguments[] = {program, argument.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, peer, kPeerDescriptor);
    pid_t pid = -1;
    int error = posix_spawn(&pid, "/proc/self/exe", &actions, nullptr,
                            arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error == 0 ? pid : -1;
}

} // namespace

bool RegisterRole(const char *name, Role role)
{
    roles()[name] = role;
    return true;
}

int PlayRole(const std::string &name, int peer)
{
    auto found = roles().find(name);
    if (found == roles().end()) {
        std::fprintf(stderr, "no role is named '%s'\n", name.c_str());
        return 2;
    }
    ChecksAreCountedElsewhere();
    try {
        found->second(peer);
    } catch (const std::exception &) {
        return 1; /* already printed as a failed check */
    }
    return 0;
}

RoleProcess::RoleProcess(const std::string &name) : name_(name)
{
    int sockets[2], output[2];
    /* Above the descriptors that the child gets, or dup2() onto the same
     * number would leave close-on-exec set. */
    MUST_BE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
    MUST_BE(pipe2(output, O_CLOEXEC) == 0);
    int theirs = fcntl(sockets[1], F_DUPFD_CLOEXEC, 10);
    pid_ = Spawn(name, theirs, output[1]);
    close(theirs);
    close(sockets[1]);
    close(output[1]);
    peer_ = sockets[0];
    output_ = output[0];
    MUST_BE(pid_ > 0);
}

void RoleProcess::RelayOutput()
{
    FILE *stream = fdopen(output_, "r");
    if (stream == nullptr)
        return;
    char line[1024];
    while (std::fgets(line, sizeof line, stream) != nullptr) {
        line[std::strcspn(line, "\n")] = '\0';
        if (!CountForeignLine(line))
            std::printf("%s\n", line);
    }
    std::fclose(stream);
    output_ = -1;
}

void RoleProcess::Finish()
{
    RelayOutput();
    int status = -1;
    pid_t ended = waitpid(pid_, &status, 0);
    EXPECT_YES("process." + name_ + ".ends-by-itself",
               ended == pid_ && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pid_ = -1;
}

RoleProcess::~RoleProcess()
{
    if (pid_ > 0) {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    if (output_ >= 0)
        close(output_);
    if (peer_ >= 0)
        close(peer_);
}

void RunRole(const std::string &name)
{
    RoleProcess process(name);
    process.Finish();
}

void Send(int peer, const void *bytes, size_t size_bytes)
{
    ssize_t sent = send(peer, bytes, size_bytes, MSG_NOSIGNAL);
    MUST_BE(sent == static_cast<ssize_t>(size_bytes));
}

void Receive(int peer, void *bytes, size_t size_bytes)
{
    ssize_t received = recv(peer, bytes, size_bytes, MSG_WAITALL);
    MUST_BE(received == static_cast<ssize_t>(size_bytes));
}

void SendTurn(int peer)
{
    Send(peer, "", 1);
}

void AwaitTurn(int peer)
{
    char turn;
    Receive(peer, &turn, sizeof turn);
}

void SendDescriptor(int peer, int descriptor)
{
    char byte = 0;
    iovec part = {&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    MUST_BE(sendmsg(peer, &message, MSG_NOSIGNAL) == 1);
}

int ReceiveDescriptor(int peer)
{
    char byte = 0;
    iovec part = {&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    MUST_BE(recvmsg(peer, &message, MSG_CMSG_CLOEXEC) == 1);
    cmsghdr *header = CMSG_FIRSTHDR(&message);
    MUST_BE(header != nullptr && header->cmsg_type == SCM_RIGHTS);
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    return descriptor;
}

} // namespace conformance
