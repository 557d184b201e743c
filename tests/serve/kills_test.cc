// SPDX-License-Identifier: Apache-2.0
//
// A keeper under load while processes are killed at random moments: those that
// write, those that read, and the keeper's process for clients. Whether a region of
// a killed writer was committed, nobody has heard; all else is known.
#include <gtest/gtest.h>

#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "moiety/region.h"
#include "tests/serve/keeper_under_test.h"
#include "tests/serve/raw_client.h"

namespace
{

using namespace serve_test;
using Random = std::mt19937;

// Of each kind; MOIETY_TEST_KILLS.
constexpr unsigned kKills = 3;
constexpr unsigned kWriters = 3;
constexpr unsigned kReaders = 2;
constexpr unsigned kNames = 3; // of a writer
constexpr unsigned kRegionMiB = 8;
constexpr unsigned kHandles = 4;
// Its words begin with the number of its name.
constexpr unsigned kWords = 1000000;

struct Killed {
};
struct Wrong {
    std::string text;
};

// A process that is replaced when it was killed.
class Actor
{
  public:
    explicit Actor(const std::string &path) : path_(path) {}

    // The process is not reaped meanwhile.
    void Kill()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (worker_)
            SignalOne(worker_->pid(), SIGKILL);
    }
    void Replace()
    {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            worker_.reset();
            worker_ = std::make_unique<Worker>(path_);
        }
        Must("connect");
    }
    Reply Do(const std::string &command)
    {
        auto begun = std::chrono::steady_clock::now();
        Reply reply = worker_->Do(command);
        longest_ = std::max(longest_, std::chrono::steady_clock::now() - begun);
        progress_++;
        if (reply.status < 0)
            throw Killed();
        return reply;
    }
    Reply Must(const std::string &command)
    {
        Reply reply = Do(command);
        if (reply.status != MOIETY_OK)
            throw Wrong{command + ": " + reply.text};
        return reply;
    }
    void End()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        worker_.reset();
        is_over_ = true;
    }
    bool is_over() const
    {
        return is_over_;
    }
    unsigned progress() const
    {
        return progress_;
    }
    double longest_ms() const
    {
        return std::chrono::duration<double, std::milli>(longest_).count();
    }

  private:
    const std::string path_;
    std::mutex mutex_; // who kills, against who reaps
    std::unique_ptr<Worker> worker_;
    std::atomic<unsigned> progress_{0};
    std::atomic<bool> is_over_{false};
    std::chrono::steady_clock::duration longest_{0};
};

std::string NameOf(unsigned number)
{
    return "r" + std::to_string(number);
}

// Opens a region to read it and checks every byte against its own layout. 0: there
// is none, or none now.
uint64_t Read(Actor &actor, unsigned number, bool waits, unsigned times)
{
    const std::string open = "open 0 " + NameOf(number) + " 0 1";
    Reply reply = actor.Do(open);
    while (waits && reply.status == MOIETY_E_IN_USE)
        reply = actor.Do(open);
    if (reply.status == MOIETY_E_STALE || reply.status == MOIETY_E_IN_USE)
        return 0;
    if (reply.status != MOIETY_OK)
        throw Wrong{open + ": " + reply.text};
    const std::string text = actor.Must("info 0").text;
    const uint64_t word = std::strtoull(text.c_str(), nullptr, 10);
    if (word / kWords != number + 1)
        throw Wrong{NameOf(number) + " has the layout " + text};
    for (unsigned i = 0; i < times; i++)
        if (actor.Must("holds 0 " + text).value != 1)
            throw Wrong{NameOf(number) + " has a wrong byte; " + text};
    actor.Must("close 0");
    return word;
}

// The regions of one writer; nobody else creates, writes or drops them.
class Writer
{
  public:
    Writer(Actor &actor, unsigned index) : actor_(actor), random_(index)
    {
        for (unsigned i = 0; i < kNames; i++)
            may_be_[index * kNames + i] = {0};
    }
    void Step()
    {
        auto at = std::next(may_be_.begin(), Below(random_, kNames));
        const unsigned number = at->first;
        if (unsure_)
            SettleAll();
        if (*at->second.begin() == 0)
            Create(number);
        else if (Below(random_, 3) == 0)
            Drop(number);
        else if (Below(random_, 2) == 0)
            Rewrite(number);
        else if (Read(actor_, number, true, 1) != *at->second.begin())
            throw Wrong{NameOf(number) + " is another one"};
    }
    // After its process was killed.
    void BeUnsure()
    {
        unsure_ = true;
    }
    void SettleAll()
    {
        for (auto &one : may_be_) {
            uint64_t word = Read(actor_, one.first, true, 1);
            if (one.second.count(word) == 0)
                throw Wrong{NameOf(one.first) +
                            " is lost, or is back: " + std::to_string(word)};
            one.second = {word};
        }
        unsure_ = false;
    }
    // The word of each region that is there.
    const std::map<unsigned, std::set<uint64_t>> &may_be() const
    {
        return may_be_;
    }

