// SPDX-License-Identifier: Apache-2.0
//
// The caches of threads that sleep: whoever needs the memory gets it, and a
// thread whose caches were taken does not notice. With membarrier, and where
// the kernel refuses it.
#include <gtest/gtest.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <future>
#include <thread>
#include <vector>

#include "tests/pool/pool_under_test.h"
#include "tests/pool/stream_names.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

// Longer than between two looks for threads that rest.
constexpr std::chrono::milliseconds kLook(15);
constexpr int kThreads = 32;
constexpr uint64_t kLimitBytes = 256 * kMiB;
constexpr size_t kBlockBytes = 8 * kKiB;
constexpr int kBlocks = 64;

// From now on, for all threads that are made later too.
void RefuseMembarrier()
{
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
    ASSERT_EQ(0, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    ASSERT_EQ(0, prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
    ASSERT_EQ(-1, syscall(SYS_membarrier, 0, 0, 0));
}

class IdleThreads : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        if (getenv("MOIETY_TEST_REFUSE_MEMBARRIER"))
            RefuseMembarrier();
        pool_test::UseStandin();
    }
};

// With room for everybody's caches.
moiety_pool_options Limited()
{
    moiety_pool_options options = Defaults();
    options.limit_bytes = kLimitBytes;
    options.first_segment_bytes = kLimitBytes;
    options.thread_cache_bytes = 64 * kMiB;
    options.cache_bytes = kLimitBytes;
    return options;
}

void FillCache(Pool &pool, moiety_stream stream)
{
    std::vector<moiety_devptr> blocks;
    blocks.reserve(kBlocks);
    for (int i = 0; i < kBlocks; i++)
        blocks.push_back(pool.Alloc(kBlockBytes, stream));
    for (moiety_devptr block : blocks)
        pool.Free(block, stream);
}

// Threads that fill their caches, sleep, and use the pool once more in the end.
class Sleepers
{
  public:
    Sleepers(Pool &pool, moiety_stream stream, int count = kThreads)
    {
        std::shared_future<void> woken = wake_.get_future().share();
        for (int i = 0; i < count; i++) {
            std::promise<void> filled;
            std::future<void> is_filled = filled.get_future();
            threads_.emplace_back(Sleep, std::ref(pool), stream,
                                  std::move(filled), woken);
            is_filled.wait();
        }
    }
    void WakeAndJoin()
    {
        wake_.set_value();
        for (std::thread &thread : threads_)
            thread.join();
    }

  private:
    static void Sleep(Pool &pool, moiety_stream stream,
                      std::promise<void> filled, std::shared_future<void> woken)
    {
        pool_test::SetCurrent(pool_test::PrimaryContext());
        FillCache(pool, stream);
        moiety_devptr held = pool.Alloc(kBlockBytes, stream);
        filled.set_value();
        woken.wait();
        pool.Free(held, stream);
        FillCache(pool, stream);
    }

    std::promise<void> wake_;
    std::vector<std::thread> threads_;
};

// All of the limit, with what the sleepers hold.
std::vector<moiety_devptr> TakeNearlyAll(Pool &pool, uint64_t held_bytes)
{
    std::vector<moiety_devptr> blocks;
    for (uint64_t taken = held_bytes; taken + kBlockBytes <= kLimitBytes;
         taken += kBlockBytes)
        blocks.push_back(pool.Alloc(kBlockBytes, MOIETY_STREAM_LEGACY));
    return blocks;
}

void FreeAll(Pool &pool, const std::vector<moiety_devptr> &blocks)
{
    for (moiety_devptr block : blocks)
        pool.Free(block, MOIETY_STREAM_LEGACY);
}

class FreedOn : public IdleThreads,
                public ::testing::WithParamInterface<moiety_stream>
{
};

TEST_P(FreedOn, IsTakenFromThreadsThatSleep)
{
    Pool pool(Limited());
    Sleepers sleepers(pool, GetParam());
    std::vector<moiety_devptr> blocks =
        TakeNearlyAll(pool, kThreads * kBlockBytes);
    EXPECT_GE(pool.Stats().oom_steps[MOIETY_OOM_IDLE_THREADS], 1u);
    EXPECT_EQ(0u, pool.Stats().ooms);
    FreeAll(pool, blocks);
    sleepers.WakeAndJoin();
    uint64_t reserved_bytes = pool.Stats().reserved_bytes_current;
    EXPECT_EQ(reserved_bytes, pool.TrimAll());
    EXPECT_EQ(0u, pool.Stats().double_frees_found);
}

INSTANTIATE_TEST_SUITE_P(Streams, FreedOn, pool_test::GivenStreams(),
                         pool_test::NameOfStream);

