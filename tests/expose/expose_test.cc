// SPDX-License-Identifier: Apache-2.0
//
// What is answered, where the socket may be, and what stays of it.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <thread>

#include "tests/expose/expose_under_test.h"
#include "tests/expose/failing_calls.h"

namespace
{

using namespace expose_test;
using namespace pool_test;

class Expose : public ExposeTest
{
  protected:
    // The message of a start that is refused.
    std::string Refused(const char *path,
                        moiety_status expected = MOIETY_E_INVALID)
    {
        EXPECT_EQ(expected, moiety_expose_start(path));
        return moiety_last_error_message();
    }
    std::string RefusedAt(const std::string &name,
                          moiety_status expected = MOIETY_E_INVALID)
    {
        return Refused(Path(name).c_str(), expected);
    }
};

TEST_F(Expose, TellsWhatThePoolTells)
{
    Pool pool;
    moiety_devptr block = pool.Alloc(100 * kKiB);
    Start();
    // Whoever asks is a thread of the pool from then on.
    Ask(Path(), "stats");
    std::string answer = Ask(Path(), "stats");
    moiety_pool_stats stats = pool.Stats();
    uint64_t value = 0;
    unsigned count = 0;
    const char *key;
    for (; (key = moiety_pool_stats_entry(&stats, count, &value)); count++)
        EXPECT_TRUE(Has(answer, key, value)) << key << " in " << answer;
    EXPECT_LT(40u, count);
    EXPECT_TRUE(Has(answer, "pid", static_cast<uint64_t>(getpid())));
    EXPECT_TRUE(Has(answer, "source", "cuMemAlloc"));
    EXPECT_TRUE(Has(answer, "memory", "device"));
    EXPECT_EQ('\n', answer.back());
    pool.Free(block);
}

TEST_F(Expose, ShowsTheHeapAndTheHistory)
{
    moiety_pool_options options = pool_test::Defaults();
    options.history_entries = 16;
    Pool pool(options);
    moiety_devptr block = pool.Alloc(100 * kKiB);
    Start();
    std::string heap = Ask(Path(), "heap");
    EXPECT_NE(std::string::npos,
              heap.find("{\"address\": " + std::to_string(block) +
                        ", \"size_bytes\": 102400, \"kind\": \"used\""));
    EXPECT_EQ(std::string::npos, heap.find("history"));
    std::string snapshot = Ask(Path(), "snapshot");
    EXPECT_TRUE(Has(snapshot, "kind", "alloc"));
    EXPECT_TRUE(Has(snapshot, "size_bytes", 100 * kKiB));
    EXPECT_TRUE(Has(snapshot, "noted", 2));
    pool.Free(block);
}

TEST_F(Expose, KnowsPoolsApart)
{
    Start();
    EXPECT_NE(std::string::npos, Ask(Path(), "stats").find("\"pools\": []"));
    Pool first, second;
    std::string all = Ask(Path(), "stats");
    size_t at = all.find("\"id\": ");
    std::string id = std::to_string(std::stoul(all.substr(at + 6)));
    EXPECT_NE(std::string::npos, all.find("\"id\": ", at + 1));
    std::string one = Ask(Path(), "stats " + id);
    EXPECT_TRUE(Has(one, "id", std::stoul(id)));
    EXPECT_EQ(one.find("\"id\": "), one.rfind("\"id\": "));
    EXPECT_TRUE(Has(Ask(Path(), "heap 99999999"), "status", "MOIETY_E_STALE"));
    EXPECT_NE(std::string::npos,
              Ask(Path(), "snapshot").find("\"history\": null"));
}

TEST_F(Expose, DoesNotKnowOtherRequests)
{
    Start();
    for (const char *request :
         {"", "stat", "statss", "stats ", "stats  1", "stats 0", "stats -1",
          "stats 1 ", "stats 99999999999999999999999", "GET / HTTP/1.1\r"})
        EXPECT_TRUE(Has(Ask(Path(), request), "status", "MOIETY_E_INVALID"))
            << request;
}

TEST_F(Expose, HasASocketThatIsOnlyTheOwners)
{
    struct stat found = {};
    mode_t before = umask(0);
    Start();
    umask(before);
    ASSERT_EQ(0, stat(Path().c_str(), &found));
    EXPECT_TRUE(S_ISSOCK(found.st_mode));
    EXPECT_EQ(0600u, found.st_mode & 07777);
    EXPECT_OK(moiety_expose_stop());
    EXPECT_FALSE(IsThere());
    EXPECT_FALSE(Client(Path()).is_connected());
}

TEST_F(Expose, TurnsOtherUsersAway)
{
    Start();
    failing_calls_make_peers_foreign(1);
    EXPECT_EQ("", Ask(Path(), "stats"));
    failing_calls_make_peers_foreign(0);
    EXPECT_TRUE(Has(Ask(Path(), "stats"), "format", 1));
}

TEST_F(Expose, BeginsOnceAndCanEndAndBeginAgain)
{
    EXPECT_OK(moiety_expose_stop());
    Start();
    EXPECT_EQ("pools are exposed already, at '" + Path() + "'",
              RefusedAt("other", MOIETY_E_IN_USE));
    EXPECT_EQ(MOIETY_OK, moiety_expose_stop());
    EXPECT_EQ(MOIETY_OK, moiety_expose_stop());
    Start("other");
    EXPECT_TRUE(Has(Ask(Path("other"), "stats"), "format", 1));
}

TEST_F(Expose, PutsTheProcessIdIntoThePath)
{
    Start("%p.%%p");
    EXPECT_TRUE(IsThere(std::to_string(getpid()) + ".%p"));
}

TEST_F(Expose, WorksInTheCurrentFolderAndRemovesItsFileFromElsewhere)
{
    char before[4096];
    ASSERT_NE(nullptr, getcwd(before, sizeof(before)));
    ASSERT_EQ(0, chdir(Path(".").c_str()));
    EXPECT_OK(moiety_expose_start("here"));
    ASSERT_EQ(0, chdir(before));
    EXPECT_TRUE(IsThere("here"));
    EXPECT_OK(moiety_expose_stop());
    EXPECT_FALSE(IsThere("here"));
}

TEST_F(Expose, RefusesPathsThatCannotBe)
{
    EXPECT_EQ("moiety_expose_start: path is NULL", Refused(nullptr));
    EXPECT_EQ("cannot expose pools at '': the path is empty", Refused(""));
    EXPECT_EQ("cannot expose pools at '" + Path("%x") +
                  "': accepted after % are p and %",
              RefusedAt("%x"));
    EXPECT_NE(std::string::npos, RefusedAt("%").find("accepted after %"));
    EXPECT_NE(std::string::npos, RefusedAt("").find("ends with a slash"));
    EXPECT_NE(std::string::npos, RefusedAt("no/s").find("No such file"));
    size_t room = 107 - Path("").size();
    EXPECT_NE(std::string::npos,
              RefusedAt(std::string(room + 1, 'x')).find("107 bytes"));
    Start(std::string(room, 'x'));
    EXPECT_TRUE(Has(Ask(Path(std::string(room, 'x')), "stats"), "format", 1));
}

TEST_F(Expose, LeavesAloneWhatIsNoSocket)
{
    std::ofstream(Path()) << "precious";
    EXPECT_NE(std::string::npos, RefusedAt("s").find("no socket"));
    ASSERT_EQ(0, symlink("nowhere", Path("link").c_str()));
    EXPECT_NE(std::string::npos, RefusedAt("link").find("no socket"));
    EXPECT_EQ(0, unlink(Path("link").c_str()));
    EXPECT_EQ(0, unlink(Path().c_str()));
}

TEST_F(Expose, ReplacesTheSocketOfADeadProcess)
{
    close(ListenAt(Path()));
    ASSERT_TRUE(IsThere());
    Start();
    EXPECT_TRUE(Has(Ask(Path(), "stats"), "format", 1));
}

TEST_F(Expose, DoesNotReplaceOneThatLives)
{
    int other = ListenAt(Path());
    EXPECT_NE(std::string::npos,
              RefusedAt("s", MOIETY_E_IN_USE).find("a process serves there"));
    EXPECT_TRUE(Client(Path()).is_connected());
    close(other);
    EXPECT_EQ(0, unlink(Path().c_str()));
}

TEST_F(Expose, DoesNotRemoveWhatOthersPutThere)
{
    Start();
    ASSERT_EQ(0, unlink(Path().c_str()));
    int other = ListenAt(Path());
    EXPECT_OK(moiety_expose_stop());
    EXPECT_TRUE(Client(Path()).is_connected());
    close(other);
    EXPECT_EQ(0, unlink(Path().c_str()));
}

TEST_F(Expose, LeavesNothingWhenACallFails)
{
    struct {
        const char *call;
        int error;
        moiety_status expected;
    } const rows[] = {
        {"socket", EMFILE, MOIETY_E_NO_HOST_MEMORY},
        {"socket", EAFNOSUPPORT, MOIETY_E_UNSUPPORTED},
        {"fchmod", EPERM, MOIETY_E_INVALID},
        {"flock", ENOLCK, MOIETY_E_INVALID},
        {"flock", EWOULDBLOCK, MOIETY_E_IN_USE},
        {"bind", EACCES, MOIETY_E_INVALID},
        {"listen", EOPNOTSUPP, MOIETY_E_UNSUPPORTED},
        {"eventfd", EMFILE, MOIETY_E_NO_HOST_MEMORY},
        {"pthread_create", EAGAIN, MOIETY_E_NO_HOST_MEMORY},
    };
    unsigned files = OpenFiles();
    for (const auto &row : rows) {
        failing_calls_set(row.call, row.error);
        EXPECT_EQ(row.expected, moiety_expose_start(Path().c_str()))
            << row.call << ": " << moiety_last_error_message();
        failing_calls_set(nullptr, 0);
        EXPECT_FALSE(IsThere()) << row.call;
        EXPECT_EQ(files, OpenFiles()) << row.call;
    }
    Start();
    EXPECT_OK(moiety_expose_stop());
    EXPECT_EQ(files, OpenFiles());
}

TEST_F(Expose, ServesAgainWhenThereAreDescriptorsAgain)
{
    Start();
    failing_calls_set("accept4", EMFILE);
    Client waiting(Path());
    waiting.Send("stats\n");
    while (failing_calls_failed() == 0)
        std::this_thread::yield();
    failing_calls_set(nullptr, 0);
    EXPECT_TRUE(Has(waiting.Receive(), "format", 1));
}

} // namespace