  private:
    void Fill(unsigned number, const std::set<uint64_t> &before)
    {
        const uint64_t word = (number + 1) * kWords + ++last_word_;
        const std::string text = std::to_string(word);
        actor_.Must("fill 0 " + text);
        may_be_[number] = {word};
        may_be_[number].insert(before.begin(), before.end());
        actor_.Must("commit 0 " + text);
        may_be_[number] = {word};
        actor_.Must("close 0");
    }
    void Create(unsigned number)
    {
        actor_.Must("create 0 " + NameOf(number) + " " +
                    std::to_string(kRegionMiB) + " 2 1");
        Fill(number, {0});
    }
    void Rewrite(unsigned number)
    {
        const uint64_t before = *may_be_[number].begin();
        may_be_[number] = {before, 0};
        Reply reply = actor_.Do("open 0 " + NameOf(number) + " 1 1");
        if (reply.status == MOIETY_E_IN_USE) {
            may_be_[number] = {before}; // somebody reads it
            return;
        }
        if (reply.status != MOIETY_OK)
            throw Wrong{"open to write: " + reply.text};
        may_be_[number] = {0};
        Fill(number, {0});
    }
    void Drop(unsigned number)
    {
        may_be_[number].insert(0);
        // A drop whose answer was lost is asked again, and finds nothing.
        Reply reply = actor_.Do("drop " + NameOf(number));
        if (reply.status != MOIETY_OK && reply.status != MOIETY_E_STALE)
            throw Wrong{"drop: " + reply.text};
        may_be_[number] = {0};
    }

    Actor &actor_;
    Random random_;
    uint64_t last_word_ = 0;
    bool unsure_ = false;
    std::map<unsigned, std::set<uint64_t>> may_be_;
};

// Until it is to end, with a new process for each that was killed; "" or what went
// wrong.
template <typename Step, typename After>
std::string Act(Actor &actor, const std::atomic<bool> &ends, Step step,
                After after)
{
    bool is_new = true;
    for (;;) {
        try {
            if (is_new)
                actor.Replace();
            is_new = false;
            if (ends) {
                after();
                actor.End();
                return "";
            }
            step();
        } catch (const Killed &) {
            is_new = true;
        } catch (const Wrong &wrong) {
            actor.End();
            return wrong.text;
        }
    }
}

