// SPDX-License-Identifier: Apache-2.0
//
// The ends that a process makes of its recordings. Each process is a child of
// one that has not used the library, or it could not either.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/pool/pool_under_test.h"
#include "tests/record/record_under_test.h"

namespace
{

using namespace record_test;

// Runs `end` in a process of its own, which has used a recorded pool.
void InAProcess(const std::string &path, void (*end)())
{
    pid_t child = fork();
    if (child == 0) {
        pool_test::UseStandin();
        moiety_pool_options options = Recorded(64);
        moiety_pool *pool = nullptr;
        if (moiety_pool_create(&options, &pool) != MOIETY_OK ||
            moiety_trace_start(pool, path.c_str()) != MOIETY_OK)
            _exit(1);
        Use(pool, 9);
        moiety_trace_summary summary = Summary();
        if (moiety_trace_flush(pool, &summary) != MOIETY_OK)
            _exit(1);
        Use(pool, 2);
        end();
        _exit(2);
    }
    int status = -1;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << status;
}

TEST(RecordOfAProcess, IsEndedByTheProcess)
{
    const std::string path = FileName("exited.mtrace");
    InAProcess(path, [] { exit(0); });
    Recording recording(path);
    EXPECT_EQ(11u, recording.Count("a"));
    EXPECT_EQ(11u, recording.Count("f"));
}

TEST(RecordOfAProcess, IsCutOffByACrash)
{
    const std::string path = FileName("crashed.mtrace");
    InAProcess(path, [] { (void)raise(SIGKILL); });
    Recording recording(path, false);
    EXPECT_EQ(9u, recording.Count("a"));
}

} // namespace
