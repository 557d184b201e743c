// SPDX-License-Identifier: Apache-2.0
//
// Regions between processes, through a keeper.
#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/serve/keeper_under_test.h"

namespace
{

using namespace serve_test;

bool ListIs(Worker &worker, const std::string &wanted)
{
    return Eventually([&] { return worker.Must("list").text == wanted; });
}

TEST(Region, OutlivesItsMaker)
{
    Keeper keeper;
    {
        Worker maker(keeper.path());
        maker.Must("connect");
        // 129 handles, so two frames; and one handle of two is smaller.
        maker.Must("create 0 weights 258 2 1");
        maker.Must("fill 0 195939070");
        maker.Must("commit 0 shapes");
        maker.Must("create 1 tail 6 4 1");
        maker.Must("fill 1 77");
        maker.Must("commit 1");
        maker.Kill();
    }
    for (int i = 0; i < 2; i++) {
        Worker reader(keeper.path());
        reader.Must("connect");
        reader.Must("open 0 weights 0 1");
        EXPECT_EQ(1U, reader.Must("holds 0 195939070").value);
        Reply info = reader.Must("info 0");
        EXPECT_EQ(1U, info.value);
        EXPECT_EQ("shapes", info.text);
        reader.Must("open 1 tail 0 1 0 6");
        EXPECT_EQ(1U, reader.Must("holds 1 77").value);
        reader.Must("close 0");
        reader.Must("close 1");
        reader.Must("disconnect");
    }
}

TEST(Region, IsMadeWithoutAContext)
{
    Keeper keeper;
    Worker maker(keeper.path());
    maker.Must("connect");
    maker.Must("create 0 r 3 0 0");
    maker.Must("commit 0");
    Worker reader(keeper.path());
    reader.Must("connect");
    reader.Must("open 0 r 0 1 0 3");
    // It was rounded up.
    EXPECT_TRUE(ListIs(reader, "r:2:1:4:2"));
}

TEST(Region, OfAMakerThatDiedBeforeItsCommitGoes)
{
    Keeper keeper;
    Worker other(keeper.path());
    other.Must("connect");
    {
        Worker maker(keeper.path());
        maker.Must("connect");
        maker.Must("create 0 r 64 0 1");
        EXPECT_EQ("r:1:0:64:1", other.Must("list").text);
        EXPECT_EQ(MOIETY_E_IN_USE, other.Do("open 0 r 0 1").status);
        EXPECT_EQ(MOIETY_E_IN_USE, other.Do("create 0 r 64 0 1").status);
        EXPECT_EQ(MOIETY_E_IN_USE, other.Do("drop r").status);
        maker.Kill();
    }
    EXPECT_TRUE(ListIs(other, ""));
    EXPECT_EQ(MOIETY_E_STALE, other.Do("open 0 r 0 1").status);
    other.Must("create 0 r 64 0 1");
}

TEST(Region, OfADeadMakerGoesOnAKernelThatGivesNoPidfdOfAPeer)
{
    Limits older;
    older.lacks_peer_pidfd = true;
    Keeper keeper({}, older);
    Worker maker(keeper.path());
    Worker other(keeper.path());
    maker.Must("connect");
    other.Must("connect");
    maker.Must("create 0 kept 2 0 0");
    maker.Must("commit 0");
    maker.Must("create 1 r 2 0 0");
    keeper.KillServer();
    EXPECT_EQ("kept:2:1:2:1 r:3:0:2:1", other.Must("list").text);
    maker.Kill();
    EXPECT_TRUE(ListIs(other, "kept:2:1:2:0"));
}

TEST(Region, IsRefusedWhereNobodySeesTheEndOfAProcess)
{
    Limits older;
    older.lacks_peer_pidfd = true;
    older.lacks_pidfd_open = true;
    Keeper keeper({}, older);
    Worker worker(keeper.path());
    for (int i = 0; i < 2; i++) {
        Reply reply = worker.Do("connect");
        EXPECT_EQ(MOIETY_E_UNSUPPORTED, reply.status);
        EXPECT_NE(std::string::npos, reply.text.find("Operation not permitted"))
            << reply.text;
    }
}

TEST(Region, ThatIsClosedBeforeItsCommitGoes)
{
    Keeper keeper;
    Worker maker(keeper.path());
    maker.Must("connect");
    maker.Must("create 0 r 64 0 1");
    EXPECT_EQ(MOIETY_E_IN_USE, maker.Do("disconnect").status);
    maker.Must("close 0");
    EXPECT_TRUE(ListIs(maker, ""));
    maker.Must("disconnect");
}

TEST(Region, IsReadOnlyForReadersAndAfterItsCommit)
{
    Keeper keeper;
    Worker maker(keeper.path());
    maker.Must("connect");
    maker.Must("create 0 r 64 0 1");
    EXPECT_EQ(3U, maker.Must("access 0").value);
    maker.Must("fill 0 7");
    maker.Must("commit 0");
    EXPECT_NE(MOIETY_OK, maker.Do("commit 0").status);
    Worker reader(keeper.path());
    reader.Must("connect");
    reader.Must("open 0 r 0 1");
    EXPECT_EQ(1U, reader.Must("access 0").value);
    EXPECT_EQ(1U, maker.Must("access 0").value);
    Worker second(keeper.path());
    second.Must("connect");
    second.Must("open 0 r 0 1");
    EXPECT_EQ(1U, second.Must("holds 0 7").value);
}

TEST(Region, IsWrittenAgainByOneProcessAlone)
{
    Keeper keeper;
    Worker maker(keeper.path());
    Worker other(keeper.path());
    maker.Must("connect");
    other.Must("connect");
    maker.Must("create 0 r 64 0 1");
    maker.Must("fill 0 1");
    maker.Must("commit 0 one");
    EXPECT_EQ(MOIETY_E_IN_USE, other.Do("open 0 r 1 1").status);
    maker.Must("close 0");
    other.Must("open 0 r 1 1");
    EXPECT_EQ("one", other.Must("info 0").text);
    EXPECT_EQ(MOIETY_E_IN_USE, maker.Do("open 0 r 0 1").status);
    other.Must("fill 0 2");
    other.Must("commit 0 two");
    maker.Must("open 0 r 0 1");
    EXPECT_EQ(2U, maker.Must("info 0").value);
    EXPECT_EQ("two", maker.Must("info 0").text);
    EXPECT_EQ(1U, maker.Must("holds 0 2").value);
}

TEST(Region, ThatIsDroppedStaysForThoseWhoHoldIt)
{
    Keeper keeper({"--limit", "100M"});
    Worker maker(keeper.path());
    Worker reader(keeper.path());
    maker.Must("connect");
    reader.Must("connect");
    maker.Must("create 0 r 64 0 1");
    maker.Must("fill 0 9");
    maker.Must("commit 0");
    reader.Must("open 0 r 0 1");
    maker.Must("close 0");
    maker.Must("drop r");
    EXPECT_EQ(MOIETY_E_STALE, maker.Do("drop r").status);
    EXPECT_EQ("r:4:1:64:1", maker.Must("list").text);
    // Its bytes count, and its name does not.
    EXPECT_EQ(MOIETY_E_BUDGET, maker.Do("create 0 r 64 0 1").status);
    EXPECT_EQ(1U, reader.Must("holds 0 9").value);
    reader.Kill();
    EXPECT_TRUE(ListIs(maker, ""));
    maker.Must("create 0 r 64 0 1");
}

TEST(Region, NamesTheProcessesThatHoldIt)
{
    Keeper keeper;
    Worker maker(keeper.path());
    Worker reader(keeper.path());
    maker.Must("connect");
    reader.Must("connect");
    maker.Must("create 0 r 2 2 1");
    const std::string first = std::to_string(maker.pid());
    const std::string second = std::to_string(reader.pid());
    EXPECT_EQ(first, reader.Must("who r").text);
    maker.Must("commit 0");
    reader.Must("open 0 r 0 1");
    reader.Must("open 1 r 0 1");
    EXPECT_EQ(second + " " + first, maker.Must("who r").text);
    EXPECT_EQ(3U, maker.Must("who r").value);
    for (int i = 2; i < 20; i++)
        reader.Must("open " + std::to_string(i) + " r 0 0");
    EXPECT_EQ(second + " " + first, maker.Must("who r").text);
    reader.Kill();
    EXPECT_TRUE(Eventually([&] { return maker.Must("who r").text == first; }));
    // More than an entry names.
    std::vector<std::unique_ptr<Worker>> all;
    for (int i = 0; i < MOIETY_REGION_PIDS; i++) {
        all.push_back(std::make_unique<Worker>(keeper.path()));
        all.back()->Must("connect");
        all.back()->Must("open 0 r 0 0");
    }
    const std::string named = maker.Must("who r").text;
    EXPECT_EQ(MOIETY_REGION_PIDS - 1,
              std::count(named.begin(), named.end(), ' '));
    EXPECT_EQ(std::string::npos, named.find(first)) << named;
    EXPECT_EQ(MOIETY_REGION_PIDS + 1U, maker.Must("who r").value);
}

TEST(Region, HasAWantedAddressOrNone)
{
    Keeper keeper;
    Worker maker(keeper.path());
    Worker reader(keeper.path());
    maker.Must("connect");
    reader.Must("connect");
    maker.Must("create 0 r 64 0 1");
    maker.Must("commit 0");
    Reply first = reader.Must("open 0 r 0 1");
    std::string address = std::to_string(first.value);
    EXPECT_EQ(MOIETY_E_IN_USE, reader.Do("open 1 r 0 1 " + address).status);
    EXPECT_EQ(MOIETY_E_INVALID,
              reader.Do("open 1 r 0 1 " + address + " 32").status);
    EXPECT_EQ("r:2:1:64:2", maker.Must("list").text);
    // Far from all that is mapped.
    uint64_t far = first.value - (UINT64_C(256) << 30);
    EXPECT_EQ(far, reader.Must("open 2 r 0 1 " + std::to_string(far)).value);
}

TEST(Region, LosesNothingWhenTheServerIsKilled)
{
    Keeper keeper;
    Worker maker(keeper.path());
    Worker writer(keeper.path());
    maker.Must("connect");
    writer.Must("connect");
    writer.Must("create 0 half 64 2 1");
    writer.Must("fill 0 77");
    for (int i = 0; i < 5; i++) {
        std::string name = "r" + std::to_string(i);
        std::string word = std::to_string(1000 + i);
        maker.Must("create 0 " + name + " 64 2 1");
        maker.Must("fill 0 " + word);
        keeper.KillServer();
        maker.Must("commit 0 layout" + word);
        keeper.KillServer();
        maker.Must("close 0");
        maker.Must("open 0 " + name + " 0 1");
        EXPECT_EQ(1U, maker.Must("holds 0 " + word).value);
        EXPECT_EQ("layout" + word, maker.Must("info 0").text);
        maker.Must("close 0");
    }
    writer.Must("commit 0");
    maker.Kill();
    EXPECT_TRUE(ListIs(writer,
                       "half:2:1:64:1 r0:2:1:64:0 r1:2:1:64:0 r2:2:1:64:0 "
                       "r3:2:1:64:0 r4:2:1:64:0"));
    Worker reader(keeper.path());
    reader.Must("connect");
    for (int i = 0; i < 5; i++) {
        std::string name = "r" + std::to_string(i);
        reader.Must("open " + name.substr(1) + " " + name + " 0 1");
        EXPECT_EQ(1U, reader
                          .Must("holds " + name.substr(1) + " " +
                                std::to_string(1000 + i))
                          .value);
    }
    reader.Must("open 9 half 0 1");
    EXPECT_EQ(1U, reader.Must("holds 9 77").value);
}

TEST(Region, IsFencedWhileItsWriterCannotReachTheServer)
{
    Keeper keeper;
    Worker writer(keeper.path());
    Worker other(keeper.path());
    writer.Must("connect");
    other.Must("connect");
    writer.Must("create 0 r 64 0 1");
    keeper.KillServer();
    EXPECT_EQ("r:3:0:64:1", other.Must("list").text);
    EXPECT_EQ(MOIETY_E_IN_USE, other.Do("open 0 r 0 1").status);
    writer.Must("commit 0");
    EXPECT_EQ("r:2:1:64:1", other.Must("list").text);
    writer.Must("close 0");
    writer.Must("open 0 r 1 1");
    keeper.KillServer();
    EXPECT_EQ("r:3:1:64:1", other.Must("list").text);
    writer.Kill();
    EXPECT_TRUE(ListIs(other, ""));
}

TEST(Region, OfAMakerThatDiedWhileTheServerDidGoes)
{
    Keeper keeper;
    Worker writer(keeper.path());
    Worker other(keeper.path());
    writer.Must("connect");
    other.Must("connect");
    writer.Must("create 0 r 64 0 1");
    SignalOne(keeper.server(), SIGSTOP);
    writer.Kill();
    keeper.KillServer();
    EXPECT_TRUE(ListIs(other, ""));
}

TEST(Region, IsRefusedWithItsReason)
{
    Keeper keeper({"--limit", "1GiB"});
    Worker worker(keeper.path());
    worker.Must("connect");
    EXPECT_EQ(MOIETY_E_INVALID, worker.Do("create 0 a/b 64 0 1").status);
    EXPECT_EQ(
        MOIETY_E_INVALID,
        worker.Do("create 0 " + std::string(256, 'x') + " 64 0 1").status);
    EXPECT_EQ(MOIETY_E_INVALID, worker.Do("create 0 r 64 1 1").status);
    EXPECT_EQ(MOIETY_E_INVALID, worker.Do("create 0 r 0 0 1").status);
    EXPECT_EQ(MOIETY_E_TOO_LARGE, worker.Do("create 0 r 8194 2 1").status);
    Reply full = worker.Do("create 0 r 2048 0 1");
    EXPECT_EQ(MOIETY_E_BUDGET, full.status);
    EXPECT_NE(std::string::npos, full.text.find("1073741824")) << full.text;
    EXPECT_EQ(MOIETY_E_STALE, worker.Do("open 0 r 0 1").status);
    EXPECT_EQ(MOIETY_E_STALE, worker.Do("drop r").status);
    EXPECT_EQ("", worker.Must("list").text);
    worker.Must("create 0 " + std::string(255, 'x') + " 64 0 1");
    worker.Must("commit 0 " + std::string(60000, 'y'));
}

// What a process has done of its rounds; kOver: all.
constexpr unsigned kOver = ~0U;

// Rounds of one process; "" or what went wrong.
std::string WorkUnderLoad(const std::string &path, int number,
                          std::atomic<unsigned> *done)
{
    Worker worker(path);
    std::string name = " w" + std::to_string(number);
    // A drop whose answer was lost is asked again, and finds nothing.
    const std::string drop = "drop" + name;
    const std::vector<std::string> round = {
        "create 0" + name + " 16 2 1",
        "fill 0 " + std::to_string(number + 1),
        "commit 0 layout",
        "close 0",
        "open 0" + name + " 0 1",
        "holds 0 " + std::to_string(number + 1),
        "close 0",
        drop};
    if (worker.Do("connect").status != MOIETY_OK)
        return "connect";
    for (int i = 0; i < 8; i++) {
        for (const std::string &command : round) {
            Reply reply = worker.Do(command);
            bool is_right = reply.status == MOIETY_OK ||
                            (command == drop && reply.status == MOIETY_E_STALE);
            if (!is_right || (command[0] == 'h' && reply.value != 1))
                return command + ": " + reply.text;
            (*done)++;
        }
    }
    return "";
}

// A server that is killed at once answers nobody, and a client gives up after ten of
// them: each process gets on between two kills.
void AwaitEach(const std::array<std::atomic<unsigned>, 3> &done)
{
    unsigned before[3];
    for (size_t i = 0; i < done.size(); i++)
        before[i] = done[i];
    for (size_t i = 0; i < done.size(); i++)
        while (done[i] == before[i] && done[i] != kOver)
            std::this_thread::yield();
}

TEST(Region, LosesNothingWhenTheServerIsKilledUnderLoad)
{
    Keeper keeper;
    Worker maker(keeper.path());
    maker.Must("connect");
    maker.Must("create 0 kept 64 2 1");
    maker.Must("fill 0 321");
    maker.Must("commit 0 shapes");
    maker.Kill();
    std::array<std::atomic<unsigned>, 3> done = {};
    std::vector<std::string> wrong(3);
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++)
        threads.emplace_back([&, i] {
            auto at = static_cast<size_t>(i);
            wrong[at] = WorkUnderLoad(keeper.path(), i, &done[at]);
            done[at] = kOver;
        });
    unsigned kills = 0;
    while (done[0] != kOver || done[1] != kOver || done[2] != kOver) {
        keeper.KillServer();
        kills++;
        AwaitEach(done);
    }
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_LT(1U, kills);
    for (const std::string &one : wrong)
        EXPECT_EQ("", one);
    Worker reader(keeper.path());
    reader.Must("connect");
    EXPECT_TRUE(ListIs(reader, "kept:2:1:64:0"));
    reader.Must("open 0 kept 0 1");
    EXPECT_EQ(1U, reader.Must("holds 0 321").value);
    EXPECT_EQ("shapes", reader.Must("info 0").text);
}