class Kills : public testing::Test
{
  protected:
    Kills() : keeper_({"--limit", "1G"}), idle_(IdleDescriptors(keeper_))
    {
        for (unsigned i = 0; i < kWriters + kReaders; i++)
            actors_.push_back(std::make_unique<Actor>(keeper_.path()));
        for (unsigned i = 0; i < kWriters; i++)
            writers_.push_back(std::make_unique<Writer>(*actors_[i], i));
    }
    void Start()
    {
        wrong_.resize(actors_.size());
        for (unsigned i = 0; i < actors_.size(); i++)
            threads_.emplace_back([this, i] {
                wrong_[i] = i < kWriters ? Write(i) : ReadAll(i);
            });
    }
    std::string Write(unsigned i)
    {
        Writer &writer = *writers_[i];
        return Act(
            *actors_[i], ends_,
            [&] {
                try {
                    writer.Step();
                } catch (const Killed &) {
                    writer.BeUnsure();
                    throw;
                }
            },
            [&] { writer.SettleAll(); });
    }
    std::string ReadAll(unsigned i)
    {
        Random random(i);
        return Act(
            *actors_[i], ends_,
            [&] {
                Read(*actors_[i], Below(random, kWriters * kNames), false,
                     1 + Below(random, 3));
            },
            [] {});
    }
    // A server that is killed at once answers nobody, and a client gives up after
    // ten of them: each process gets on between two kills.
    void AwaitEach()
    {
        std::vector<unsigned> before;
        for (const auto &actor : actors_)
            before.push_back(actor->progress());
        for (size_t i = 0; i < actors_.size(); i++)
            while (actors_[i]->progress() == before[i] &&
                   !actors_[i]->is_over())
                std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    void KillAll(unsigned kills)
    {
        Random random(20261201);
        std::vector<unsigned> kinds;
        for (unsigned i = 0; i < kills; i++)
            kinds.insert(kinds.end(), {0, 1, 2});
        std::shuffle(kinds.begin(), kinds.end(), random);
        for (unsigned kind : kinds) {
            // The load is at a random place of its rounds.
            std::this_thread::sleep_for(
                std::chrono::microseconds(Below(random, 30000)));
            if (kind == 0)
                actors_[Below(random, kWriters)]->Kill();
            else if (kind == 1)
                actors_[kWriters + Below(random, kReaders)]->Kill();
            else
                keeper_.KillServer();
            AwaitEach();
        }
    }
    void Stop()
    {
        ends_ = true;
        for (std::thread &thread : threads_)
            thread.join();
        for (const std::string &one : wrong_)
            EXPECT_EQ("", one);
    }
    // "NAME:2:8:0" of each committed region: state, MiB and leases.
    std::set<std::string> Expected() const
    {
        std::set<std::string> all;
        for (const auto &writer : writers_)
            for (const auto &one : writer->may_be())
                if (*one.second.begin() != 0)
                    all.insert(NameOf(one.first) +
                               ":2:" + std::to_string(kRegionMiB) + ":0");
        return all;
    }
    static std::set<std::string> Listed(Worker &worker)
    {
        std::set<std::string> all;
        std::istringstream list(worker.Must("list").text);
        for (std::string entry; list >> entry;) {
            std::array<std::string, 5> fields;
            std::istringstream in(entry);
            for (std::string &field : fields)
                std::getline(in, field, ':');
            all.insert(fields[0] + ":" + fields[1] + ":" + fields[3] + ":" +
                       fields[4]);
        }
        return all;
    }
    // Of the message that refuses more than the limit.
    static std::string UsedBytes(Worker &worker)
    {
        Reply reply = worker.Do("create 9 much 2048 2 0");
        EXPECT_EQ(MOIETY_E_BUDGET, reply.status);
        size_t at = reply.text.find(", and ");
        return at == std::string::npos
                   ? reply.text
                   : reply.text.substr(at + 6,
                                       reply.text.find(' ', at + 6) - (at + 6));
    }
    void ExpectNothingIsLeftOver(Worker &worker)
    {
        const std::set<std::string> expected = Expected();
        EXPECT_TRUE(Eventually([&] { return Listed(worker) == expected; }));
        EXPECT_EQ(expected, Listed(worker));
        EXPECT_EQ(std::to_string(expected.size() * kRegionMiB * kMiB),
                  UsedBytes(worker));
        // Each has handles and a layout. The worker has a socket and a pidfd.
        const size_t kept = expected.size() * (kHandles + 1);
        EXPECT_TRUE(HasDescriptors(keeper_.vault_pid(), idle_.vault + kept));
        EXPECT_TRUE(HasDescriptors(keeper_.server(), idle_.server + kept + 2));
    }
    void Print(unsigned kills) const
    {
        double longest[2] = {0, 0};
        unsigned commands = 0;
        for (size_t i = 0; i < actors_.size(); i++) {
            double &one = longest[i < kWriters ? 0 : 1];
            one = std::max(one, actors_[i]->longest_ms());
            commands += actors_[i]->progress();
        }
        std::printf("kills of writers, readers and the server: %u each; "
                    "commands: %u; longest wait of a writer %.0f ms, of a "
                    "reader %.0f ms\n",
                    kills, commands, longest[0], longest[1]);
    }

    Keeper keeper_;
    const Descriptors idle_;
    std::vector<std::unique_ptr<Actor>> actors_;
    std::vector<std::unique_ptr<Writer>> writers_;
    std::atomic<bool> ends_{false};
    std::vector<std::string> wrong_;
    std::vector<std::thread> threads_;
};

TEST_F(Kills, LoseNothingThatIsCommittedAndKeepNothingElse)
{
    const unsigned kills = NumberOf("MOIETY_TEST_KILLS", kKills);
    Start();
    KillAll(kills);
    Stop();
    Worker worker(keeper_.path());
    worker.Must("connect");
    ExpectNothingIsLeftOver(worker);
    for (const std::string &entry : Listed(worker)) {
        const std::string name = entry.substr(0, entry.find(':'));
        worker.Must("open 0 " + name + " 0 1");
        const std::string word = worker.Must("info 0").text;
        EXPECT_EQ(1U, worker.Must("holds 0 " + word).value) << name;
        worker.Must("close 0");
        worker.Must("drop " + name);
    }
    writers_.clear();
    ExpectNothingIsLeftOver(worker);
    Print(kills);
}

} // namespace
