// SPDX-License-Identifier: Apache-2.0
//
// Clients that break the protocol.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/serve/frame_probe.h"
#include "tests/serve/keeper_under_test.h"
#include "tests/serve/raw_client.h"

namespace
{

using namespace serve_test;

void ExpectAnswers(const Keeper &keeper)
{
    EXPECT_TRUE(IsAnswered(keeper.path()));
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
    Bytes put = PutFrame();
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
    int large = MakeMemfd(kMiB + 1, true);
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
    Bytes put = PutFrame();
    ASSERT_EQ(MOIETY_OK, raw.Ask(put, {memory}));
    close(memory);
    Bytes fetch = Frame("fetch");
    frame_probe_set(fetch.data(), "token", 1);
    ASSERT_EQ(MOIETY_OK, raw.Ask(fetch));
    EXPECT_EQ(1U, raw.descriptors().size());
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

// What another process can do to a region that is written under token 1.
bool IsRefusedAsAStranger(const std::string &path)
{
    Raw raw(path);
    const int memory = MakeMemfd();
    return raw.Ask(PutFrame(), {memory}) == MOIETY_E_STALE &&
           AskOf(raw, "commit", "r", 1) == MOIETY_E_STALE &&
           AskOf(raw, "fetch", "r", 1) == MOIETY_E_STALE &&
           AskOf(raw, "layout", "r", 1) == MOIETY_E_STALE &&
           AskOf(raw, "report", "r", 1) == MOIETY_E_STALE &&
           AskOf(raw, "drop", "r", 1) == MOIETY_E_IN_USE &&
           AskOf(raw, "open", "r", 1) == MOIETY_E_IN_USE &&
           AskOf(raw, "open", "r", 1, 1) == MOIETY_E_IN_USE &&
           raw.Ask(CreateFrame("r")) == MOIETY_E_IN_USE &&
           // It has no such lease, so it is as closed.
           AskOf(raw, "close", "r", 1) == MOIETY_OK;
}

TEST(Protocol, KnowsTheLeasesOfAProcessByNoOther)
{
    Keeper keeper;
    Raw own(keeper.path());
    ASSERT_EQ(MOIETY_OK, own.Ask(CreateFrame("r")));
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0)
        _exit(!IsRefusedAsAStranger(keeper.path()));
    int status = -1;
    EXPECT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
    const int memory = MakeMemfd();
    EXPECT_EQ(MOIETY_OK, own.Ask(PutFrame(), {memory}));
    EXPECT_EQ(MOIETY_OK, AskOf(own, "commit", "r", 1));
    EXPECT_EQ(uint64_t{MOIETY_REGION_COMMITTED}, FirstState(own));
    close(memory);
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

// Answers a greeting, or ends the connection as a server that was killed does.
void Greet(int listener, bool answers)
{
    const int socket = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    Bytes frame(frame_probe_bytes());
    const auto bytes = static_cast<ssize_t>(frame.size());
    EXPECT_EQ(bytes, read(socket, frame.data(), frame.size()));
    if (answers) {
        EXPECT_EQ(bytes, write(socket, frame.data(), frame.size()));
    }
    close(socket);
}

TEST(Client, ConnectsThoughTheServerEndsMeanwhile)
{
    Folder folder;
    const std::string path = folder.Path("keeper");
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ASSERT_EQ(0, bind(listener, reinterpret_cast<sockaddr *>(&address),
                      sizeof address));
    ASSERT_EQ(0, listen(listener, 8));
    Worker worker(path);
    std::thread keeper([&] {
        Greet(listener, false);
        Greet(listener, false);
        Greet(listener, true);
    });
    worker.Must("connect");
    // Nobody comes any more, if the client gave up.
    shutdown(listener, SHUT_RDWR);
    keeper.join();
    close(listener);
}

} // namespace
