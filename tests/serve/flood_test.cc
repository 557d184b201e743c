// SPDX-License-Identifier: Apache-2.0
//
// More connections, leases and memory than a keeper has descriptors for: it refuses
// them with a reason, serves those that it has, and serves all when they are gone.
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "moiety/region.h"
#include "tests/serve/frame_probe.h"
#include "tests/serve/keeper_under_test.h"
#include "tests/serve/raw_client.h"

namespace
{

using namespace serve_test;

// MOIETY_TEST_CONNECTIONS.
constexpr unsigned kConnections = 300;
constexpr unsigned kFewDescriptors = 64;
// Descriptors of this process beside those of connections, at most.
constexpr unsigned kOthers = 64;
constexpr unsigned kHandles = 4 * kFewDescriptors;

// As many connections as are wanted and this process can have.
unsigned Possible(unsigned wanted)
{
    struct rlimit limit;
    EXPECT_EQ(0, getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = limit.rlim_max;
    EXPECT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
    if (limit.rlim_max >= wanted + kOthers)
        return wanted;
    std::printf("this process can have %llu descriptors\n",
                static_cast<unsigned long long>(limit.rlim_max));
    return static_cast<unsigned>(limit.rlim_max) - kOthers;
}

// By turns: says nothing, greets by half, greets and has no lease, asks and does not
// read.
void Begin(Raw &raw, unsigned number)
{
    Bytes frame = Frame(number % 4 == 3 ? "list" : "hello");
    if (number % 4 == 1)
        frame.resize(frame.size() / 2);
    if (number % 4 != 0)
        (void)raw.Send(frame);
    if (number % 4 == 2)
        (void)raw.Receive();
}

bool IsServed(const Keeper &keeper)
{
    Worker worker(keeper.path());
    Reply reply = worker.Do("connect");
    if (reply.status != MOIETY_OK) {
        EXPECT_EQ(MOIETY_E_NO_HOST_MEMORY, reply.status) << reply.text;
        EXPECT_NE(std::string::npos, reply.text.find("descriptors"))
            << reply.text;
        return false;
    }
    worker.Must("create 0 r 4 2 1");
    worker.Must("fill 0 5");
    worker.Must("commit 0 layout");
    worker.Must("close 0");
    worker.Must("open 0 r 0 1");
    EXPECT_EQ(1U, worker.Must("holds 0 5").value);
    worker.Must("close 0");
    worker.Must("drop r");
    return true;
}

TEST(Flood, OfConnectionsIsBoundedAndEnds)
{
    const unsigned count =
        Possible(NumberOf("MOIETY_TEST_CONNECTIONS", kConnections));
    Keeper keeper;
    const pid_t server = keeper.server();
    const size_t before = IdleDescriptors(keeper).server;
    Worker old(keeper.path());
    old.Must("connect");
    old.Must("create 0 kept 4 2 1");
    std::vector<std::unique_ptr<Raw>> all;
    for (unsigned i = 0; i < count; i++) {
        all.push_back(std::make_unique<Raw>(keeper.path()));
        Begin(*all.back(), i);
    }
    const bool is_served = IsServed(keeper);
    const size_t most = OpenDescriptors(server);
    // A client that was there before is served in either case.
    old.Must("fill 0 3");
    old.Must("commit 0");
    old.Must("close 0");
    all.clear();
    EXPECT_TRUE(Eventually([&] { return IsServed(keeper); }));
    old.Must("drop kept");
    old.Kill();
    EXPECT_TRUE(HasDescriptors(server, before));
    EXPECT_EQ(server, keeper.server());
    std::printf(
        "%u connections: the keeper had %zu descriptors; another client "
        "was %s\n",
        count, most, is_served ? "served" : "refused");
}

TEST(Flood, OfConnectionsOnFewDescriptorsIsBoundedAndEnds)
{
    Limits limits;
    limits.descriptors = kFewDescriptors;
    Keeper keeper({}, limits);
    const pid_t server = keeper.server();
    std::vector<std::unique_ptr<Raw>> all;
    for (unsigned i = 0; i < kConnections; i++) {
        all.push_back(std::make_unique<Raw>(keeper.path()));
        Begin(*all.back(), i);
    }
    EXPECT_FALSE(IsServed(keeper));
    EXPECT_GE(kFewDescriptors, OpenDescriptors(server));
    all.clear();
    EXPECT_TRUE(Eventually([&] { return IsServed(keeper); }));
    EXPECT_EQ(server, keeper.server());
}

TEST(Flood, OfMemoryLeavesDescriptorsForClients)
{
    Limits limits;
    limits.descriptors = kFewDescriptors;
    Keeper keeper({}, limits);
    {
        Raw raw(keeper.path());
        EXPECT_LT(kFewDescriptors / 4, PutAll(raw, kHandles));
        // Others see the region, and who has it.
        Worker other(keeper.path());
        other.Must("connect");
        EXPECT_EQ("r:1:0:512:1", other.Must("list").text);
        EXPECT_EQ(MOIETY_E_NO_HOST_MEMORY,
                  other.Do("create 0 s 20 2 0").status);
        EXPECT_EQ(MOIETY_OK, AskOf(raw, "close", "r", 1));
        EXPECT_TRUE(
            Eventually([&] { return other.Must("list").text.empty(); }));
        other.Must("create 0 s 20 2 0");
    }
    EXPECT_TRUE(IsServed(keeper));
}

TEST(Flood, OfMemoryOutlivesTheServer)
{
    Limits limits;
    limits.descriptors = kFewDescriptors;
    Keeper keeper({}, limits);
    Raw raw(keeper.path());
    const unsigned count = PutAll(raw, kHandles);
    keeper.KillServer();
    Raw again(keeper.path());
    // All that it took are there, and none behind them.
    EXPECT_EQ(MOIETY_E_INVALID, AskOf(again, "commit", "r", 1));
    EXPECT_EQ("region \"r\" lacks handle " + std::to_string(count),
              frame_probe_message(again.reply().data()));
    EXPECT_EQ(MOIETY_OK, AskOf(again, "close", "r", 1));
    EXPECT_TRUE(Eventually([&] { return IsServed(keeper); }));
}

TEST(Flood, OfLeasesLeavesDescriptorsForClients)
{
    Limits limits;
    limits.descriptors = kFewDescriptors;
    Keeper keeper({}, limits);
    {
        Raw raw(keeper.path());
        Commit(raw, "r", 1);
        int status = MOIETY_OK;
        for (uint64_t i = 2; i < 2 * kFewDescriptors && status == MOIETY_OK;
             i++)
            status = AskOf(raw, "open", "r", i);
        EXPECT_EQ(MOIETY_E_NO_HOST_MEMORY, status);
        Worker other(keeper.path());
        other.Must("connect");
        other.Must("drop r");
        EXPECT_EQ(MOIETY_OK, AskOf(raw, "close", "r", 2));
    }
    // The leases are this process's, and stay with it.
    EXPECT_TRUE(Eventually([&] {
        Worker other(keeper.path());
        return other.Must("connect").status == MOIETY_OK;
    }));
}

} // namespace
