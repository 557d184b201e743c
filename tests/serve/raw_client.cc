// SPDX-License-Identifier: Apache-2.0
#include "tests/serve/raw_client.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>

#include "moiety/region.h"
#include "tests/serve/frame_probe.h"

namespace serve_test
{

Bytes Frame(const char *kind)
{
    Bytes frame(frame_probe_bytes());
    frame_probe_make(frame.data(), kind);
    return frame;
}

Bytes CreateFrame(const std::string &name, uint64_t handles)
{
    Bytes frame = Frame("create");
    frame_probe_name(frame.data(), name.data(), name.size());
    frame_probe_set(frame.data(), "token", 1);
    frame_probe_set(frame.data(), "part_count", 1);
    frame_probe_part(frame.data(), 0, 1, handles * 2 * kMiB, 2 * kMiB);
    return frame;
}

Bytes PutFrame(uint64_t first)
{
    Bytes frame = Frame("put");
    frame_probe_set(frame.data(), "token", 1);
    frame_probe_set(frame.data(), "first", first);
    frame_probe_set(frame.data(), "descriptor_count", 1);
    return frame;
}

int MakeMemfd(size_t bytes, bool is_sealed)
{
    int file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT_EQ(0, ftruncate(file, static_cast<off_t>(bytes)));
    if (is_sealed) {
        EXPECT_EQ(
            0, fcntl(file, F_ADD_SEALS,
                     F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE));
    }
    return file;
}

Raw::Raw(const std::string &path) : socket_(RawConnect(path)) {}

Raw::~Raw()
{
    CloseAll();
    close(socket_);
}

void Raw::CloseAll()
{
    for (int one : descriptors_)
        close(one);
    descriptors_.clear();
}

bool Raw::Send(const Bytes &bytes, const std::vector<int> &descriptors,
               int flags)
{
    std::vector<char> control(CMSG_SPACE(descriptors.size() * sizeof(int)));
    iovec part = {const_cast<char *>(bytes.data()), bytes.size()};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!descriptors.empty()) {
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
        std::memcpy(CMSG_DATA(header), descriptors.data(),
                    descriptors.size() * sizeof(int));
    }
    return sendmsg(socket_, &message, flags | MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
}

Bytes Raw::Receive(int flags)
{
    Bytes bytes(frame_probe_bytes());
    alignas(cmsghdr) char control[CMSG_SPACE(253 * sizeof(int))];
    iovec part = {bytes.data(), bytes.size()};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t got = recvmsg(socket_, &message, flags | MSG_CMSG_CLOEXEC);
    CloseAll();
    for (cmsghdr *header = CMSG_FIRSTHDR(&message); got > 0 && header;
         header = CMSG_NXTHDR(&message, header)) {
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        descriptors_.resize(count);
        std::memcpy(descriptors_.data(), CMSG_DATA(header),
                    count * sizeof(int));
    }
    bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return bytes;
}

int Raw::Ask(const Bytes &bytes, const std::vector<int> &descriptors)
{
    if (!Send(bytes, descriptors))
        return -1;
    reply_ = Receive();
    return reply_.empty()
               ? -1
               : static_cast<int>(frame_probe_get(reply_.data(), "status"));
}

bool Raw::IsCutOff()
{
    for (int i = 0; i < 1000; i++)
        if (Receive().empty())
            return true;
    return false;
}

bool Raw::HasReply(int wait_ms) const
{
    pollfd one = {socket_, POLLIN, 0};
    return poll(&one, 1, wait_ms) == 1;
}

void Commit(Raw &raw, const std::string &name, uint64_t token)
{
    Bytes create = CreateFrame(name);
    Bytes put = PutFrame();
    Bytes commit = Frame("commit");
    int memory = MakeMemfd();
    for (Bytes *frame : {&create, &put, &commit})
        frame_probe_set(frame->data(), "token", token);
    EXPECT_EQ(MOIETY_OK, raw.Ask(create));
    EXPECT_EQ(MOIETY_OK, raw.Ask(put, {memory}));
    EXPECT_EQ(MOIETY_OK, raw.Ask(commit));
    close(memory);
}

unsigned PutAll(Raw &raw, unsigned handles)
{
    const int memory = MakeMemfd();
    unsigned count = 0;
    int status = raw.Ask(CreateFrame("r", handles));
    EXPECT_EQ(MOIETY_OK, status);
    while (count < handles &&
           (status = raw.Ask(PutFrame(count), {memory})) == MOIETY_OK)
        count++;
    EXPECT_EQ(MOIETY_E_NO_HOST_MEMORY, status);
    close(memory);
    return count;
}

int AskOf(Raw &raw, const char *kind, const std::string &name, uint64_t token,
          uint64_t is_writer)
{
    Bytes frame = Frame(kind);
    frame_probe_name(frame.data(), name.data(), name.size());
    frame_probe_set(frame.data(), "token", token);
    frame_probe_set(frame.data(), "is_writer", is_writer);
    return raw.Ask(frame);
}

uint64_t FirstState(Raw &raw)
{
    EXPECT_EQ(MOIETY_OK, raw.Ask(Frame("list")));
    return frame_probe_get(raw.reply().data(), "number")
               ? frame_probe_get(raw.reply().data(), "state")
               : 0;
}

Descriptors IdleDescriptors(const Keeper &keeper)
{
    // The keeper has closed all sockets that were closed before this one came, and a
    // region that it does not list has no memory left. This one has a pidfd, too.
    Raw raw(keeper.path());
    EXPECT_TRUE(Eventually([&] { return FirstState(raw) == 0; }));
    return {OpenDescriptors(keeper.vault_pid()),
            OpenDescriptors(keeper.server()) - 2};
}

bool HasDescriptors(pid_t pid, size_t count)
{
    return Eventually([&] { return OpenDescriptors(pid) == count; });
}

bool IsAnswered(const std::string &path)
{
    Raw raw(path);
    return raw.Ask(Frame("hello")) == MOIETY_OK;
}

} // namespace serve_test
