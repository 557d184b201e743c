// SPDX-License-Identifier: Apache-2.0
//
// Threads that hand blocks to each other, and end, while they are recorded: each
// operation is in the file once, and no block is allocated while it is live.
#include <atomic>
#include <thread>

#include "tests/pool/pool_under_test.h"
#include "tests/record/record_under_test.h"

namespace
{

using namespace pool_test;
using namespace record_test;

constexpr unsigned kThreads = 8;
constexpr unsigned kRounds = 2000;
constexpr size_t kSizes[] = {4096, 4096, 700, 70000, 3 << 20};

std::atomic<moiety_devptr> mail[kThreads];

void Work(moiety_pool *pool, moiety_stream stream, unsigned number)
{
    for (unsigned round = 0; round < kRounds; round++) {
        moiety_devptr block = 0;
        // Each large block is a call that is no hit.
        size_t size = kSizes[round % 64 ? round % 4 : 4];
        ASSERT_OK(moiety_alloc(pool, size, stream, &block));
        block = mail[(number + round) % kThreads].exchange(block);
        if (block) {
            ASSERT_OK(moiety_free(pool, block, stream));
        }
    }
}

void Expect(const std::string &path)
{
    Recording recording(path);
    EXPECT_EQ(kThreads * kRounds, recording.Count("a"));
    EXPECT_EQ(kThreads * kRounds, recording.Count("f"));
    EXPECT_EQ(0u, recording.info.count("lost"));
    EXPECT_EQ(0u, recording.info.count("late_times"));
    EXPECT_EQ(0u, recording.info.count("implied_frees"));
    EXPECT_EQ(0u, recording.info.count("dropped_frees"));
    EXPECT_TRUE(recording.live.empty());
}

class Rings : public testing::TestWithParam<unsigned>
{
};

TEST_P(Rings, HaveEachBlocksLivesInOrder)
{
    pool_test::UseStandin();
    const std::string path =
        FileName("threads" + std::to_string(GetParam()) + ".mtrace");
    Pool pool(Recorded(GetParam()));
    ASSERT_OK(moiety_trace_start(pool, path.c_str()));
    {
        Stream stream;
        std::vector<std::thread> threads;
        for (unsigned i = 0; i < kThreads; i++)
            threads.emplace_back([&, i] { Work(pool, stream, i); });
        for (std::thread &thread : threads)
            thread.join();
        for (std::atomic<moiety_devptr> &left : mail)
            pool.Free(left.exchange(0), stream);
        pool_test::Synchronize();
        EXPECT_OK(moiety_pool_retire_stream(pool, stream));
    }
    ASSERT_OK(moiety_trace_stop(pool, nullptr));
    Expect(path);
}

INSTANTIATE_TEST_SUITE_P(OfEntries, Rings, testing::Values(4, 256, 16384));

} // namespace
