// SPDX-License-Identifier: Apache-2.0
//
// What one thread does, as it is recorded; files that cannot be written; the
// ends that a recording has.
#include "tests/record/record_under_test.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/pool/pool_under_test.h"

namespace
{

using namespace pool_test;
using namespace record_test;

constexpr uint64_t kMiB = UINT64_C(1) << 20;

std::string Message()
{
    return moiety_last_error_message();
}

// As lines without times, ids and threads as they are.
std::string WithoutTime(const std::string &line)
{
    size_t from = line.find(' ') + 1;
    return line.substr(0, from) + line.substr(line.find(' ', from) + 1);
}

using Record = StandinTest;

TEST_F(Record, HasWhatAThreadDidInItsOrder)
{
    const std::string path = FileName("sequence.mtrace");
    moiety_pool_options options = Recorded(64);
    options.flags = MOIETY_POOL_EXPORTABLE;
    options.limit_bytes = 64 * kMiB;
    Pool pool(options);
    Stream stream;
    ASSERT_OK(moiety_trace_start(pool, path.c_str())) << Message();
    moiety_devptr first, second, third, none = 0;
    moiety_ipc_handle handle;
    ASSERT_OK(moiety_alloc(pool, 1000, nullptr, &first));
    ASSERT_OK(moiety_alloc(pool, 5000, stream, &second));
    ASSERT_OK(moiety_record_use(pool, second, nullptr));
    ASSERT_OK(moiety_free_sized(pool, first, 1000, nullptr));
    ASSERT_OK(moiety_free(pool, second, MOIETY_STREAM_DONE));
    ASSERT_OK(moiety_alloc(pool, 3 * kMiB, stream, &third));
    moiety_event event = pool_test::NewEvent();
    ASSERT_OK(moiety_free_on_event(pool, third, event));
    // Refused: nothing was done.
    EXPECT_NE(MOIETY_OK, moiety_free(pool, first + 1, nullptr));
    EXPECT_OK(moiety_free(pool, 0, nullptr));
    EXPECT_OK(moiety_alloc(pool, 0, nullptr, &none));
    // Freed while it is exported.
    ASSERT_OK(moiety_alloc(pool, 2 * kMiB, stream, &third));
    ASSERT_OK(moiety_ipc_export(pool, third, &handle));
    ASSERT_OK(moiety_free(pool, third, stream));
    ASSERT_OK(moiety_ipc_release_exports(pool, 0));
    ASSERT_OK(moiety_alloc(pool, 63 * kMiB, stream, &first));
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, 63 * kMiB, stream, &second));
    ASSERT_OK(moiety_free(pool, first, stream));
    ASSERT_OK(moiety_pool_retire_stream(pool, stream));
    moiety_trace_summary summary = Summary();
    ASSERT_OK(moiety_trace_stop(pool, &summary));
    pool_test::DestroyEvent(event);
    Recording recording(path);
    EXPECT_EQ("aausfawaxqfaofr", recording.Letters());
    EXPECT_EQ(recording.operations.size(), summary.operation_count);
    EXPECT_EQ(0u, summary.lost_count);
    EXPECT_EQ(static_cast<uint32_t>(MOIETY_OK), summary.status);
    EXPECT_EQ(1u, recording.thread_count);
    EXPECT_LE(1u, recording.Count("g"));
    std::vector<std::string> lines;
    for (const std::string &line : recording.operations)
        if (line[0] != 'g' && line[0] != 't')
            lines.push_back(WithoutTime(line));
    const std::string legacy = lines[0].substr(lines[0].rfind(' ') + 1);
    EXPECT_EQ("a 0 0 1000 " + legacy, lines[0]);
    EXPECT_EQ("legacy", recording.streams[std::stoul(legacy)]);
    EXPECT_EQ("a 0 1 5000 ", lines[1].substr(0, 11));
    EXPECT_EQ("u 0 1 " + legacy, lines[2]);
    EXPECT_EQ("s 0 0 " + legacy, lines[3]);
    EXPECT_EQ("w 0 1", lines[6]);
    EXPECT_EQ("x 0 1", lines[8]);
    EXPECT_EQ("o 0 66060288", lines[12].substr(0, 12));
    EXPECT_EQ(0u, recording.info.count("dropped_frees"));
    EXPECT_EQ(0u, recording.info.count("implied_frees"));
    EXPECT_TRUE(recording.live.empty());
}

