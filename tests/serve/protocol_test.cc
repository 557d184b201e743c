// SPDX-License-Identifier: Apache-2.0
//
// Clients that break the protocol, and what a keeper is as a program.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "tests/serve/frame_probe.h"
#include "tests/serve/keeper_under_test.h"

namespace
{

using namespace serve_test;

using Bytes = std::vector<char>;

Bytes Frame(const char *kind)
{
    Bytes frame(frame_probe_bytes());
    frame_probe_make(frame.data(), kind);
    return frame;
}

// A region of one part, of `handles` handles of 2 MiB.
Bytes CreateFrame(const std::string &name, uint64_t handles = 1)
{
    Bytes frame = Frame("create");
    frame_probe_name(frame.data(), name.data(), name.size());
    frame_probe_set(frame.data(), "token", 1);
    frame_probe_set(frame.data(), "part_count", 1);
    frame_probe_part(frame.data(), 0, 1, handles * 2 * kMiB, 2 * kMiB);
    return frame;
}

// A connection without the library.
class Raw
{
  public:
    explicit Raw(const std::string &path) : socket_(RawConnect(path)) {}
    ~Raw()
    {
        close(socket_);
    }
    Raw(const Raw &) = delete;
    Raw &operator=(const Raw &) = delete;

    bool Send(const Bytes &bytes, const std::vector<int> &descriptors = {})
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
        return sendmsg(socket_, &message, MSG_NOSIGNAL) ==
               static_cast<ssize_t>(bytes.size());
    }
    // Descriptors that came are closed. Empty: the keeper has closed its end.
    Bytes Receive()
    {
        Bytes bytes(frame_probe_bytes());
        alignas(cmsghdr) char control[CMSG_SPACE(253 * sizeof(int))];
        iovec part = {bytes.data(), bytes.size()};
        msghdr message = {};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        ssize_t got = recvmsg(socket_, &message, 0);
        got_descriptors_ = 0;
        for (cmsghdr *header = CMSG_FIRSTHDR(&message); got > 0 && header;
             header = CMSG_NXTHDR(&message, header)) {
            size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            for (size_t i = 0; i < count; i++) {
                int one;
                std::memcpy(&one, CMSG_DATA(header) + i * sizeof one,
                            sizeof one);
                close(one);
                got_descriptors_++;
            }
        }
        bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
        return bytes;
    }
    // The status of the reply; -1: the keeper has closed its end.
    int Ask(const Bytes &bytes, const std::vector<int> &descriptors = {})
    {
        if (!Send(bytes, descriptors))
            return -1;
        reply_ = Receive();
        return reply_.empty()
                   ? -1
                   : static_cast<int>(frame_probe_get(reply_.data(), "status"));
    }
    // Whether it ends after what is still to be read.
    bool IsCutOff()
    {
        for (int i = 0; i < 1000; i++)
            if (Receive().empty())
                return true;
        return false;
    }
    // Whether there is something to read.
    bool HasReply() const
    {
        pollfd one = {socket_, POLLIN, 0};
        return poll(&one, 1, 0) == 1;
    }
    const Bytes &reply() const
    {
        return reply_;
    }
    size_t got_descriptors() const
    {
        return got_descriptors_;
    }

  private:
    int socket_;
    Bytes reply_;
    size_t got_descriptors_ = 0;
};

// Descriptors of a process, by the kernel's list.
size_t OpenDescriptors(pid_t pid)
{
    struct stat status;
    std::string folder = "/proc/" + std::to_string(pid) + "/fd";
    return stat(folder.c_str(), &status) == 0
               ? static_cast<size_t>(status.st_size)
               : 0;
}

