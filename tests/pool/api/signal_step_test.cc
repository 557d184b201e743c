// SPDX-License-Identifier: Apache-2.0
//
// A signal handler at each instruction of a hit: the processor stops after every
// one, and at one of them the handler makes calls of its own, so many that the
// thread's table of routes moves. Whatever the hit had read before is stale then.
#include <gtest/gtest.h>

#include <signal.h>

#include <memory>
#include <thread>
#include <vector>

#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

#if defined(__x86_64__)

// The trap flag. The bytes below the stack pointer may be the function's own.
inline void BeginSteps()
{
    __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)"
                     "\n\tpopfq\n\tlea 128(%%rsp), %%rsp" ::
                         : "memory", "cc");
}
inline void EndSteps()
{
    __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\tandq $~0x100, (%%rsp)"
                     "\n\tpopfq\n\tlea 128(%%rsp), %%rsp" ::
                         : "memory", "cc");
}

// Streams that a thread has routes for: before, so that its table has left the
// thread's own page, and those of the handler, so that it moves again.
constexpr unsigned kBefore = 24;
constexpr unsigned kOfHandler = 24;

struct Game {
    moiety_pool *pool;
    moiety_stream streams[kBefore + kOfHandler];
    unsigned steps; // taken so far
    unsigned at;    // the one at which the handler works; 0: at none
    moiety_devptr kept;
    moiety_status first_status;
    unsigned wrong_count;
};
Game *game;

// A block of the stream that the hit is for stays out, so that it cannot be
// handed out twice.
void Work()
{
    game->first_status =
        moiety_alloc(game->pool, 512, game->streams[0], &game->kept);
    for (unsigned i = kBefore; i < kBefore + kOfHandler; i++) {
        moiety_devptr block = 0;
        moiety_status status =
            moiety_alloc(game->pool, 512, game->streams[i], &block);
        if (status == MOIETY_OK)
            status = moiety_free(game->pool, block, game->streams[i]);
        game->wrong_count +=
            status != MOIETY_OK && status != game->first_status;
    }
}

void OnStep(int)
{
    if (++game->steps == game->at)
        Work();
}

class SignalStep : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
        struct sigaction action = {};
        action.sa_handler = OnStep;
        ASSERT_EQ(0, sigaction(SIGTRAP, &action, nullptr));
    }

    SignalStep()
    {
        for (auto &stream : streams_)
            stream.reset(new Stream);
    }

    // What a fresh thread does, with the handler at one of the steps of `pair`.
    template <typename Pair> Game Play(Pool &pool, unsigned at, Pair pair)
    {
        Game own = {};
        own.pool = pool;
        for (unsigned i = 0; i < kBefore + kOfHandler; i++)
            own.streams[i] = *streams_[i];
        game = &own;
        std::thread([&] {
            for (unsigned i = kBefore; i-- > 0;)
                pool.Free(pool.Alloc(512, own.streams[i]), own.streams[i]);
            // Two are cached: one for the hit, one for the handler.
            moiety_devptr one = pool.Alloc(512, own.streams[0]);
            moiety_devptr two = pool.Alloc(512, own.streams[0]);
            pool.Free(one, own.streams[0]);
            pool.Free(two, own.streams[0]);
            own.at = at;
            own.steps = 0;
            moiety_status status = pair(&own);
            EXPECT_OK(status) << "step " << at;
            if (own.kept != 0)
                pool.Free(own.kept, own.streams[0]);
        }).join();
        EXPECT_EQ(0u, own.wrong_count) << "step " << at;
        return own;
    }

    // At each step of a pair; returns how many of them found the hit inside.
    template <typename Pair> void PlayAll(Pair pair)
    {
        Pool pool;
        unsigned busy_count = 0, done_count = 0;
        unsigned steps = Play(pool, 0, pair).steps;
        ASSERT_GT(steps, 20u);
        for (unsigned at = 1; at <= steps && !HasFailure(); at++) {
            Game played = Play(pool, at, pair);
            busy_count += played.first_status == MOIETY_E_REENTRANT;
            done_count += played.kept != 0;
        }
        EXPECT_GT(busy_count, 10u);
        EXPECT_GT(done_count, 10u);
        EXPECT_EQ(0u, pool.Stats().allocation_current);
        EXPECT_EQ(0u, pool.Stats().double_frees_found);
    }

    std::unique_ptr<Stream> streams_[kBefore + kOfHandler];
};

