// SPDX-License-Identifier: Apache-2.0
//
// A signal handler that calls the library: refused where it interrupts a call,
// and never a cause of harm.
#include <gtest/gtest.h>

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/pool/pool_under_test.h"
#include "tests/segment/fake_source.h"

// Away from a call, a handler may do all that the library does, malloc() too,
// as long as it interrupts nothing of that kind: these tests see to it.
extern "C" BINADE_API const char *__tsan_default_options();
extern "C" const char *__tsan_default_options()
{
    return "report_signal_unsafe=0";
}

namespace
{

using pool_test::Defaults;
using pool_test::kMiB;
using pool_test::Pool;
using pool_test::Ranges;
using segment_test::FakeSource;

const binade_stream kStream = BINADE_STREAM_LEGACY;

// What the handler works with.
struct Shared {
    binade_pool *pool;
    binade_stream stream;
    binade_event event;
    binade_devptr block;
    binade_private arena;
    binade_status statuses[21];
};
Shared shared;

// None of these could be served at once.
void CallEverything(int)
{
    binade_pool *pool = shared.pool;
    binade_devptr block = shared.block, out = 0;
    uint64_t bytes = 0;
    binade_stats stats = {};
    stats.struct_size = sizeof(stats);
    binade_private another = 0;
    binade_private_info info = {};
    info.struct_size = sizeof(info);
    binade_scope scope = 0;
    binade_status *status = shared.statuses;
    *status++ = binade_alloc(pool, 200 * kMiB, kStream, &out);
    *status++ = binade_alloc(pool, 200 * kMiB, BINADE_STREAM_ANY, &out);
    *status++ = binade_try_alloc(pool, 200 * kMiB, kStream, &out);
    *status++ = binade_alloc_aligned(pool, 200 * kMiB, 4096, kStream, &out);
    *status++ = binade_alloc_batch(pool, 200 * kMiB, kStream, 1, &out);
    *status++ = binade_free(pool, block, kStream);
    *status++ = binade_free_sized(pool, block, 3 * kMiB, kStream);
    *status++ = binade_free_own(pool, block);
    *status++ = binade_free_batch(pool, &block, 1, kStream, nullptr);
    *status++ = binade_free_after(pool, block, shared.event);
    *status++ = binade_record_use(pool, block, kStream);
    *status++ = binade_pool_trim(pool, 0, &bytes);
    *status++ = binade_pool_stats(pool, &stats);
    *status++ = binade_stream_retire(pool, shared.stream);
    *status++ = binade_private_create(pool, 0, &another);
    *status++ = binade_private_alloc(shared.arena, 512, kStream, &out);
    *status++ = binade_private_claim(shared.arena, block, 512, kStream);
    *status++ = binade_private_trim(shared.arena, &bytes);
    *status++ = binade_private_stats(shared.arena, &info);
    *status++ = binade_private_scope_begin(shared.arena, shared.stream, &scope);
    *status++ = binade_private_release(shared.arena);
}

class Signal : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }

    static void Handle(void (*handler)(int))
    {
        struct sigaction action = {};
        action.sa_handler = handler;
        ASSERT_EQ(0, sigaction(SIGUSR1, &action, nullptr));
    }
};

TEST_F(Signal, InACallIsToldBusyByEveryFunction)
{
    FakeSource source;
    binade_source table = source.Table();
    binade_pool_options options = Defaults();
    options.source = &table;
    options.flags |= BINADE_POOL_NOTE_STREAMS;
    Pool pool(options);
    pool_test::Stream stream;
    shared = {pool, stream, pool_test::NewEvent(), pool.Alloc(3 * kMiB), 0, {}};
    ASSERT_EQ(BINADE_OK, binade_private_create(pool, 0, &shared.arena));
    Handle(CallEverything);
    source.in_reserve = [](void *) { raise(SIGUSR1); };
    binade_devptr large = pool.Alloc(100 * kMiB); // interrupted while it grows
    source.in_reserve = nullptr;
    for (size_t i = 0; i < sizeof(shared.statuses) / sizeof(binade_status); i++)
        EXPECT_EQ(BINADE_E_BUSY, shared.statuses[i]) << "call " << i;
    EXPECT_EQ(2u, pool.Stats().allocation_current);
    EXPECT_EQ(BINADE_OK, binade_private_release(shared.arena));
    pool.Free(large);
    pool.Free(shared.block);
    pool_test::DestroyEvent(shared.event);
}

