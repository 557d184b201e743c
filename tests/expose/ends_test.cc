// SPDX-License-Identifier: Apache-2.0
//
// Forks, exits, and what MOIETY_CONF says.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "tests/expose/expose_under_test.h"

extern char **environ;

namespace
{

using namespace expose_test;
using pool_test::Pool;

class ExposeEnds : public ExposeTest
{
  protected:
    void TearDown() override
    {
        unsetenv("MOIETY_CONF");
        ExposeTest::TearDown();
    }
};

// tests/expose/expose_program with this MOIETY_CONF, until told to end.
class Program
{
  public:
    explicit Program(const std::string &conf, const std::string &what = "pool")
    {
        std::string program = "tests/expose/expose_program", argument = what;
        char *const arguments[] = {program.data(), argument.data(), nullptr};
        int in[2], out[2];
        EXPECT_EQ(0, pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC));
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, in[0], 0);
        posix_spawn_file_actions_adddup2(&actions, out[1], 1);
        setenv("MOIETY_TEST_CONF", conf.c_str(), 1);
        EXPECT_EQ(0, posix_spawn(&child_, program.c_str(), &actions, nullptr,
                                 arguments, environ));
        unsetenv("MOIETY_TEST_CONF");
        posix_spawn_file_actions_destroy(&actions);
        close(in[0]), close(out[1]);
        to_ = in[1];
        // What it says before it waits.
        char piece[2048];
        for (ssize_t got; (got = read(out[0], piece, sizeof(piece))) > 0;) {
            said_.append(piece, static_cast<size_t>(got));
            if (said_.back() == '\n')
                break;
        }
        close(out[0]);
    }
    ~Program()
    {
        if (child_)
            End("k");
    }
    // By exit() or by a signal: "e", "k".
    int End(const char *way)
    {
        int status = 0;
        if (*way == 'k')
            kill(child_, SIGKILL);
        else
            EXPECT_EQ(1, write(to_, way, 1));
        close(to_);
        EXPECT_EQ(child_, waitpid(child_, &status, 0));
        child_ = 0;
        return status;
    }
    const std::string &said() const
    {
        return said_;
    }

  private:
    pid_t child_ = 0;
    int to_ = -1;
    std::string said_;
};

TEST_F(ExposeEnds, ByExitRemovesTheSocket)
{
    for (const char *what : {"pool", "arena"}) {
        Program program("expose:" + Path(), what);
        EXPECT_TRUE(Has(Ask(Path(), "stats"), "format", 1)) << program.said();
        EXPECT_EQ(0, program.End("e"));
        EXPECT_FALSE(IsThere()) << what;
    }
}

TEST_F(ExposeEnds, ByKillLeaveASocketForTheNextToReplace)
{
    Program first("expose:" + Path());
    EXPECT_NE(0, first.End("k"));
    EXPECT_TRUE(IsThere());
    Program second("expose:" + Path());
    EXPECT_TRUE(Has(Ask(Path(), "stats"), "format", 1));
    Program third("expose:" + Path());
    EXPECT_NE(std::string::npos, third.said().find("MOIETY_E_IN_USE"));
    EXPECT_NE(std::string::npos, third.said().find("a process serves there"));
    EXPECT_EQ(0, second.End("e"));
    EXPECT_FALSE(IsThere());
}

TEST_F(ExposeEnds, ConfThatIsWrongLetsNoPoolBeMade)
{
    for (const char *what : {"pool", "arena"}) {
        Program twice("expose:" + Path() + ",expose:" + Path(), what);
        EXPECT_NE(std::string::npos,
                  twice.said().find("key 'expose' is given twice"))
            << twice.said();
        Program nowhere("expose:/nowhere/at/all", what);
        EXPECT_NE(std::string::npos, nowhere.said().find("MOIETY_E_INVALID"));
        EXPECT_NE(std::string::npos, nowhere.said().find("No such file"));
        Program none("expose:", what);
        EXPECT_NE(std::string::npos, none.said().find("has no value"));
        Program long_one("expose:/" + std::string(1000, 'x'), what);
        EXPECT_NE(std::string::npos, long_one.said().find("107 bytes"));
    }
}

// The program's socket stays, and what it has stopped stays so.
TEST_F(ExposeEnds, ConfIsForProgramsThatDoNotDoItThemselves)
{
    Start();
    setenv("MOIETY_CONF", ("expose:" + Path("conf")).c_str(), 1);
    {
        Pool pool;
    }
    EXPECT_TRUE(Has(Ask(Path(), "stats"), "format", 1));
    EXPECT_OK(moiety_expose_stop());
    {
        Pool pool;
    }
    EXPECT_FALSE(IsThere("conf"));
}

// What the child finds wrong is a bit of its exit code.
int InAChild(int ready, int release)
{
    char byte = 0;
    int wrong = write(ready, &byte, 1) == 1 ? 0 : 8;
    if (moiety_expose_start("/tmp/never") != MOIETY_E_FORKED)
        wrong |= 1;
    if (moiety_expose_stop() != MOIETY_E_FORKED)
        wrong |= 2;
    if (read(release, &byte, 1) != 0)
        wrong |= 4;
    return wrong;
}

TEST_F(ExposeEnds, ChildrenDoNotServe)
{
    int ready[2], release[2], status = 0;
    char byte = 0;
    ASSERT_EQ(0, pipe(ready) | pipe(release));
    Start();
    pid_t child = fork();
    if (child == 0) {
        close(release[1]);
        _exit(InAChild(ready[1], release[0]));
    }
    EXPECT_EQ(1, read(ready[0], &byte, 1));
    EXPECT_TRUE(
        Has(Ask(Path(), "stats"), "pid", static_cast<uint64_t>(getpid())));
    // What nobody serves is dead, though the child was made with it open.
    ASSERT_EQ(0, rename(Path().c_str(), Path("kept").c_str()));
    EXPECT_OK(moiety_expose_stop());
    EXPECT_FALSE(Client(Path("kept")).is_connected());
    close(ready[0]), close(ready[1]);
    close(release[0]), close(release[1]);
    EXPECT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
    EXPECT_EQ(0, unlink(Path("kept").c_str()));
}

TEST_F(ExposeEnds, ChildrenThatExitTakeNothingAway)
{
    int status = 0;
    Start();
    pid_t child = fork();
    if (child == 0)
        std::exit(0);
    EXPECT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
    EXPECT_TRUE(Has(Ask(Path(), "stats"), "format", 1));
}

} // namespace
