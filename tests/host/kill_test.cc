// SPDX-License-Identifier: Apache-2.0
//
// Processes that are killed while their arena grows, at each stage and at any
// moment: nothing of them is left that matters to others. That the machine has
// its memory back and no new files is seen where nobody else uses it:
// tests/numa_vm.
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/host/arena_under_test.h"
#include "tests/pool/pool_under_test.h"

extern char **environ;

namespace host_test
{
namespace
{

using pool_test::kMiB;

constexpr unsigned kMoments = 30;

class Growing
{
  public:
    explicit Growing(std::vector<std::string> words)
    {
        int ends[2] = {-1, -1};
        EXPECT_EQ(0, pipe2(ends, O_CLOEXEC));
        std::string program = "tests/host/growing";
        std::vector<char *> arguments = {program.data()};
        for (std::string &word : words)
            arguments.push_back(word.data());
        arguments.push_back(nullptr);
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
        EXPECT_EQ(0, posix_spawn(&id_, program.c_str(), &actions, nullptr,
                                 arguments.data(), environ));
        posix_spawn_file_actions_destroy(&actions);
        close(ends[1]);
        out_ = ends[0];
    }
    ~Growing()
    {
        close(out_);
        if (!is_over_) {
            kill(id_, SIGKILL);
            End();
        }
    }
    Growing(const Growing &) = delete;
    Growing &operator=(const Growing &) = delete;

    // Returns when it is about to grow.
    void AwaitBegin()
    {
        char letter = 0;
        std::string line;
        while (read(out_, &letter, 1) == 1 && letter != '\n')
            line += letter;
        EXPECT_EQ("growing", line);
    }
    // It stands still, wherever it is, until it is killed.
    void Stop()
    {
        int status = 0;
        EXPECT_EQ(0, kill(id_, SIGSTOP));
        EXPECT_EQ(id_, waitpid(id_, &status, WUNTRACED));
        is_over_ = !WIFSTOPPED(status);
        EXPECT_FALSE(is_over_) << "it ended by itself";
    }
    void Kill()
    {
        EXPECT_EQ(0, kill(id_, SIGKILL));
        EXPECT_EQ(128 + SIGKILL, End());
    }
    // Its exit status; 128 and the signal that ended it.
    int End()
    {
        int status = 0;
        EXPECT_EQ(id_, waitpid(id_, &status, 0));
        is_over_ = true;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }

    // Files that it has open or mapped and that outlive it: by name, in a file
    // system of memory.
    std::vector<std::string> FilesInMemory() const
    {
        const std::string proc = "/proc/" + std::to_string(id_);
        std::vector<std::string> found;
        std::ifstream maps(proc + "/maps");
        for (std::string line; std::getline(maps, line);)
            AddIfInMemory(line.substr(std::min(line.find('/'), line.size())),
                          &found);
        EXPECT_TRUE(maps.eof());
        for (const auto &entry :
             std::filesystem::directory_iterator(proc + "/fd"))
            AddIfInMemory(std::filesystem::read_symlink(entry.path()), &found);
        return found;
    }

  private:
    // What is deleted, as memfds are, goes with its last user.
    static void AddIfInMemory(const std::string &name,
                              std::vector<std::string> *out)
    {
        const std::string gone = " (deleted)";
        bool is_deleted = name.size() > gone.size() &&
                          name.rfind(gone) == name.size() - gone.size();
        if (is_deleted)
            return;
        for (const char *folder :
             {"/dev/shm/", "/dev/hugepages/", "/memfd:", "/SYSV"})
            if (name.rfind(folder, 0) == 0)
                out->push_back(name);
    }

    pid_t id_ = -1;
    int out_ = -1;
    bool is_over_ = false;
};

// This process has an arena, too, and a copy that is under way.
class KilledWhileItGrows : public ::testing::Test
{
  protected:
    static constexpr size_t kBytes = 1 * kMiB;
    static constexpr uint32_t kWord = 0x5eedb00fu;