constexpr unsigned kBlocks = 64;

// The handler's own blocks, and what it was told.
struct Storm {
    binade_pool *pool;
    binade_devptr blocks[kBlocks];
    volatile unsigned turn;
    unsigned busy_count;
    unsigned done_count;
    unsigned wrong_count;
};
Storm storm;

// Takes a block or gives one back.
binade_status Turn(binade_pool *pool, binade_devptr *block, unsigned turn)
{
    binade_stream stream = turn % 3 ? kStream : BINADE_STREAM_DONE;
    if (!*block)
        return binade_alloc(pool, size_t{512} << (turn % 13), stream, block);
    binade_status status = binade_free(pool, *block, stream);
    if (status == BINADE_OK)
        *block = 0;
    return status;
}

void TakeATurn(int)
{
    unsigned turn = storm.turn;
    storm.turn = turn + 1;
    binade_status status =
        Turn(storm.pool, &storm.blocks[turn * 7 % kBlocks], turn);
    storm.busy_count += status == BINADE_E_BUSY;
    storm.done_count += status == BINADE_OK;
    storm.wrong_count += status != BINADE_OK && status != BINADE_E_BUSY;
}

// Sends signals to a thread until the end.
class Sender
{
  public:
    explicit Sender(pthread_t to)
        : thread_([this, to] {
              while (!is_over_) {
                  pthread_kill(to, SIGUSR1);
                  std::this_thread::yield();
              }
          })
    {
    }
    ~Sender()
    {
        is_over_ = true;
        thread_.join();
    }

  private:
    std::atomic<bool> is_over_{false};
    std::thread thread_;
};

void ExpectAllApart(Pool &pool, const binade_devptr *blocks, Ranges *ranges)
{
    for (unsigned i = 0; i < kBlocks; i++) {
        if (blocks[i]) {
            EXPECT_TRUE(ranges->Add(blocks[i], pool.UsableSize(blocks[i])));
        }
    }
}

// Between the first signal and the last, this thread calls nothing but the
// library: a handler that interrupted malloc() could not call it again.
TEST_F(Signal, AtAnyMomentHarmsNothing)
{
    constexpr unsigned kSignals = 2000;
    Pool pool;
    binade_devptr blocks[kBlocks] = {};
    unsigned wrong_count = 0;
    storm = {};
    storm.pool = pool;
    Handle(TakeATurn);
    {
        Sender sender(pthread_self());
        for (unsigned turn = 0; storm.turn < kSignals; turn++) {
            wrong_count +=
                Turn(pool, &blocks[turn * 11 % kBlocks], turn) != BINADE_OK;
            if (turn % 64 == 0)
                wrong_count += binade_pool_trim(pool, 0, nullptr) != BINADE_OK;
        }
    }
    Handle(SIG_IGN);
    EXPECT_EQ(0u, wrong_count) << binade_last_error_message();
    EXPECT_EQ(0u, storm.wrong_count);
    EXPECT_GT(storm.done_count + storm.busy_count, 0u);
    Ranges ranges;
    ExpectAllApart(pool, blocks, &ranges);
    ExpectAllApart(pool, storm.blocks, &ranges);
    for (binade_devptr block : blocks)
        pool.Free(block);
    for (binade_devptr block : storm.blocks)
        pool.Free(block);
    EXPECT_EQ(0u, pool.Stats().allocation_current);
    EXPECT_EQ(0u, pool.Stats().double_frees_found);
    uint64_t reserved_bytes = pool.Stats().reserved_bytes_current;
    EXPECT_EQ(reserved_bytes, pool.TrimAll());
}

} // namespace
