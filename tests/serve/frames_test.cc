// SPDX-License-Identifier: Apache-2.0
//
// Frames of random and of changed bytes, with descriptors that nobody asked for:
// none of them ends the keeper, or costs it memory or descriptors.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "moiety/region.h"
#include "tests/serve/frame_probe.h"
#include "tests/serve/keeper_under_test.h"
#include "tests/serve/raw_client.h"

namespace
{

using namespace serve_test;
using Random = std::mt19937;

// MOIETY_TEST_FRAMES.
constexpr unsigned kFrames = 6000;
constexpr unsigned kProcesses = 2;
constexpr uint64_t kMostBytes = 64 * kMiB;

bool OneOf(Random &random, unsigned count)
{
    return Below(random, count) == 0;
}

// Files of kinds that a client can have; none is a device.
class Files
{
  public:
    Files()
    {
        int pipes[2];
        int sockets[2];
        EXPECT_EQ(0, pipe2(pipes, O_CLOEXEC));
        EXPECT_EQ(
            0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets));
        memory_ = MakeMemfd();
        layout_ = MakeMemfd(100, true);
        all_ = {memory_,
                layout_,
                MakeMemfd(2 * kMiB, true),
                pipes[0],
                pipes[1],
                sockets[0],
                sockets[1],
                open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
                open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    }
    ~Files()
    {
        for (int one : all_)
            close(one);
    }
    Files(const Files &) = delete;
    Files &operator=(const Files &) = delete;
    int memory() const
    {
        return memory_;
    }
    int layout() const
    {
        return layout_;
    }
    int Any(Random &random) const
    {
        return all_[random() % all_.size()];
    }

  private:
    int memory_;
    int layout_;
    std::vector<int> all_;
};

// A client that sends such frames on some connections at once.
class Attacker
{
  public:
    Attacker(const std::string &path, unsigned seed)
        : path_(path), random_(seed)
    {
    }
    void Send(unsigned count)
    {
        for (unsigned i = 0; i < count; i++) {
            std::unique_ptr<Raw> &raw = raws_[random_() % raws_.size()];
            if (!raw || OneOf(random_, 50))
                raw = std::make_unique<Raw>(path_);
            if (!SendOne(*raw))
                raw.reset();
        }
    }

  private:
    // A request that can be right, since names and tokens are few. Whether there is
    // an answer to it.
    bool MakeSound(Bytes *frame, std::vector<int> *descriptors)
    {
        static const char *const kinds[] = {
            "create", "create", "put",   "put",    "put",        "commit",
            "commit", "open",   "fetch", "layout", "close",      "drop",
            "list",   "drain",  "hello", "report", "acknowledge"};
        constexpr size_t kCount = sizeof kinds / sizeof kinds[0];
        const std::string kind = kinds[random_() % kCount];
        const std::string name = "r" + std::to_string(Below(random_, 4));
        if (kind == "create")
            *frame = CreateFrame(name, 1 + Below(random_, 3));
        else
            *frame = Frame(kind.c_str());
        frame_probe_name(frame->data(), name.data(), name.size());
        frame_probe_set(frame->data(), "token", 1 + Below(random_, 5));
        frame_probe_set(frame->data(), "first", Below(random_, 3));
        frame_probe_set(frame->data(), "is_writer", Below(random_, 2));
        frame_probe_set(frame->data(), "generation", Below(random_, 4));
        if (kind == "put")
            descriptors->assign(1 + Below(random_, 3), files_.memory());
        else if (kind == "commit" && OneOf(random_, 2))
            descriptors->assign(1, files_.layout());
        return kind != "acknowledge";
    }
    void Spoil(Bytes *frame)
    {
        const unsigned flips = 1 + Below(random_, 8);
        for (unsigned i = 0; i < flips; i++)
            (*frame)[random_() % frame->size()] = static_cast<char>(random_());
        if (OneOf(random_, 8))
            frame->resize(1 + random_() % (2 * frame->size()));
        if (OneOf(random_, 16))
            for (char &one : *frame)
                one = static_cast<char>(random_());
    }
    void Attach(const Raw &raw, std::vector<int> *descriptors)
    {
        const unsigned most = OneOf(random_, 100) ? 253 : 8;
        descriptors->clear();
        while (descriptors->size() < Below(random_, most + 1))
            descriptors->push_back(files_.Any(random_));
        if (OneOf(random_, 20))
            descriptors->push_back(raw.socket());
        descriptors->resize(std::min<size_t>(descriptors->size(), 253));
    }
    // False: the connection is over.
    bool SendOne(Raw &raw)
    {
        Bytes frame;
        std::vector<int> descriptors;
        bool has_answer = MakeSound(&frame, &descriptors);
        if (OneOf(random_, 4))
            Attach(raw, &descriptors);
        if (!OneOf(random_, 20))
            frame_probe_set(frame.data(), "descriptor_count",
                            descriptors.size());
        if (OneOf(random_, 3))
            Spoil(&frame);
        if (!raw.Send(frame, descriptors, MSG_DONTWAIT))
            return false;
        // It does not wait for an answer always; then it breaks the protocol.
        if (has_answer && !OneOf(random_, 8) && !raw.HasReply(1000))
            return false;
        return TakeReplies(raw);
    }
    bool TakeReplies(Raw &raw)
    {
        while (raw.HasReply()) {
            if (raw.Receive(MSG_DONTWAIT).empty())
                return false;
            if (!raw.descriptors().empty() && !OneOf(random_, 8) &&
                !raw.Send(Frame("acknowledge"), {}, MSG_DONTWAIT))
                return false;
        }
        return true;
    }