// A replay would take two names for two streams, of which one cannot use what the
// other frees before its work is over.
TEST_F(Record, HasOneNameForTheLegacyStream)
{
    const std::string path = FileName("legacy.mtrace");
    moiety_pool_options options = Recorded(64);
    options.flags = MOIETY_POOL_NOTE_STREAMS;
    Pool pool(options);
    moiety_devptr blocks[3];
    ASSERT_OK(moiety_trace_start(pool, path.c_str())) << Message();
    ASSERT_OK(moiety_alloc(pool, 3 * kMiB, nullptr, &blocks[0]));
    ASSERT_OK(moiety_alloc(pool, 1000, nullptr, &blocks[1]));
    ASSERT_OK(moiety_alloc(pool, 1000, MOIETY_STREAM_LEGACY, &blocks[2]));
    ASSERT_OK(moiety_free_on_alloc_stream(pool, blocks[0]));
    ASSERT_OK(moiety_free_on_alloc_stream(pool, blocks[1]));
    ASSERT_OK(moiety_free(pool, blocks[2], nullptr));
    ASSERT_OK(moiety_trace_stop(pool, nullptr));
    Recording recording(path);
    EXPECT_EQ("aaafff", recording.Letters());
    ASSERT_EQ(1u, recording.streams.size());
    EXPECT_EQ("legacy", recording.streams[0]);
}

TEST_F(Record, LosesNothingWhereRingsAreSmall)
{
    const std::string path = FileName("small.mtrace");
    Pool pool(Recorded(2));
    ASSERT_OK(moiety_trace_start(pool, path.c_str()));
    Use(pool, 3000);
    moiety_trace_summary summary = Summary();
    ASSERT_OK(moiety_trace_flush(pool, &summary));
    EXPECT_LE(6000u, summary.operation_count);
    ASSERT_OK(moiety_trace_stop(pool, nullptr));
    Recording recording(path);
    EXPECT_EQ(3000u, recording.Count("a"));
    EXPECT_EQ(3000u, recording.Count("f"));
    EXPECT_EQ(0u, recording.info.count("lost"));
}

// The history goes on for its own readers, before, while and after.
TEST_F(Record, MayBeginLateAndBeRepeated)
{
    const std::string path = FileName("late.mtrace");
    Pool pool(Recorded(4));
    moiety_devptr before;
    ASSERT_OK(moiety_alloc(pool, 1000, nullptr, &before));
    Use(pool, 10);
    for (unsigned i = 0; i < 2; i++) {
        ASSERT_EQ(MOIETY_OK, moiety_trace_start(pool, path.c_str()));
        EXPECT_EQ(MOIETY_E_IN_USE,
                  moiety_trace_start(pool, FileName("other").c_str()));
        EXPECT_NE(0, access(FileName("other").c_str(), F_OK));
        Use(pool, 5);
        if (i == 0) {
            ASSERT_OK(moiety_free(pool, before, nullptr));
        }
        ASSERT_OK(moiety_trace_stop(pool, nullptr));
        Recording recording(path);
        EXPECT_EQ(5u, recording.Count("a"));
        EXPECT_EQ(5u, recording.Count("f"));
        // Of what was live before nothing is known.
        EXPECT_EQ(i == 0, recording.info.count("dropped_frees") == 1);
    }
    EXPECT_EQ(MOIETY_E_INVALID, moiety_trace_stop(pool, nullptr));
    EXPECT_EQ("the pool is not recorded", Message());
    Use(pool, 10);
}

TEST_F(Record, EndsWithItsPool)
{
    const std::string path = FileName("destroyed.mtrace");
    {
        Pool pool(Recorded(64));
        ASSERT_OK(moiety_trace_start(pool, path.c_str()));
        Use(pool, 7);
    }
    EXPECT_EQ(7u, Recording(path).Count("a"));
}

TEST_F(Record, IsAskedForByTheEnvironment)
{
    const std::string path = FileName("conf.mtrace");
    setenv("MOIETY_CONF", ("trace:" + path + ",wait_ms:5").c_str(), 1);
    {
        Pool first;
        Pool second;
        unsetenv("MOIETY_CONF");
        Use(first, 3);
        Use(second, 4);
    }
    EXPECT_EQ(3u, Recording(path).Count("a"));
    EXPECT_EQ(4u, Recording(FileName("conf.2.mtrace")).Count("a"));
    const std::string numbered = FileName("of-%p");
    setenv("MOIETY_CONF", ("trace:" + numbered).c_str(), 1);
    {
        Pool third;
        unsetenv("MOIETY_CONF");
        Use(third, 5);
    }
    EXPECT_EQ(5u, Recording(FileName("of-" + std::to_string(getpid()) + ".3"))
                      .Count("a"));
}