// What a thread holds is its own, whatever becomes of its caches.
TEST_F(IdleThreads, KeepTheirLiveBlocks)
{
    Pool pool(Limited());
    Sleepers sleepers(pool, MOIETY_STREAM_LEGACY, 2);
    FreeAll(pool, TakeNearlyAll(pool, 2 * kBlockBytes));
    EXPECT_EQ(2 * kBlockBytes, pool.Stats().allocated_bytes_current);
    sleepers.WakeAndJoin();
    EXPECT_EQ(0u, pool.Stats().allocated_bytes_current);
}

// Allocates until it has some or the pool has no more, and frees all.
void UseSome(Pool &pool)
{
    std::vector<moiety_devptr> blocks;
    moiety_devptr block = 0;
    while (blocks.size() < kBlocks &&
           alloc_no_wait(pool, kBlockBytes, MOIETY_STREAM_LEGACY, &block) ==
               MOIETY_OK)
        blocks.push_back(block);
    FreeAll(pool, blocks);
}

// Their caches are asked for over and over while they are at work, by one who
// wants nearly all.
TEST_F(IdleThreads, AreAskedWhileTheyWork)
{
    moiety_pool_options options = Limited();
    options.wait_ms = MOIETY_WAIT_NONE;
    Pool pool(options);
    std::atomic<bool> is_over{false};
    std::vector<std::thread> workers;
    for (int i = 0; i < 3; i++) {
        workers.emplace_back([&] {
            pool_test::SetCurrent(pool_test::PrimaryContext());
            while (!is_over)
                UseSome(pool);
        });
    }
    while (pool.Stats().oom_steps[MOIETY_OOM_IDLE_THREADS] < 20) {
        moiety_devptr block = 0;
        if (moiety_alloc(pool, kLimitBytes - kBlockBytes, MOIETY_STREAM_LEGACY,
                         &block) == MOIETY_OK)
            pool.Free(block, MOIETY_STREAM_LEGACY);
    }
    is_over = true;
    for (std::thread &worker : workers)
        worker.join();
    EXPECT_EQ(0u, pool.Stats().double_frees_found);
    EXPECT_EQ(0u, pool.Stats().allocated_bytes_current);
    uint64_t reserved_bytes = pool.Stats().reserved_bytes_current;
    EXPECT_EQ(reserved_bytes, pool.TrimAll());
}

// Pairs until most of a round are hits, or for so many rounds, in which those that
// rest are looked at; whether they were.
bool GetsHits(Pool &pool)
{
    for (int round = 0; round < 400; round++) {
        uint64_t before = pool.Stats().cache_hits;
        for (int i = 0; i < kBlocks; i++)
            pool.Free(pool.Alloc(kBlockBytes, MOIETY_STREAM_LEGACY),
                      MOIETY_STREAM_LEGACY);
        if (pool.Stats().cache_hits - before > kBlocks / 2)
            return true;
        // Who rests is looked at by the clock.
        std::this_thread::sleep_for(kLook);
    }
    return false;
}

TEST_F(IdleThreads, LeaveRoomForOneThatWorks)
{
    moiety_pool_options options = Limited();
    // A class of a thread has a 64th of that, so that the sleepers have all of it.
    options.thread_cache_bytes = options.cache_bytes = 512 * kKiB;
    Pool pool(options);
    Sleepers sleepers(pool, MOIETY_STREAM_LEGACY, 128);
    EXPECT_TRUE(GetsHits(pool));
    EXPECT_EQ(0u, pool.Stats().oom_steps[MOIETY_OOM_IDLE_THREADS]);
    sleepers.WakeAndJoin();
    EXPECT_EQ(0u, pool.Stats().double_frees_found);
    EXPECT_EQ(0u, pool.Stats().allocated_bytes_current);
    uint64_t reserved_bytes = pool.Stats().reserved_bytes_current;
    EXPECT_EQ(reserved_bytes, pool.TrimAll());
}

TEST_F(IdleThreads, KeepTheirCachesWhileThereIsRoom)
{
    Pool pool(Limited());
    Sleepers sleepers(pool, MOIETY_STREAM_LEGACY, 4);
    uint64_t cached_bytes = pool.Stats().cached_bytes;
    ASSERT_GE(cached_bytes, 4 * kBlockBytes);
    // Misses that look at more than is free, for longer than a thread may rest where
    // there is none.
    for (int i = 0; i < 6; i++) {
        moiety_devptr block = 0;
        ASSERT_OK(alloc_aligned(pool, kLimitBytes / 4, 1024,
                                MOIETY_STREAM_LEGACY, &block));
        pool.Free(block, MOIETY_STREAM_LEGACY);
        // Until the pool would look again.
        std::this_thread::sleep_for(kLook);
    }
    EXPECT_GE(pool.Stats().cached_bytes, cached_bytes);
    sleepers.WakeAndJoin();
}

} // namespace