moiety_status AllocAndFree(Game *own)
{
    moiety_devptr block = 0;
    BeginSteps();
    moiety_status status =
        moiety_alloc(own->pool, 512, own->streams[0], &block);
    EndSteps();
    if (status != MOIETY_OK)
        return status;
    EXPECT_NE(own->kept, block);
    return moiety_free(own->pool, block, own->streams[0]);
}

TEST_F(SignalStep, OfAnAllocationHarmsNothing)
{
    PlayAll(AllocAndFree);
}

TEST_F(SignalStep, OfAFreeHarmsNothing)
{
    PlayAll([](Game *own) {
        moiety_devptr block = 0;
        moiety_status status =
            moiety_alloc(own->pool, 512, own->streams[0], &block);
        BeginSteps();
        if (status == MOIETY_OK)
            status = moiety_free(own->pool, block, own->streams[0]);
        EndSteps();
        return status;
    });
}

TEST_F(SignalStep, OfASizedFreeHarmsNothing)
{
    PlayAll([](Game *own) {
        moiety_devptr block = 0;
        moiety_status status =
            moiety_alloc(own->pool, 512, own->streams[0], &block);
        BeginSteps();
        if (status == MOIETY_OK)
            status = moiety_free_sized(own->pool, block, 512, own->streams[0]);
        EndSteps();
        return status;
    });
}

// Guards have one lock for the process: a handler that meets it is refused.
struct GuardGame {
    unsigned steps;
    unsigned at;
    moiety_status status;
};
volatile GuardGame guard_game;

void OnGuardStep(int)
{
    guard_game.steps = guard_game.steps + 1;
    if (guard_game.steps != guard_game.at)
        return;
    guard_game.status = moiety_capture_guard_begin();
    if (guard_game.status == MOIETY_OK)
        guard_game.status = moiety_capture_guard_end();
}

template <typename Pair> void PlayAllGuards(Pair pair)
{
    struct sigaction action = {}, before;
    action.sa_handler = OnGuardStep;
    ASSERT_EQ(0, sigaction(SIGTRAP, &action, &before));
    unsigned busy_count = 0, done_count = 0;
    unsigned steps = UINT32_MAX;
    // Not at each of them, which takes long.
    for (unsigned at = 0; at <= steps; at += at ? 1 + steps / 300 : 1) {
        guard_game.steps = 0;
        guard_game.at = at;
        guard_game.status = MOIETY_E_INVALID;
        pair();
        steps = at ? steps : unsigned{guard_game.steps};
        busy_count += guard_game.status == MOIETY_E_REENTRANT;
        done_count += guard_game.status == MOIETY_OK;
    }
    EXPECT_GT(busy_count, 10u);
    EXPECT_GT(done_count, 2u);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_capture_guard_end());
    ASSERT_EQ(0, sigaction(SIGTRAP, &before, nullptr));
}

TEST_F(SignalStep, OfAGuardHarmsNothing)
{
    Pool pool;
    PlayAllGuards([] {
        BeginSteps();
        moiety_status begun = moiety_capture_guard_begin();
        moiety_status ended = moiety_capture_guard_end();
        EndSteps();
        EXPECT_OK(begun);
        EXPECT_OK(ended);
    });
}

// Not the route found last.
TEST_F(SignalStep, OfAPairOnAnotherStreamHarmsNothing)
{
    PlayAll([](Game *own) {
        moiety_devptr other = 0, block = 0;
        moiety_status status =
            moiety_alloc(own->pool, 512, own->streams[1], &other);
        if (status == MOIETY_OK)
            status = moiety_free(own->pool, other, own->streams[1]);
        BeginSteps();
        if (status == MOIETY_OK)
            status = alloc_no_call(own->pool, 512, own->streams[0], &block);
        if (status == MOIETY_OK)
            status = moiety_free(own->pool, block, own->streams[0]);
        EndSteps();
        return status == MOIETY_E_REENTRANT ? MOIETY_OK : status;
    });
}

#endif

} // namespace