    const std::string path_;
    Random random_;
    Files files_;
    std::array<std::unique_ptr<Raw>, 8> raws_;
};

// A process of its own, whose leases end with it.
pid_t StartAttack(const std::string &path, unsigned seed, unsigned count)
{
    pid_t child = fork();
    EXPECT_GE(child, 0);
    if (child == 0) {
        Attacker(path, seed).Send(count);
        _exit(testing::Test::HasFailure());
    }
    return child;
}

// A region is made, read in another process, and dropped.
void ExpectServes(const Keeper &keeper, const std::string &name)
{
    Worker maker(keeper.path());
    Worker reader(keeper.path());
    maker.Must("connect");
    reader.Must("connect");
    maker.Must("create 0 " + name + " 8 2 1");
    maker.Must("fill 0 4711");
    maker.Must("commit 0 layout");
    reader.Must("open 0 " + name + " 0 1");
    EXPECT_EQ(1U, reader.Must("holds 0 4711").value);
    reader.Must("close 0");
    maker.Must("close 0");
    maker.Must("drop " + name);
}

// The attackers drop what is committed, and nothing else.
void ExpectServesAWriter(const Keeper &keeper)
{
    Worker writer(keeper.path());
    writer.Must("connect");
    writer.Must("create 0 meanwhile 8 2 1");
    writer.Must("fill 0 4711");
    EXPECT_EQ(1U, writer.Must("holds 0 4711").value);
    writer.Must("close 0");
}

TEST(Frames, OfAnyBytesCostTheKeeperNothing)
{
    const unsigned count = NumberOf("MOIETY_TEST_FRAMES", kFrames);
    Keeper keeper;
    ExpectServes(keeper, "before");
    const pid_t server = keeper.server();
    const Descriptors before = IdleDescriptors(keeper);
    const uint64_t bytes =
        ResidentBytes(server) + ResidentBytes(keeper.vault_pid());
    std::vector<pid_t> attackers;
    for (unsigned i = 0; i < kProcesses; i++)
        attackers.push_back(
            StartAttack(keeper.path(), 20261201 + i, count / kProcesses));
    ExpectServesAWriter(keeper);
    for (pid_t attacker : attackers) {
        int status = 0;
        EXPECT_EQ(attacker, waitpid(attacker, &status, 0));
        EXPECT_EQ(0, status);
    }
    ExpectServes(keeper, "after");
    {
        Raw raw(keeper.path());
        EXPECT_TRUE(Eventually([&] {
            EXPECT_EQ(MOIETY_OK, raw.Ask(Frame("drain")));
            return FirstState(raw) == 0;
        }));
    }
    // It has not ended in between.
    EXPECT_EQ(server, keeper.server());
    EXPECT_TRUE(HasDescriptors(keeper.vault_pid(), before.vault));
    EXPECT_TRUE(HasDescriptors(server, before.server));
    const uint64_t bytes_after =
        ResidentBytes(server) + ResidentBytes(keeper.vault_pid());
    EXPECT_GT(bytes + kMostBytes, bytes_after);
    std::printf("%u frames; the keeper's memory before %llu KiB, after %llu "
                "KiB\n",
                count, static_cast<unsigned long long>(bytes >> 10),
                static_cast<unsigned long long>(bytes_after >> 10));
}

} // namespace