TEST(Region, SaysThatItsKeeperIsGone)
{
    Keeper keeper;
    Worker worker(keeper.path());
    worker.Must("connect");
    worker.Must("create 0 r 64 0 1");
    EXPECT_EQ(0, keeper.Stop());
    EXPECT_EQ(MOIETY_E_PEER_GONE, worker.Do("create 1 s 64 0 1").status);
    EXPECT_EQ(MOIETY_E_PEER_GONE, worker.Do("commit 0").status);
    // Nobody knows whether readers are there.
    EXPECT_EQ(1U, worker.Must("access 0").value);
    EXPECT_EQ(MOIETY_E_PEER_GONE, worker.Do("commit 0").status);
    EXPECT_EQ(MOIETY_E_PEER_GONE, worker.Do("close 0").status);
    EXPECT_EQ(0U, worker.Must("live vmm").value);
    worker.Must("disconnect");
    EXPECT_EQ(MOIETY_E_PEER_GONE, worker.Do("connect").status);
}

// Each call of each entry fails, one at a time; a region has four handles.
TEST(Region, KeepsNothingOfACallThatFailed)
{
    const std::vector<std::string> both = {"cuDeviceGetCount",
                                           "cuDeviceGet",
                                           "cuDeviceGetUuid",
                                           "cuThreadExchangeStreamCaptureMode",
                                           "cuCtxPushCurrent",
                                           "cuCtxGetDevice",
                                           "cuCtxPopCurrent",
                                           "cuMemAddressReserve",
                                           "cuMemMap",
                                           "cuMemSetAccess",
                                           "cuMemRelease",
                                           "cuMemCreate",
                                           "cuMemUnmap",
                                           "cuMemAddressFree",
                                           "cuCtxGetApiVersion",
                                           "cuMemExportToShareableHandle",
                                           "cuMemImportFromShareableHandle"};
    Keeper keeper;
    Worker worker(keeper.path());
    worker.Must("connect");
    worker.Must("create 7 made 8 2 1");
    worker.Must("fill 7 5");
    worker.Must("commit 7");
    uint64_t live = worker.Must("live vmm").value;
    unsigned failures = 0;
    for (const std::string &entry : both) {
        for (int nth = 1; nth <= 5; nth++) {
            std::string fault = "faults " + entry +
                                ":nth=" + std::to_string(nth) +
                                ":code=CUDA_ERROR_UNKNOWN";
            worker.Must(fault);
            Reply made = worker.Do("create 0 r 8 2 1");
            if (made.status == MOIETY_OK) {
                worker.Must(fault);
                if (worker.Do("commit 0 layout").status != MOIETY_OK)
                    worker.Must("commit 0 layout");
                worker.Must(fault);
                if (worker.Do("close 0").status != MOIETY_OK)
                    worker.Must("close 0");
                worker.Must("drop r");
            }
            worker.Must(fault);
            Reply opened = worker.Do("open 0 made 0 1");
            worker.Must("faults none");
            if (opened.status == MOIETY_OK) {
                EXPECT_EQ(1U, worker.Must("holds 0 5").value);
                worker.Must("close 0");
            }
            failures += made.status != MOIETY_OK;
            failures += opened.status != MOIETY_OK;
            EXPECT_TRUE(ListIs(worker, "made:2:1:8:1")) << fault;
            EXPECT_EQ(live, worker.Must("live vmm").value) << fault;
        }
    }
    EXPECT_LT(30U, failures);
    worker.Must("close 7");
    worker.Must("disconnect");
}

} // namespace
