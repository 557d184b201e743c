// SPDX-License-Identifier: Apache-2.0
//
// Clients that behave badly, and a pool that goes on.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/expose/expose_under_test.h"

namespace
{

using namespace expose_test;
using namespace pool_test;

class HostileClient : public ExposeTest
{
};

TEST_F(HostileClient, ThatIsSilentKeepsOthersWaitingForASecondOnly)
{
    Start();
    Client silent(Path());
    Client half(Path());
    half.Send("sta");
    EXPECT_TRUE(Has(Ask(Path(), "stats"), "format", 1));
    EXPECT_EQ("", silent.Receive());
    EXPECT_EQ("", half.Receive());
}

TEST_F(HostileClient, ThatSaysTooMuchGetsNoAnswer)
{
    Start();
    Client loud(Path());
    loud.Send(std::string(1000, 's'));
    EXPECT_EQ("", loud.Receive());
    EXPECT_TRUE(Has(Ask(Path(), std::string("st\0ts", 5)), "status",
                    "MOIETY_E_INVALID"));
}

TEST_F(HostileClient, ThatGoesAwayIsForgotten)
{
    unsigned files = OpenFiles();
    Pool pool;
    std::vector<moiety_devptr> blocks;
    for (int i = 0; i < 5000; i++)
        blocks.push_back(pool.Alloc(kKiB));
    Start();
    for (int i = 0; i < 20; i++) {
        Client(Path()).Send("heap\n");
        Client nothing(Path());
    }
    EXPECT_TRUE(Has(Ask(Path(), "stats"), "format", 1));
    for (moiety_devptr block : blocks)
        pool.Free(block);
    EXPECT_OK(moiety_expose_stop());
    EXPECT_EQ(files, OpenFiles());
}

TEST_F(HostileClient, ThatDoesNotReadHoldsUpNoPool)
{
    Start();
    moiety_pool *pool = nullptr;
    ASSERT_OK(moiety_pool_create(nullptr, &pool));
    // More than a socket holds, as text.
    std::vector<moiety_devptr> blocks(20000);
    ASSERT_OK(moiety_alloc_batch(pool, 512, MOIETY_STREAM_LEGACY, blocks.size(),
                                 blocks.data()));
    Client idle(Path());
    idle.Send("heap\n");
    idle.AwaitAnswer();
    size_t freed = 0;
    EXPECT_OK(moiety_free_batch(pool, blocks.data(), blocks.size(),
                                MOIETY_STREAM_LEGACY, &freed));
    EXPECT_OK(moiety_pool_destroy(pool, nullptr));
    EXPECT_OK(moiety_expose_stop());
}

// The end of a pool is never refused because somebody looks at it.
TEST_F(HostileClient, ThatAsksAllTheTimeIsInNobodysWay)
{
    constexpr int kRounds = 30;
    Start();
    std::atomic<bool> is_over{false};
    std::atomic<unsigned> answers{0};
    std::thread asking([&] {
        for (unsigned i = 0; !is_over; i++) {
            std::string answer = Ask(Path(), i % 2 ? "snapshot" : "stats");
            EXPECT_EQ('\n', answer.empty() ? '?' : answer.back());
            answers++;
        }
    });
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; i++)
        threads.emplace_back([&] {
            pool_test::UseStandin();
            for (int round = 0; round < kRounds || !answers; round++) {
                moiety_pool_options options = pool_test::Defaults();
                options.history_entries = round % 2 ? 64 : 0;
                Pool pool(options);
                for (size_t bytes = 1; bytes < 200 * kKiB; bytes *= 3) {
                    moiety_devptr block = pool.Alloc(bytes);
                    pool.Free(block);
                }
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    is_over = true;
    asking.join();
}

} // namespace