// A socket whose last close blocks while the other end is there.
class BlockingClose
{
  public:
    BlockingClose()
    {
        sockaddr_in address = {};
        socklen_t size = sizeof address;
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        auto *at = reinterpret_cast<sockaddr *>(&address);
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        EXPECT_EQ(0, bind(listener, at, size));
        EXPECT_EQ(0, listen(listener, 1));
        EXPECT_EQ(0, getsockname(listener, at, &size));
        mine_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        EXPECT_EQ(0, connect(mine_, at, size));
        other_ = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        EXPECT_LE(0, other_);
        close(listener);
        linger wait = {1, 3600};
        EXPECT_EQ(0,
                  setsockopt(mine_, SOL_SOCKET, SO_LINGER, &wait, sizeof wait));
        // More than the other end takes, so that its end is not acknowledged.
        Bytes bytes(65536);
        while (send(mine_, bytes.data(), bytes.size(),
                    MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
            continue;
    }
    ~BlockingClose()
    {
        Release();
    }
    BlockingClose(const BlockingClose &) = delete;
    BlockingClose &operator=(const BlockingClose &) = delete;
    // Its owner is the caller.
    int Give()
    {
        int given = mine_;
        mine_ = -1;
        return given;
    }
    void Release()
    {
        if (other_ >= 0)
            close(other_);
        if (mine_ >= 0)
            close(mine_);
        other_ = -1;
        mine_ = -1;
    }

  private:
    int mine_ = -1;
    int other_ = -1;
};

int MakeMemfd(size_t bytes = 4096)
{
    int file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT_EQ(0, ftruncate(file, static_cast<off_t>(bytes)));
    return file;
}

void ExpectAnswers(const Keeper &keeper)
{
    Raw raw(keeper.path());
    EXPECT_EQ(MOIETY_OK, raw.Ask(Frame("hello")));
}

TEST(Protocol, RefusesFramesThatAreNone)
{
    Keeper keeper;
    struct {
        const char *field;
        uint64_t value;
        int status;
    } const bad[] = {{"magic", 1, MOIETY_E_CORRUPT},
                     {"version", 2, MOIETY_E_UNSUPPORTED},
                     {"kind", 0, MOIETY_E_CORRUPT},
                     {"kind", 99, MOIETY_E_CORRUPT},
                     {"frame_bytes", 0xffffffff, MOIETY_E_CORRUPT},
                     {"descriptor_count", 1, MOIETY_E_CORRUPT},
                     {"descriptor_count", 0xffffffff, MOIETY_E_CORRUPT},
                     {"is_writer", 2, MOIETY_E_CORRUPT},
                     {"part", 16, MOIETY_E_CORRUPT},
                     {"first", 4096, MOIETY_E_CORRUPT},
                     {"part_count", 17, MOIETY_E_CORRUPT}};
    for (const auto &one : bad) {
        Raw raw(keeper.path());
        Bytes frame = Frame("hello");
        frame_probe_set(frame.data(), one.field, one.value);
        EXPECT_EQ(one.status, raw.Ask(frame)) << one.field << " " << one.value;
        EXPECT_TRUE(raw.IsCutOff()) << one.field;
    }
    ExpectAnswers(keeper);
}

TEST(Protocol, RefusesPacketsOfAnotherLength)
{
    Keeper keeper;
    for (size_t bytes : {size_t{1}, size_t{16}, frame_probe_bytes() - 1,
                         frame_probe_bytes() + 1, size_t{100000}}) {
        Raw raw(keeper.path());
        Bytes frame = Frame("hello");
        frame.resize(bytes);
        EXPECT_EQ(MOIETY_E_CORRUPT, raw.Ask(frame)) << bytes;
        EXPECT_TRUE(raw.IsCutOff());
    }
    ExpectAnswers(keeper);
}

TEST(Protocol, ClosesDescriptorsThatItDidNotAskFor)
{
    Keeper keeper;
    size_t before = 0;
    int file = MakeMemfd();
    {
        Raw raw(keeper.path());
        EXPECT_EQ(MOIETY_OK, raw.Ask(Frame("hello")));
        before = OpenDescriptors(keeper.server());
        for (int i = 0; i < 50; i++) {
            Raw other(keeper.path());
            std::vector<int> many(i % 2 ? 129 : 253, file);
            EXPECT_EQ(MOIETY_E_CORRUPT, other.Ask(Frame("hello"), many));
            EXPECT_TRUE(other.IsCutOff());
        }
        // A request that wants none.
        Bytes frame = Frame("hello");
        frame_probe_set(frame.data(), "descriptor_count", 3);
        EXPECT_EQ(MOIETY_OK, raw.Ask(frame, {file, file, file}));
        EXPECT_TRUE(Eventually(
            [&] { return OpenDescriptors(keeper.server()) <= before; }));
    }
    close(file);
}

TEST(Protocol, SurvivesFramesOfRandomBytes)
{
    Keeper keeper;
    std::mt19937 random(20261130);
    const char *const kinds[] = {"create", "put",    "commit",     "open",
                                 "fetch",  "layout", "close",      "drop",
                                 "list",   "drain",  "acknowledge"};
    int file = MakeMemfd();
    for (int i = 0; i < 2000; i++) {
        Raw raw(keeper.path());
        Bytes frame = Frame(kinds[random() % 11]);
        int flips = static_cast<int>(random() % 8);
        for (int k = 0; k < flips; k++)
            frame[64 + random() % (frame.size() - 64)] =
                static_cast<char>(random());
        if (random() % 4 == 0)
            frame[random() % 64] = static_cast<char>(random());
        std::vector<int> descriptors(random() % 3, file);
        frame_probe_set(frame.data(), "descriptor_count", descriptors.size());
        (void)raw.Send(frame, descriptors);
    }
    close(file);
    ExpectAnswers(keeper);
}

TEST(Protocol, ChecksPartsAndNames)
{
    Keeper keeper;
    Raw raw(keeper.path());
    auto refused = [&](const Bytes &frame) {
        return raw.Ask(frame) == MOIETY_E_INVALID;
    };
    EXPECT_TRUE(refused(CreateFrame("")));
    EXPECT_TRUE(refused(CreateFrame("a/b")));
    Bytes frame = CreateFrame("r");
    frame_probe_set(frame.data(), "part_count", 0);
    EXPECT_TRUE(refused(frame));
    frame = CreateFrame("r");
    frame_probe_part(frame.data(), 0, 1, 2 * kMiB, 0);
    EXPECT_TRUE(refused(frame));
    frame_probe_part(frame.data(), 0, 1, 2 * kMiB + 1, 2 * kMiB);
    EXPECT_TRUE(refused(frame));
    frame_probe_part(frame.data(), 0, 1, UINT64_MAX, UINT64_MAX);
    EXPECT_TRUE(refused(frame));
    frame_probe_part(frame.data(), 0, 1, UINT64_MAX - 2 * kMiB + 1, 2 * kMiB);
    EXPECT_EQ(MOIETY_E_TOO_LARGE, raw.Ask(frame));
    // Twice the same device; together more than 64 bits.
    frame_probe_set(frame.data(), "part_count", 2);
    frame_probe_part(frame.data(), 0, 1, 2 * kMiB, 2 * kMiB);
    frame_probe_part(frame.data(), 1, 1, 2 * kMiB, 2 * kMiB);
    EXPECT_TRUE(refused(frame));
    uint64_t half = UINT64_C(1) << 63;
    frame_probe_part(frame.data(), 0, 1, half, half);
    frame_probe_part(frame.data(), 1, 2, half, half);
    EXPECT_EQ(MOIETY_E_TOO_LARGE, raw.Ask(frame));
    // No end of the name.
    Bytes endless = CreateFrame(std::string(256, 'x'));
    EXPECT_EQ(MOIETY_E_CORRUPT, raw.Ask(endless));
}

TEST(Protocol, KeepsNoDescriptorThatIsNoMemory)
{
    Keeper keeper;
    Raw raw(keeper.path());
    ASSERT_EQ(MOIETY_OK, raw.Ask(CreateFrame("r", 2)));
    Bytes put = Frame("put");
    frame_probe_set(put.data(), "token", 1);
    frame_probe_set(put.data(), "descriptor_count", 1);
    int ends[2];
    ASSERT_EQ(0, pipe(ends));
    EXPECT_EQ(MOIETY_E_INVALID, raw.Ask(put, {ends[0]}));
    int zero = open("/dev/zero", O_RDONLY);
    EXPECT_EQ(MOIETY_E_INVALID, raw.Ask(put, {zero}));
    int file = open("/proc/self/exe", O_RDONLY);
    EXPECT_EQ(MOIETY_E_INVALID, raw.Ask(put, {file}));
    // Beyond the region, and none.
    int memory = MakeMemfd();
    frame_probe_set(put.data(), "first", 2);
    EXPECT_EQ(MOIETY_E_INVALID, raw.Ask(put, {memory}));
    frame_probe_set(put.data(), "first", 0);
    frame_probe_set(put.data(), "part", 1);
    EXPECT_EQ(MOIETY_E_INVALID, raw.Ask(put, {memory}));
    frame_probe_set(put.data(), "part", 0);
    frame_probe_set(put.data(), "token", 2);
    EXPECT_EQ(MOIETY_E_STALE, raw.Ask(put, {memory}));
    frame_probe_set(put.data(), "token", 1);
    EXPECT_EQ(MOIETY_OK, raw.Ask(put, {memory}));
    // One of two is there.
    Bytes commit = Frame("commit");
    frame_probe_set(commit.data(), "token", 1);
    EXPECT_EQ(MOIETY_E_INVALID, raw.Ask(commit));
    frame_probe_set(put.data(), "first", 1);
    EXPECT_EQ(MOIETY_OK, raw.Ask(put, {memory}));
    // A layout that can still be changed.
    frame_probe_set(commit.data(), "descriptor_count", 1);
    EXPECT_EQ(MOIETY_E_INVALID, raw.Ask(commit, {memory}));
    int large = MakeMemfd(kMiB + 1);
    EXPECT_EQ(0,
              fcntl(large, F_ADD_SEALS,
                    F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE));
    EXPECT_EQ(MOIETY_E_INVALID, raw.Ask(commit, {large}));
    frame_probe_set(commit.data(), "descriptor_count", 0);
    EXPECT_EQ(MOIETY_OK, raw.Ask(commit));
    for (int one : {ends[0], ends[1], zero, file, memory, large})
        close(one);
}

TEST(Protocol, CutsOffAClientThatDoesNotAcknowledge)
{
    Keeper keeper;
    Raw raw(keeper.path());
    int memory = MakeMemfd();
    ASSERT_EQ(MOIETY_OK, raw.Ask(CreateFrame("r")));
    Bytes put = Frame("put");
    frame_probe_set(put.data(), "token", 1);
    frame_probe_set(put.data(), "descriptor_count", 1);
    ASSERT_EQ(MOIETY_OK, raw.Ask(put, {memory}));
    close(memory);
    Bytes fetch = Frame("fetch");
    frame_probe_set(fetch.data(), "token", 1);
    ASSERT_EQ(MOIETY_OK, raw.Ask(fetch));
    EXPECT_EQ(1U, raw.got_descriptors());
    ASSERT_TRUE(raw.Send(Frame("acknowledge")));
    ASSERT_EQ(MOIETY_OK, raw.Ask(fetch));
    // Not now.
    EXPECT_TRUE(raw.IsCutOff());
    // Another request in place of it.
    Raw other(keeper.path());
    frame_probe_set(fetch.data(), "token", 1);
    ASSERT_EQ(MOIETY_OK, other.Ask(fetch));
    EXPECT_TRUE(other.Send(Frame("hello")));
    EXPECT_TRUE(other.IsCutOff());
    ExpectAnswers(keeper);
}

TEST(Protocol, CutsOffAClientThatOnlySends)
{
    Keeper keeper;
    Raw raw(keeper.path());
    Bytes frame = Frame("list");
    for (int i = 0; i < 100000 && raw.Send(frame); i++)
        continue;
    EXPECT_TRUE(raw.IsCutOff());
    ExpectAnswers(keeper);
}

// A committed region of one handle, by the client whose token is `token`.
void Commit(Raw &raw, const std::string &name, uint64_t token)
{
    Bytes create = CreateFrame(name);
    Bytes put = Frame("put");
    Bytes commit = Frame("commit");
    int memory = MakeMemfd();
    for (Bytes *frame : {&create, &put, &commit})
        frame_probe_set(frame->data(), "token", token);
    frame_probe_set(put.data(), "descriptor_count", 1);
    EXPECT_EQ(MOIETY_OK, raw.Ask(create));
    EXPECT_EQ(MOIETY_OK, raw.Ask(put, {memory}));
    EXPECT_EQ(MOIETY_OK, raw.Ask(commit));
    close(memory);
}

// The request of a lease.
int AskOf(Raw &raw, const char *kind, const std::string &name, uint64_t token,
          uint64_t is_writer = 0)
{
    Bytes frame = Frame(kind);
    frame_probe_name(frame.data(), name.data(), name.size());
    frame_probe_set(frame.data(), "token", token);
    frame_probe_set(frame.data(), "is_writer", is_writer);
    return raw.Ask(frame);
}

// The state of the first region; 0: there is none.
uint64_t FirstState(Raw &raw)
{
    EXPECT_EQ(MOIETY_OK, raw.Ask(Frame("list")));
    return frame_probe_get(raw.reply().data(), "number")
               ? frame_probe_get(raw.reply().data(), "state")
               : 0;
}

TEST(Protocol, HasOneLeaseForAToken)
{
    Keeper keeper;
    Raw raw(keeper.path());
    Commit(raw, "r", 1);
    Commit(raw, "s", 2);
    EXPECT_EQ(MOIETY_OK, AskOf(raw, "close", "r", 1));
    EXPECT_EQ(MOIETY_OK, AskOf(raw, "open", "r", 3));
    EXPECT_EQ(MOIETY_OK, AskOf(raw, "open", "r", 3));
    // A reader that became a writer so would be one that nobody knows.
    EXPECT_EQ(MOIETY_E_INVALID, AskOf(raw, "open", "r", 3, 1));
    EXPECT_EQ(MOIETY_E_INVALID, AskOf(raw, "open", "s", 3));
    Bytes create = CreateFrame("t");
    frame_probe_set(create.data(), "token", 3);
    EXPECT_EQ(MOIETY_E_INVALID, raw.Ask(create));
    EXPECT_EQ(MOIETY_OK, AskOf(raw, "close", "r", 3));
    EXPECT_EQ(MOIETY_OK, AskOf(raw, "open", "r", 4, 1));
    EXPECT_EQ(MOIETY_OK, AskOf(raw, "open", "r", 4, 1));
    EXPECT_EQ(MOIETY_OK, AskOf(raw, "close", "r", 4));
    EXPECT_EQ(MOIETY_E_STALE, AskOf(raw, "open", "r", 5));
}

TEST(Protocol, KeepsSoManyRegionsAndNoMore)
{
    Keeper keeper;
    Raw raw(keeper.path());
    int status = MOIETY_OK;
    uint64_t count = 0;
    while (status == MOIETY_OK && count < 2000) {
        Bytes create = CreateFrame("r" + std::to_string(++count), 4096);
        frame_probe_set(create.data(), "token", count);
        status = raw.Ask(create);
    }
    // Or a system that gives a process few descriptors.
    EXPECT_TRUE(status == MOIETY_E_BUDGET || status == MOIETY_E_NO_HOST_MEMORY)
        << status;
    EXPECT_GE(1025U, count);
    EXPECT_EQ(MOIETY_OK, AskOf(raw, "close", "r1", 1));
    EXPECT_EQ(MOIETY_OK, raw.Ask(CreateFrame("again")));
}

TEST(Keeper, ServesWhileACloseBlocks)
{
    Keeper keeper;
    Raw raw(keeper.path());
    BlockingClose blocking;
    Bytes hello = Frame("hello");
    frame_probe_set(hello.data(), "descriptor_count", 1);
    int given = blocking.Give();
    // The keeper's close has to be the last, so this one comes before it.
    const pid_t server = keeper.server();
    SignalOne(server, SIGSTOP);
    EXPECT_TRUE(raw.Send(hello, {given}));
    close(given);
    SignalOne(server, SIGCONT);
    ASSERT_FALSE(raw.Receive().empty());
    Commit(raw, "first", 1);
    EXPECT_EQ(MOIETY_OK, AskOf(raw, "close", "first", 1));
    EXPECT_EQ(MOIETY_OK, AskOf(raw, "drop", "first", 0));
    // More clients come and go than what waits has room for.
    for (int i = 0; i < 5000; i++)
        ExpectAnswers(keeper);
    Commit(raw, "second", 2);
    EXPECT_EQ(MOIETY_OK, AskOf(raw, "fetch", "second", 2));
    EXPECT_EQ(1U, raw.got_descriptors());
    ASSERT_TRUE(raw.Send(Frame("acknowledge")));
    // The memory waits for its close, and counts until then.
    EXPECT_EQ(uint64_t{MOIETY_REGION_DROPPED}, FirstState(raw));
    blocking.Release();
    EXPECT_TRUE(Eventually(
        [&] { return FirstState(raw) == uint64_t{MOIETY_REGION_COMMITTED}; }));
}

TEST(Keeper, AcceptsAgainAlsoWhileItIsBusy)
{
    Limits limits;
    limits.descriptors = 32;
    Keeper keeper({}, limits);
    Raw busy(keeper.path());
    std::vector<int> sockets;
    for (int i = 0; i < 60; i++)
        sockets.push_back(RawConnect(keeper.path()));
    Raw last(keeper.path());
    ASSERT_TRUE(last.Send(Frame("hello")));
    for (int socket : sockets)
        close(socket);
    // Without a pause between two requests.
    for (int i = 0; i < 2000000 && !last.HasReply(); i++)
        ASSERT_EQ(MOIETY_OK, busy.Ask(Frame("list")));
    EXPECT_TRUE(last.HasReply());
}

TEST(Keeper, PausesWithoutDescriptorsAndLives)
{
    Limits limits;
    limits.descriptors = 32;
    Keeper keeper({}, limits);
    std::vector<int> sockets;
    for (int i = 0; i < 60; i++)
        sockets.push_back(RawConnect(keeper.path()));
    {
        Raw last(keeper.path());
        ASSERT_TRUE(last.Send(Frame("hello")));
        for (int socket : sockets)
            close(socket);
        EXPECT_FALSE(last.Receive().empty());
    }
    ExpectAnswers(keeper);
}

TEST(Keeper, HasNoDriver)
{
    Keeper keeper;
    for (pid_t pid : {keeper.vault_pid(), keeper.server()}) {
        std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
        std::stringstream text;
        text << maps.rdbuf();
        EXPECT_NE(std::string::npos, text.str().find("moiety-serve"));
        EXPECT_EQ(std::string::npos, text.str().find("libcuda"));
        EXPECT_EQ(std::string::npos, text.str().find("libnvidia"));
    }
    std::ifstream program("serve/keeper/moiety-serve", std::ios::binary);
    std::stringstream bytes;
    bytes << program.rdbuf();
    EXPECT_LT(1000U, bytes.str().size());
    for (const char *word : {"libcuda", "cuInit", "dlopen"})
        EXPECT_EQ(std::string::npos, bytes.str().find(word)) << word;
}

TEST(Keeper, IsTheOnlyOneOfItsPath)
{
    Keeper keeper;
    Process second({"serve/keeper/moiety-serve", "--socket", keeper.path()});
    EXPECT_EQ(1, second.Wait());
    ExpectAnswers(keeper);
    struct stat status;
    ASSERT_EQ(0, stat(keeper.path().c_str(), &status));
    EXPECT_EQ(0600U, status.st_mode & 07777);
    EXPECT_EQ(0, keeper.Stop());
    EXPECT_NE(0, access(keeper.path().c_str(), F_OK));
}

TEST(Keeper, TakesASocketWhoseKeeperIsDeadAndNothingElse)
{
    Folder folder;
    std::string path = folder.Path("keeper");
    auto start = [&] {
        return std::make_unique<Process>(std::vector<std::string>{
            "serve/keeper/moiety-serve", "--socket", path});
    };
    {
        std::ofstream file(path);
        file << "mine";
    }
    EXPECT_EQ(1, start()->Wait());
    EXPECT_EQ(0, access(path.c_str(), F_OK));
    unlink(path.c_str());
    auto first = start();
    pid_t orphan = -1;
    ASSERT_TRUE(
        Eventually([&] { return (orphan = ChildOf(first->pid())) > 0; }));
    first->Signal(SIGKILL);
    first->Wait();
    // The process for clients still serves without its vault.
    EXPECT_EQ(1, start()->Wait());
    SignalOne(orphan, SIGKILL);
    ASSERT_TRUE(Eventually([&] {
        int socket = RawConnect(path);
        if (socket >= 0)
            close(socket);
        return socket < 0;
    }));
    auto last = start();
    EXPECT_TRUE(Eventually([&] {
        int socket = RawConnect(path);
        if (socket >= 0)
            close(socket);
        return socket >= 0;
    }));
}

TEST(Keeper, RefusesAnotherUser)
{
    // Only root can be another user, and Bazel's sandbox has no other: the target
    // protocol_test runs outside of it.
    const int kNoSuchUser = 100;
    if (geteuid() != 0)
        GTEST_SKIP() << "not root: no process of another user can be started";
    Keeper keeper;
    ASSERT_EQ(0, chmod(keeper.path().c_str(), 0666));
    std::string folder = keeper.path().substr(0, keeper.path().rfind('/'));
    ASSERT_EQ(0, chmod(folder.c_str(), 0755));
    for (uid_t user : {1000U, 65534U}) {
        pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            if (setgid(user) != 0 || setuid(user) != 0)
                _exit(kNoSuchUser);
            Raw raw(keeper.path());
            Bytes frame = raw.Receive();
            _exit(frame.empty() ? 101
                                : static_cast<int>(
                                      frame_probe_get(frame.data(), "status")));
        }
        int status = 0;
        ASSERT_EQ(child, waitpid(child, &status, 0));
        if (WEXITSTATUS(status) == kNoSuchUser)
            GTEST_SKIP() << "this user namespace has no user " << user;
        EXPECT_EQ(MOIETY_E_INVALID, WEXITSTATUS(status)) << user;
    }
    ExpectAnswers(keeper);
}

TEST(Keeper, SaysHowItIsUsed)
{
    Folder folder;
    std::string path = folder.Path("keeper");
    const std::vector<std::vector<std::string>> bad = {
        {},
        {"--socket"},
        {"--socket", path, "--limit", "many"},
        {"--socket", path, "--limit", "0"},
        {"--socket", path, "--limit", "99999999999G"},
        {"--socket", path, "--what"}};
    for (std::vector<std::string> arguments : bad) {
        arguments.insert(arguments.begin(), "serve/keeper/moiety-serve");
        Process process(arguments);
        EXPECT_EQ(2, process.Wait());
    }
    Process absent({"serve/keeper/moiety-serve", "--socket", path, "--drain"});
    EXPECT_EQ(1, absent.Wait());
    Process longer({"serve/keeper/moiety-serve", "--socket",
                    "/tmp/" + std::string(107, 'x')});
    EXPECT_EQ(1, longer.Wait());
}

TEST(Keeper, DropsAllWhenItIsDrained)
{
    Keeper keeper;
    Raw raw(keeper.path());
    Commit(raw, "r1", 1);
    Commit(raw, "r2", 2);
    Process drain(
        {"serve/keeper/moiety-serve", "--socket", keeper.path(), "--drain"});
    EXPECT_EQ("2 regions dropped", drain.Read());
    EXPECT_EQ(0, drain.Wait());
}

} // namespace
