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
#include "tests/support/tools/pools.h"

// Away from a call, a handler may do all that the library does, malloc() too,
// as long as it interrupts nothing of that kind: these tests see to it.
extern "C" MOIETY_API const char *__tsan_default_options();
extern "C" const char *__tsan_default_options()
{
    return "report_signal_unsafe=0";
}

namespace
{

using namespace pool_test;
using segment_test::FakeSource;

// What the handler works with.
struct Shared {
    moiety_pool *pool;
    moiety_stream stream;
    moiety_event event;
    moiety_devptr block;
    moiety_private arena;
    moiety_status statuses[21];
};
Shared shared;

// None of these could be served at once.
void CallEverything(int)
{
    moiety_pool *pool = shared.pool;
    moiety_devptr block = shared.block, out = 0;
    uint64_t bytes = 0;
    moiety_pool_stats stats = {};
    stats.struct_size = sizeof(stats);
    moiety_private another = 0;
    moiety_private_stats info = {};
    info.struct_size = sizeof(info);
    moiety_scope scope = 0;
    moiety_status *status = shared.statuses;
    *status++ = moiety_alloc(pool, 200 * kMiB, kStream, &out);
    *status++ = moiety_alloc(pool, 200 * kMiB, MOIETY_STREAM_ANY, &out);
    *status++ = alloc_no_wait(pool, 200 * kMiB, kStream, &out);
    *status++ = alloc_aligned(pool, 200 * kMiB, 4096, kStream, &out);
    *status++ = moiety_alloc_batch(pool, 200 * kMiB, kStream, 1, &out);
    *status++ = moiety_free(pool, block, kStream);
    *status++ = moiety_free_sized(pool, block, 3 * kMiB, kStream);
    *status++ = moiety_free_on_alloc_stream(pool, block);
    *status++ = moiety_free_batch(pool, &block, 1, kStream, nullptr);
    *status++ = moiety_free_on_event(pool, block, shared.event);
    *status++ = moiety_record_use(pool, block, kStream);
    *status++ = moiety_pool_trim(pool, 0, &bytes);
    *status++ = moiety_pool_get_stats(pool, &stats);
    *status++ = moiety_pool_retire_stream(pool, shared.stream);
    *status++ = create_arena(pool, 0, &another);
    *status++ = alloc_of_arena(shared.arena, 512, kStream, &out);
    *status++ = moiety_private_claim(shared.arena, block, 512, kStream);
    *status++ = moiety_private_trim(shared.arena, &bytes);
    *status++ = moiety_private_get_stats(shared.arena, &info);
    *status++ = moiety_private_scope_begin(shared.arena, shared.stream, &scope);
    *status++ = moiety_private_destroy(shared.arena);
}

class Signal : public StandinTest
{
  protected:
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
    moiety_source table = source.Table();
    moiety_pool_options options = Defaults();
    options.source = &table;
    options.flags |= MOIETY_POOL_NOTE_STREAMS;
    Pool pool(options);
    pool_test::Stream stream;
    shared = {pool, stream, pool_test::NewEvent(), pool.Alloc(3 * kMiB), 0, {}};
    ASSERT_OK(create_arena(pool, 0, &shared.arena));
    Handle(CallEverything);
    source.in_reserve = [](void *) { raise(SIGUSR1); };
    moiety_devptr large = pool.Alloc(100 * kMiB); // interrupted while it grows
    source.in_reserve = nullptr;
    for (size_t i = 0; i < sizeof(shared.statuses) / sizeof(moiety_status); i++)
        EXPECT_EQ(MOIETY_E_REENTRANT, shared.statuses[i]) << "call " << i;
    EXPECT_EQ(2u, pool.Stats().allocation_current);
    EXPECT_EQ(MOIETY_OK, moiety_private_destroy(shared.arena));
    pool.Free(large);
    pool.Free(shared.block);
    pool_test::DestroyEvent(shared.event);
}

constexpr unsigned kBlocks = 64;

// The handler's own blocks, and what it was told.
struct Storm {
    moiety_pool *pool;
    moiety_devptr blocks[kBlocks];
    volatile unsigned turn;
    unsigned busy_count;
    unsigned done_count;
    unsigned wrong_count;
};
Storm storm;

// Takes a block or gives one back.
moiety_status Turn(moiety_pool *pool, moiety_devptr *block, unsigned turn)
{
    moiety_stream stream = turn % 3 ? kStream : MOIETY_STREAM_DONE;
    if (!*block)
        return moiety_alloc(pool, size_t{512} << (turn % 13), stream, block);
    moiety_status status = moiety_free(pool, *block, stream);
    if (status == MOIETY_OK)
        *block = 0;
    return status;
}

void TakeATurn(int)
{
    unsigned turn = storm.turn;
    storm.turn = turn + 1;
    moiety_status status =
        Turn(storm.pool, &storm.blocks[turn * 7 % kBlocks], turn);
    storm.busy_count += status == MOIETY_E_REENTRANT;
    storm.done_count += status == MOIETY_OK;
    storm.wrong_count += status != MOIETY_OK && status != MOIETY_E_REENTRANT;
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

void ExpectAllApart(Pool &pool, const moiety_devptr *blocks, Ranges *ranges)
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
    moiety_devptr blocks[kBlocks] = {};
    unsigned wrong_count = 0;
    storm = {};
    storm.pool = pool;
    Handle(TakeATurn);
    {
        Sender sender(pthread_self());
        for (unsigned turn = 0; storm.turn < kSignals; turn++) {
            wrong_count +=
                Turn(pool, &blocks[turn * 11 % kBlocks], turn) != MOIETY_OK;
            if (turn % 64 == 0)
                wrong_count += moiety_pool_trim(pool, 0, nullptr) != MOIETY_OK;
        }
    }
    Handle(SIG_IGN);
    EXPECT_EQ(0u, wrong_count) << moiety_last_error_message();
    EXPECT_EQ(0u, storm.wrong_count);
    EXPECT_GT(storm.done_count + storm.busy_count, 0u);
    Ranges ranges;
    ExpectAllApart(pool, blocks, &ranges);
    ExpectAllApart(pool, storm.blocks, &ranges);
    for (moiety_devptr block : blocks)
        pool.Free(block);
    for (moiety_devptr block : storm.blocks)
        pool.Free(block);
    EXPECT_EQ(0u, pool.Stats().allocation_current);
    EXPECT_EQ(0u, pool.Stats().double_frees_found);
    uint64_t reserved_bytes = pool.Stats().reserved_bytes_current;
    EXPECT_EQ(reserved_bytes, pool.TrimAll());
}

} // namespace
