// SPDX-License-Identifier: Apache-2.0
//
// What a keeper is as a program: its socket, its user, its signals, its two
// processes.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "moiety/region.h"
#include "tests/serve/frame_probe.h"
#include "tests/serve/keeper_under_test.h"
#include "tests/serve/peer_probe.h"
#include "tests/serve/raw_client.h"

namespace
{

using namespace serve_test;

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

void ExpectAnswers(const Keeper &keeper)
{
    EXPECT_TRUE(IsAnswered(keeper.path()));
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
    EXPECT_EQ(1U, raw.descriptors().size());
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
    // Then clients take the descriptors that are left.
    PutAll(busy, 64);
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
    Raw first(keeper.path());
    PutAll(first, 64);
    std::vector<int> sockets;
    for (int i = 0; i < 60; i++)
        sockets.push_back(RawConnect(keeper.path()));
    {
        Raw last(keeper.path());
        ASSERT_TRUE(last.Send(Frame("hello")));
        for (int socket : sockets)
            close(socket);
        // It is answered, or refused while the others still count; its frame, which
        // nobody has read, can then hide the reason.
        (void)last.Receive();
    }
    EXPECT_TRUE(Eventually([&] { return IsAnswered(keeper.path()); }));
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
    ASSERT_TRUE(Eventually([&] { return IsAnswered(path); }));
    first->Signal(SIGKILL);
    first->Wait();
    // The process for clients still serves without its vault.
    EXPECT_EQ(1, start()->Wait());
    SignalOne(orphan, SIGKILL);
    ASSERT_TRUE(Eventually([&] { return !Connects(path); }));
    auto last = start();
    EXPECT_TRUE(Eventually([&] { return Connects(path); }));
}

TEST(Keeper, RefusesThePeerOfAnotherUser)
{
    int sockets[2];
    ASSERT_EQ(0,
              socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets));
    const uid_t own = geteuid();
    EXPECT_EQ(MOIETY_OK, peer_probe_ask(sockets[0], own, own));
    EXPECT_EQ(MOIETY_OK, peer_probe_ask(sockets[0], own + 1, own + 1));
    EXPECT_EQ(MOIETY_E_INVALID, peer_probe_ask(sockets[0], own + 1, own));
    EXPECT_EQ(MOIETY_E_INVALID, peer_probe_ask(sockets[0], own, own + 1));
    // All users of other namespaces.
    EXPECT_EQ(MOIETY_E_INVALID, peer_probe_ask(sockets[0], 65534, 65534));
    close(sockets[0]);
    close(sockets[1]);
}

// Of a process that becomes the user: the keeper's status, and what is not one.
constexpr int kIsNoSuchUser = 100;
constexpr int kIsNotRefused = 101;

int AskAs(uid_t user, const std::string &path)
{
    if (user == geteuid() || setgid(user) != 0 || setuid(user) != 0)
        return kIsNoSuchUser;
    Raw raw(path);
    Bytes refusal = raw.Receive();
    // The lease of the keeper's own user, after the refusal.
    if (AskOf(raw, "drop", "committed", 0) != -1 ||
        AskOf(raw, "commit", "written", 1) != -1 ||
        raw.Ask(PutFrame(), {raw.socket()}) != -1 || refusal.empty())
        return kIsNotRefused;
    return static_cast<int>(frame_probe_get(refusal.data(), "status"));
}

TEST(Keeper, RefusesProcessesOfAnotherUser)
{
    Keeper keeper;
    Raw own(keeper.path());
    Commit(own, "committed", 2);
    ASSERT_EQ(MOIETY_OK, own.Ask(CreateFrame("written")));
    ASSERT_EQ(0, chmod(keeper.path().c_str(), 0666));
    std::string folder = keeper.path().substr(0, keeper.path().rfind('/'));
    ASSERT_EQ(0, chmod(folder.c_str(), 0755));
    for (uid_t user : {1000U, 65534U}) {
        pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0)
            _exit(AskAs(user, keeper.path()));
        int status = 0;
        ASSERT_EQ(child, waitpid(child, &status, 0));
        // Only root can be another user, and Bazel's sandbox has no other: the
        // test before this one needs neither.
        if (WEXITSTATUS(status) == kIsNoSuchUser)
            std::printf("no process can become user %u\n", user);
        else
            EXPECT_EQ(MOIETY_E_INVALID, WEXITSTATUS(status)) << user;
    }
    EXPECT_EQ(uint64_t{MOIETY_REGION_COMMITTED}, FirstState(own));
    EXPECT_EQ(MOIETY_OK, own.Ask(PutFrame(), {MakeMemfd()}));
    EXPECT_EQ(MOIETY_OK, AskOf(own, "commit", "written", 1));
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
        {"--socket", path, "--limit", "8GB"},
        {"--socket", path, "--limit", "8iB"},
        {"--socket", path, "--limit", "8GiBs"},
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

