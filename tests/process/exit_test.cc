// SPDX-License-Identifier: Apache-2.0
//
// Processes that end while they use a pool, or after the driver has gone: each
// with exit code 0 and without a word.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

extern char **environ;

namespace
{

// Its exit code; 128 and the signal that ended it.
int EndOf(const std::string &way)
{
    std::string program = "tests/process/exit_program", argument = way;
    char *const arguments[] = {program.data(), argument.data(), nullptr};
    pid_t child = 0;
    int status = 0;
    EXPECT_EQ(0, posix_spawn(&child, program.c_str(), nullptr, nullptr,
                             arguments, environ));
    EXPECT_EQ(child, waitpid(child, &status, 0));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(Exit, AfterTheDriverIsGoneFreesAreSilentAndAllocationsRefused)
{
    EXPECT_EQ(0, EndOf("late_handler"));
}

TEST(Exit, HandlersThatRunBeforeItFindAllAsItWas)
{
    EXPECT_EQ(0, EndOf("early_handler"));
}

TEST(Exit, HandlersThatOnlyFreeAreNotTold)
{
    EXPECT_EQ(0, EndOf("handler_that_only_frees"));
}

TEST(Exit, StaticObjectsMayEndTheirPoolAfterTheDriver)
{
    EXPECT_EQ(0, EndOf("static_destructor"));
}

TEST(Exit, ThreadLocalObjectsMayAllocateAndFree)
{
    EXPECT_EQ(0, EndOf("thread_locals"));
}

TEST(Exit, KeysOlderAndNewerThanTheLibrarysMayToo)
{
    EXPECT_EQ(0, EndOf("keys"));
}

TEST(Exit, KeysThatComeBackUntilTheEndMayToo)
{
    EXPECT_EQ(0, EndOf("stubborn_keys"));
}

TEST(Exit, OfAProgramThatDoesNotKnowTheWayIsSeen)
{
    EXPECT_EQ(2, EndOf("nowhere"));
}

TEST(Exit, UnderLoadIsCleanEveryTime)
{
    const char *text = std::getenv("MOIETY_TEST_EXITS");
    int rounds = text ? std::atoi(text) : 100;
    ASSERT_GT(rounds, 0);
    int code = 0, round = 0;
    for (; round < rounds && !code; round++)
        code = EndOf("load");
    EXPECT_EQ(0, code) << "in round " << round;
    std::printf("%d exits under load\n", round);
}

} // namespace