    KilledWhileItGrows()
    {
        std::fill_n(words(), kBytes / 4, kWord);
    }
    ~KilledWhileItGrows() override
    {
        arena_.Free(block_);
    }

    uint32_t *words() const
    {
        return static_cast<uint32_t *>(block_);
    }

    void ExpectNothingLeft()
    {
        ExpectOthersUnharmed();
        EXPECT_EQ(0, Growing({"once"}).End()) << "a fresh process";
    }

    // The bystander's memory, its driver, and growing and shrinking.
    void ExpectOthersUnharmed()
    {
        EXPECT_EQ(static_cast<ptrdiff_t>(kBytes / 4),
                  std::count(words(), words() + kBytes / 4, kWord));
        moiety_devptr copy = pool_.Alloc(kBytes);
        pool_test::Fill(copy, kBytes, kWord);
        EXPECT_TRUE(pool_test::Holds(copy, kBytes, kWord));
        pool_.Free(copy);
        uint64_t regions = arena_.Stats().region_count;
        EXPECT_OK(moiety_host_reserve(arena_, 8 * kMiB, 2, nullptr, nullptr));
        EXPECT_OK(moiety_host_trim(arena_, 0, nullptr));
        EXPECT_EQ(regions, arena_.Stats().region_count);
    }

    static moiety_host_options Small()
    {
        pool_test::UseStandin();
        moiety_host_options options = HostDefaults();
        options.first_segment_bytes = options.largest_segment_bytes = 2 * kMiB;
        return options;
    }

    Arena arena_{Small()};
    pool_test::Pool pool_;
    void *block_ = arena_.Alloc(kBytes);
};

TEST_F(KilledWhileItGrows, AtEachStageOfTheFirstAndTheLast)
{
    const std::pair<const char *, const char *> calls[] = {
        {"map", "1"},      {"bind", "1"},      {"start", "1"},
        {"touch", "1"},    {"touch", "4"},     {"register", "1"},
        {"register", "4"}, {"read_back", "1"}, {"read_back", "4"}};
    for (const auto &[stage, number] : calls) {
        SCOPED_TRACE(std::string(stage) + " " + number);
        Growing growing({stage, number});
        growing.AwaitBegin();
        EXPECT_EQ(128 + SIGKILL, growing.End());
        ExpectNothingLeft();
    }
}

TEST_F(KilledWhileItGrows, AtAnyMoment)
{
    std::mt19937 random(static_cast<unsigned>(pool_test::Seed(5)));
    for (unsigned moment = 0; moment < kMoments; moment++) {
        SCOPED_TRACE(moment);
        Growing growing({"forever"});
        growing.AwaitBegin();
        // At any moment.
        std::this_thread::sleep_for(
            std::chrono::microseconds(random() % 20000));
        growing.Stop();
        EXPECT_EQ(std::vector<std::string>(), growing.FilesInMemory());
        growing.Kill();
        ExpectNothingLeft();
    }
}

// Two of them, one of which lives.
TEST_F(KilledWhileItGrows, BesideAnotherThatGoesOn)
{
    Growing other({"forever"});
    other.AwaitBegin();
    for (unsigned round = 0; round < 5; round++) {
        Growing growing({"forever"});
        growing.AwaitBegin();
        growing.Stop();
        growing.Kill();
        ExpectOthersUnharmed();
    }
    other.Stop();
    other.Kill();
    ExpectNothingLeft();
}

TEST(Growing, DoesNotPassWhereItsStageIsNeverReached)
{
    pool_test::UseStandin();
    EXPECT_EQ(3, Growing({"read_back", "1000"}).End());
    EXPECT_EQ(2, Growing({"nowhere", "1"}).End());
    EXPECT_EQ(2, Growing({"map", "0"}).End());
    EXPECT_EQ(2, Growing({"map"}).End());
    EXPECT_EQ(2, Growing(std::vector<std::string>{}).End());
}

} // namespace
} // namespace host_test