bool ListIs(Worker &worker, const std::string &wanted)
{
    return Eventually([&] { return worker.Must("list").text == wanted; });
}

TEST(Keeper, TakesNoRegionsAfterItsSignalAndEndsWithTheLastOne)
{
    Keeper keeper;
    Worker writer(keeper.path());
    Worker reader(keeper.path());
    writer.Must("connect");
    reader.Must("connect");
    writer.Must("create 0 half 4 2 1");
    reader.Must("create 0 whole 4 2 1");
    reader.Must("fill 0 7");
    reader.Must("commit 0");
    // To both processes, as systemd does.
    SignalOne(keeper.server(), SIGUSR1);
    keeper.Signal(SIGUSR1);
    EXPECT_TRUE(ListIs(reader, "half:4:0:4:1 whole:4:1:4:1"));
    for (int i = 0; i < 2; i++) {
        Reply refused = reader.Do("create 1 more 4 2 1");
        EXPECT_EQ(MOIETY_E_BUDGET, refused.status);
        EXPECT_NE(std::string::npos, refused.text.find("drained"));
        EXPECT_EQ(MOIETY_E_STALE, reader.Do("open 1 whole 0 1").status);
        EXPECT_EQ(MOIETY_E_STALE, writer.Do("commit 0").status);
        // The vault remembers.
        keeper.KillServer();
    }
    EXPECT_EQ(1U, reader.Must("holds 0 7").value);
    writer.Must("close 0");
    EXPECT_TRUE(ListIs(reader, "whole:4:1:4:1"));
    reader.Kill();
    EXPECT_EQ(0, keeper.Wait());
    EXPECT_NE(0, access(keeper.path().c_str(), F_OK));
}

TEST(Keeper, WithoutRegionsEndsAtItsSignal)
{
    Keeper keeper;
    keeper.Signal(SIGUSR1);
    EXPECT_EQ(0, keeper.Wait());
}

TEST(Keeper, OutlivesTheReaderOfItsMessages)
{
    Limits limits;
    limits.has_broken_stderr = true;
    Keeper keeper({}, limits);
    Raw raw(keeper.path());
    Commit(raw, "r", 1);
    // The vault says that it starts another.
    keeper.KillServer();
    Raw again(keeper.path());
    EXPECT_EQ(uint64_t{MOIETY_REGION_COMMITTED}, FirstState(again));
}

// A process that asks while the server stands still, and has ended when it goes on.
void AskAndEnd(const Keeper &keeper, const char *kind, uint64_t is_writer)
{
    int ready[2];
    int go[2];
    char one = 0;
    ASSERT_TRUE(pipe(ready) == 0 && pipe(go) == 0);
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        Raw raw(keeper.path());
        Bytes frame = Frame(kind);
        frame_probe_name(frame.data(), "r", 1);
        frame_probe_set(frame.data(), "token", 9);
        frame_probe_set(frame.data(), "is_writer", is_writer);
        _exit(raw.Ask(Frame("hello")) != MOIETY_OK ||
              write(ready[1], &one, 1) != 1 || read(go[0], &one, 1) != 1 ||
              !raw.Send(frame));
    }
    const pid_t server = keeper.server();
    int status = -1;
    EXPECT_EQ(1, read(ready[0], &one, 1));
    SignalOne(server, SIGSTOP);
    EXPECT_EQ(1, write(go[1], &one, 1));
    EXPECT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
    SignalOne(server, SIGCONT);
    for (int end : {ready[0], ready[1], go[0], go[1]})
        close(end);
}

TEST(Keeper, DoesNothingForAProcessThatHasEnded)
{
    Keeper keeper;
    Raw raw(keeper.path());
    Commit(raw, "r", 1);
    EXPECT_EQ(MOIETY_OK, AskOf(raw, "close", "r", 1));
    AskAndEnd(keeper, "drop", 0);
    for (int i = 0; i < 20; i++)
        EXPECT_EQ(uint64_t{MOIETY_REGION_COMMITTED}, FirstState(raw));
    // A writer that ends takes the region with it.
    AskAndEnd(keeper, "open", 1);
    for (int i = 0; i < 20; i++)
        EXPECT_EQ(uint64_t{MOIETY_REGION_COMMITTED}, FirstState(raw));
}

} // namespace