TEST_F(Record, NeedsAHistory)
{
    Pool pool;
    EXPECT_EQ(MOIETY_E_UNSUPPORTED,
              moiety_trace_start(pool, FileName("none.mtrace").c_str()));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_trace_stop(pool, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_trace_flush(pool, nullptr));
}

TEST_F(Record, RefusesWhatIsNoFile)
{
    Pool pool(Recorded(64));
    const std::string folder = FileName("");
    const std::string missing = FileName("no/such/folder");
    const std::string pipe = FileName("pipe");
    ASSERT_EQ(0, mkfifo(pipe.c_str(), 0600));
    int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
    ASSERT_LE(0, reader);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_trace_start(pool, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_trace_start(pool, ""));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_trace_start(pool, folder.c_str()));
    EXPECT_EQ("cannot record to '" + folder + "': Is a directory", Message());
    EXPECT_EQ(MOIETY_E_INVALID, moiety_trace_start(pool, missing.c_str()));
    EXPECT_EQ("cannot record to '" + missing + "': No such file or directory",
              Message());
    EXPECT_EQ(MOIETY_E_INVALID, moiety_trace_start(pool, pipe.c_str()));
    EXPECT_EQ("cannot record to '" + pipe + "': it is not a file", Message());
    close(reader);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_trace_start(pool, "/dev/full"));
    EXPECT_EQ("recording to '/dev/full' ended after 0 operations: No space "
              "left on device",
              Message());
    moiety_trace_summary summary = Summary();
    summary.struct_size = 8;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_trace_stop(pool, &summary));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_trace_flush(pool, &summary));
    Use(pool);
}

TEST_F(Record, RefusesAFileThatIsInUse)
{
    const std::string path = FileName("shared.mtrace");
    Pool pool(Recorded(64));
    Pool other(Recorded(64));
    ASSERT_EQ(MOIETY_OK, moiety_trace_start(pool, path.c_str()));
    EXPECT_EQ(MOIETY_E_IN_USE, moiety_trace_start(other, path.c_str()));
    EXPECT_EQ("cannot record to '" + path + "': another pool records to it",
              Message());
    ASSERT_OK(moiety_trace_stop(pool, nullptr));
    EXPECT_OK(moiety_trace_start(other, path.c_str()));
}

TEST_F(Record, APoolIsNotMadeWithoutItsFile)
{
    setenv("MOIETY_CONF", "trace:/no/such/folder/a.mtrace", 1);
    moiety_pool *pool = nullptr;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_create(nullptr, &pool));
    unsetenv("MOIETY_CONF");
    EXPECT_EQ(nullptr, pool);
    EXPECT_EQ(0u, Message().find("cannot record to '/no/such/folder/a."));
}

// What a disk does that is full: the program goes on, and is told.
TEST_F(Record, AFullDiskEndsTheRecordingAndNothingElse)
{
    const std::string path = FileName("full.mtrace");
    struct rlimit before;
    ASSERT_EQ(0, getrlimit(RLIMIT_FSIZE, &before));
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit little = {1 << 17, before.rlim_max};
    Pool pool(Recorded(64));
    ASSERT_OK(moiety_trace_start(pool, path.c_str()));
    ASSERT_EQ(0, setrlimit(RLIMIT_FSIZE, &little));
    Use(pool, 20000);
    moiety_trace_summary summary = Summary();
    EXPECT_OK(moiety_trace_flush(pool, &summary));
    EXPECT_EQ(static_cast<uint32_t>(MOIETY_E_INVALID), summary.status);
    EXPECT_EQ(EFBIG, summary.system_error);
    EXPECT_EQ(1u << 17, summary.byte_count);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_trace_stop(pool, &summary));
    EXPECT_NE(std::string::npos, Message().find("File too large"));
    ASSERT_EQ(0, setrlimit(RLIMIT_FSIZE, &before));
    Recording recording(path, false);
    EXPECT_LT(1000u, recording.operations.size());
    Use(pool);
}

// What a child that exits leaves of its parent's file.
TEST_F(Record, AForkedChildWritesNothing)
{
    const std::string path = FileName("forked.mtrace");
    Pool pool(Recorded(64));
    ASSERT_OK(moiety_trace_start(pool, path.c_str()));
    Use(pool, 3);
    pid_t child = fork();
    if (child == 0)
        exit(moiety_trace_stop(pool, nullptr) == MOIETY_E_FORKED ? 0 : 1);
    int status = -1;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
    Use(pool, 3);
    ASSERT_OK(moiety_trace_stop(pool, nullptr));
    EXPECT_EQ(6u, Recording(path).Count("a"));
}

} // namespace
