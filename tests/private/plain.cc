// SPDX-License-Identifier: Apache-2.0
//
// Arenas outside of captures: whom a freed block serves, and when.
#include <memory>

#include "tests/private/arena_under_test.h"

namespace private_test
{

class InAnArena : public ::testing::TestWithParam<Load>
{
  protected:
    InAnArena() : arena_(pool_, GetParam().size_bytes) {}

    // All that the pool has outside of the arena, which is at its limit.
    std::vector<moiety_devptr> TakeRest()
    {
        std::vector<moiety_devptr> blocks;
        moiety_devptr block = 0;
        while (moiety_alloc(pool_, size_t{2} << 20, MOIETY_STREAM_ANY,
                            &block) == MOIETY_OK)
            blocks.push_back(block);
        return blocks;
    }

    void GiveBack(const std::vector<moiety_devptr> &blocks)
    {
        for (moiety_devptr block : blocks)
            EXPECT_EQ(moiety_free(pool_, block, MOIETY_STREAM_DONE), MOIETY_OK);
    }

    Stream freed_, next_, other_;
    Pool pool_;
    TightArena arena_;
};
INSTANTIATE_TEST_SUITE_P(Blocks, InAnArena,
                         ::testing::Values(kFew, kMany, kRun), NameOf);

class InAnArenaOfSeveral : public InAnArena
{
};
INSTANTIATE_TEST_SUITE_P(Blocks, InAnArenaOfSeveral,
                         ::testing::Values(kFew, kMany), NameOf);

TEST_P(InAnArena, WhatAStreamFreedServesItAtOnce)
{
    arena_.TakeAll(freed_);
    moiety_devptr block = arena_.last();
    Hold hold(freed_);
    arena_.Free(freed_);
    arena_.TakeAll(freed_);
    EXPECT_EQ(std::count(arena_.blocks().begin(), arena_.blocks().end(), block),
              1);
}

TEST_P(InAnArena, WhatAStreamFreedServesAnotherOnlyWhenDone)
{
    arena_.TakeAll(freed_);
    Hold hold(freed_);
    arena_.Free(freed_);
    ASSERT_TRUE(arena_.ServesNothing(next_));
    ASSERT_TRUE(arena_.ServesNothing(MOIETY_STREAM_ANY));
    hold.Release();
    EXPECT_TRUE(arena_.ServesInTheEnd(next_));
}

// What was freed while the event of others was waited for is not behind it.
TEST_P(InAnArenaOfSeveral, WhatIsFreedLaterWaitsForALaterEvent)
{
    arena_.TakeAll(freed_);
    std::vector<moiety_devptr> later(arena_.blocks().begin() + 1,
                                     arena_.blocks().end());
    arena_.blocks().resize(1);
    Hold first(freed_);
    arena_.Free(freed_);
    ASSERT_TRUE(arena_.ServesNothing(next_));
    Hold second(other_);
    arena_.blocks() = later;
    arena_.Free(other_);
    first.Release();
    ASSERT_TRUE(arena_.ServesInTheEnd(next_));
    EXPECT_TRUE(arena_.ServesNothing(next_));
    second.Release();
    EXPECT_TRUE(arena_.ServesInTheEnd(next_));
}

TEST_P(InAnArena, WhatIsDoneServesAnybodyAtOnce)
{
    arena_.TakeAll(freed_);
    Hold hold(other_);
    arena_.Free(MOIETY_STREAM_DONE);
    EXPECT_TRUE(arena_.ServesAtOnce(next_));
}

TEST_P(InAnArena, WhatIsFreedWithoutAStreamWaitsForAll)
{
    arena_.TakeAll(freed_);
    Hold hold(other_);
    arena_.Free(MOIETY_STREAM_ANY);
    ASSERT_TRUE(arena_.ServesNothing(freed_));
    ASSERT_TRUE(arena_.ServesNothing(next_));
    ASSERT_TRUE(arena_.ServesNothing(MOIETY_STREAM_ANY));
    hold.Release();
    EXPECT_TRUE(arena_.ServesInTheEnd(next_));
}

TEST_P(InAnArena, WhatHasRecordedUsesWaitsForThem)
{
    arena_.TakeAll(freed_);
    arena_.RecordUse(other_);
    Hold hold(other_);
    arena_.Free(freed_);
    ASSERT_TRUE(arena_.ServesNothing(freed_));
    hold.Release();
    EXPECT_TRUE(arena_.ServesInTheEnd(freed_));
}

TEST_P(InAnArena, WhatIsFreedAfterAnEventWaitsForIt)
{
    arena_.TakeAll(freed_);
    Hold hold(other_);
    Event event;
    MUST(cu.EventRecord(event, other_));
    arena_.FreeAfter(event);
    ASSERT_TRUE(arena_.ServesNothing(freed_));
    ASSERT_TRUE(arena_.ServesNothing(next_));
    hold.Release();
    EXPECT_TRUE(arena_.ServesInTheEnd(next_));
}

TEST_P(InAnArena, WhatARetiredStreamFreedWaitsForItsWork)
{
    arena_.TakeAll(freed_);
    Hold hold(freed_);
    arena_.Free(freed_);
    ASSERT_EQ(moiety_pool_retire_stream(pool_, freed_), MOIETY_OK);
    ASSERT_TRUE(arena_.ServesNothing(freed_));
    ASSERT_TRUE(arena_.ServesNothing(next_));
    hold.Release();
    EXPECT_TRUE(arena_.ServesInTheEnd(freed_));
}

TEST_P(InAnArena, AThreadsOwnStreamIsThatThreads)
{
    streams_test::Worker worker;
    std::unique_ptr<Hold> hold;
    arena_.TakeAll(MOIETY_STREAM_ANY);
    worker.Do([&] {
        hold.reset(new Hold(CU_STREAM_PER_THREAD));
        arena_.Free(MOIETY_STREAM_PER_THREAD);
        EXPECT_TRUE(arena_.ServesAtOnce(MOIETY_STREAM_PER_THREAD));
        arena_.Free(MOIETY_STREAM_PER_THREAD);
    });
    EXPECT_TRUE(arena_.ServesNothing(MOIETY_STREAM_PER_THREAD));
    hold->Release();
    EXPECT_TRUE(arena_.ServesInTheEnd(MOIETY_STREAM_PER_THREAD));
}

TEST_P(InAnArena, ServesTheStreamInOtherPieces)
{
    arena_.TakeAll(freed_);
    Hold hold(freed_);
    arena_.Free(freed_);
    ASSERT_TRUE(arena_.ServesAtOnce(freed_, kArenaBytes / 4 * 3));
    EXPECT_TRUE(arena_.ServesAtOnce(freed_, kArenaBytes / 4));
}

TEST_P(InAnArena, ServesNobodyElseOfThePool)
{
    arena_.TakeAll(freed_);
    arena_.Free(MOIETY_STREAM_DONE);
    std::vector<moiety_devptr> rest = TakeRest();
    EXPECT_EQ(rest.size(), (kPoolBytes - kArenaBytes) >> 21);
    uint64_t bytes = 0;
    EXPECT_EQ(moiety_private_trim(arena_, &bytes), MOIETY_OK);
    EXPECT_EQ(bytes, kArenaBytes);
    std::vector<moiety_devptr> more = TakeRest();
    EXPECT_EQ(more.size(), kArenaBytes >> 21);
    GiveBack(rest);
    GiveBack(more);
}

TEST_P(InAnArena, IsTrimmedOnlyOfWhatIsDone)
{
    uint64_t bytes = 1;
    arena_.TakeAll(freed_);
    Hold hold(freed_);
    arena_.Free(freed_);
    EXPECT_EQ(moiety_private_trim(arena_, &bytes), MOIETY_OK);
    EXPECT_EQ(bytes, 0u);
    hold.Release();
    MUST(cu.StreamSynchronize(freed_));
    EXPECT_EQ(moiety_private_trim(arena_, &bytes), MOIETY_OK);
    EXPECT_EQ(bytes, kArenaBytes);
    EXPECT_EQ(arena_.Info().reserved_bytes, 0u);
}

// The arena's memory is the pool's, as if it was freed with ANY.
TEST_P(InAnArena, IsReleasedBehindAllWork)
{
    arena_.TakeAll(freed_);
    arena_.Free(freed_);
    Hold hold(other_);
    arena_.Release();
    std::vector<moiety_devptr> rest = TakeRest();
    EXPECT_EQ(rest.size(), (kPoolBytes - kArenaBytes) >> 21);
    hold.Release();
    MUST(cu.StreamSynchronize(other_));
    std::vector<moiety_devptr> more = TakeRest();
    EXPECT_EQ(more.size(), kArenaBytes >> 21);
    GiveBack(rest);
    GiveBack(more);
}

TEST_P(InAnArena, WhatIsInUseAtTheReleaseIsAnOrdinaryBlock)
{
    ASSERT_EQ(arena_.Take(freed_), MOIETY_OK);
    arena_.Release();
    moiety_pool_stats stats = {};
    stats.struct_size = sizeof stats;
    ASSERT_EQ(moiety_pool_get_stats(pool_, &stats), MOIETY_OK);
    EXPECT_EQ(stats.allocation_current, 1u);
    EXPECT_EQ(stats.allocated_bytes_current, GetParam().size_bytes);
    size_t bytes = 0;
    EXPECT_EQ(moiety_usable_size(pool_, arena_.last(), &bytes), MOIETY_OK);
    EXPECT_EQ(bytes, GetParam().size_bytes);
    arena_.Free(freed_);
    ASSERT_EQ(moiety_pool_get_stats(pool_, &stats), MOIETY_OK);
    EXPECT_EQ(stats.allocation_current, 0u);
    EXPECT_EQ(stats.allocated_bytes_current, 0u);
}

TEST_P(InAnArena, WhatWasInUseCanBeClaimedAgain)
{
    arena_.TakeAll(freed_);
    std::vector<moiety_devptr> blocks = arena_.blocks();
    const size_t size_bytes = GetParam().size_bytes;
    EXPECT_EQ(moiety_private_claim(arena_, blocks[0], size_bytes, freed_),
              MOIETY_E_IN_USE);
    Hold hold(freed_);
    // Of three kinds: a stream's, nobody's, done.
    for (size_t i = 0; i < blocks.size(); i++)
        ASSERT_EQ(moiety_free(pool_, blocks[i],
                              i % 3 == 0   ? moiety_stream(freed_)
                              : i % 3 == 1 ? MOIETY_STREAM_ANY
                                           : MOIETY_STREAM_DONE),
                  MOIETY_OK);
    arena_.blocks().clear();
    for (size_t i = blocks.size(); i-- > 0;)
        ASSERT_EQ(moiety_private_claim(arena_, blocks[i], size_bytes, next_),
                  MOIETY_OK)
            << moiety_last_error_message();
    EXPECT_TRUE(arena_.ServesNothing(freed_));
    EXPECT_EQ(arena_.Info().live_count, blocks.size());
    arena_.blocks() = blocks;
}

TEST_P(InAnArena, AllOfItCanBeClaimedAsOne)
{
    arena_.TakeAll(freed_);
    moiety_devptr base =
        *std::min_element(arena_.blocks().begin(), arena_.blocks().end());
    Hold hold(freed_);
    std::vector<moiety_devptr> blocks = arena_.blocks();
    arena_.blocks().clear();
    for (size_t i = 0; i < blocks.size(); i++)
        ASSERT_EQ(
            moiety_free(pool_, blocks[i],
                        i % 2 ? moiety_stream(freed_) : MOIETY_STREAM_DONE),
            MOIETY_OK);
    EXPECT_EQ(moiety_private_claim(arena_, base, kArenaBytes + 1, next_),
              MOIETY_E_FOREIGN);
    EXPECT_EQ(moiety_private_claim(arena_, base, kArenaBytes, next_),
              MOIETY_OK);
    arena_.blocks().push_back(base);
}

} // namespace private_test
