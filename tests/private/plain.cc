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
    std::vector<binade_devptr> TakeRest()
    {
        std::vector<binade_devptr> blocks;
        binade_devptr block = 0;
        while (binade_alloc(pool_, size_t{2} << 20, BINADE_STREAM_ANY,
                            &block) == BINADE_OK)
            blocks.push_back(block);
        return blocks;
    }

    void GiveBack(const std::vector<binade_devptr> &blocks)
    {
        for (binade_devptr block : blocks)
            EXPECT_EQ(binade_free(pool_, block, BINADE_STREAM_DONE), BINADE_OK);
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
    binade_devptr block = arena_.last();
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
    ASSERT_TRUE(arena_.ServesNothing(BINADE_STREAM_ANY));
    hold.Release();
    EXPECT_TRUE(arena_.ServesInTheEnd(next_));
}

// What was freed while the event of others was waited for is not behind it.
TEST_P(InAnArenaOfSeveral, WhatIsFreedLaterWaitsForALaterEvent)
{
    arena_.TakeAll(freed_);
    std::vector<binade_devptr> later(arena_.blocks().begin() + 1,
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
    arena_.Free(BINADE_STREAM_DONE);
    EXPECT_TRUE(arena_.ServesAtOnce(next_));
}

TEST_P(InAnArena, WhatIsFreedWithoutAStreamWaitsForAll)
{
    arena_.TakeAll(freed_);
    Hold hold(other_);
    arena_.Free(BINADE_STREAM_ANY);
    ASSERT_TRUE(arena_.ServesNothing(freed_));
    ASSERT_TRUE(arena_.ServesNothing(next_));
    ASSERT_TRUE(arena_.ServesNothing(BINADE_STREAM_ANY));
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
    ASSERT_EQ(binade_stream_retire(pool_, freed_), BINADE_OK);
    ASSERT_TRUE(arena_.ServesNothing(freed_));
    ASSERT_TRUE(arena_.ServesNothing(next_));
    hold.Release();
    EXPECT_TRUE(arena_.ServesInTheEnd(freed_));
}

TEST_P(InAnArena, AThreadsOwnStreamIsThatThreads)
{
    streams_test::Worker worker;
    std::unique_ptr<Hold> hold;
    arena_.TakeAll(BINADE_STREAM_ANY);
    worker.Do([&] {
        hold.reset(new Hold(CU_STREAM_PER_THREAD));
        arena_.Free(BINADE_STREAM_PER_THREAD);
        EXPECT_TRUE(arena_.ServesAtOnce(BINADE_STREAM_PER_THREAD));
        arena_.Free(BINADE_STREAM_PER_THREAD);
    });
    EXPECT_TRUE(arena_.ServesNothing(BINADE_STREAM_PER_THREAD));
    hold->Release();
    EXPECT_TRUE(arena_.ServesInTheEnd(BINADE_STREAM_PER_THREAD));
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
    arena_.Free(BINADE_STREAM_DONE);
    std::vector<binade_devptr> rest = TakeRest();
    EXPECT_EQ(rest.size(), (kPoolBytes - kArenaBytes) >> 21);
    uint64_t bytes = 0;
    EXPECT_EQ(binade_private_trim(arena_, &bytes), BINADE_OK);
    EXPECT_EQ(bytes, kArenaBytes);
    std::vector<binade_devptr> more = TakeRest();
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
    EXPECT_EQ(binade_private_trim(arena_, &bytes), BINADE_OK);
    EXPECT_EQ(bytes, 0u);
    hold.Release();
    MUST(cu.StreamSynchronize(freed_));
    EXPECT_EQ(binade_private_trim(arena_, &bytes), BINADE_OK);
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
    std::vector<binade_devptr> rest = TakeRest();
    EXPECT_EQ(rest.size(), (kPoolBytes - kArenaBytes) >> 21);
    hold.Release();
    MUST(cu.StreamSynchronize(other_));
    std::vector<binade_devptr> more = TakeRest();
    EXPECT_EQ(more.size(), kArenaBytes >> 21);
    GiveBack(rest);
    GiveBack(more);
}

TEST_P(InAnArena, WhatIsInUseAtTheReleaseIsAnOrdinaryBlock)
{
    ASSERT_EQ(arena_.Take(freed_), BINADE_OK);
    arena_.Release();
    binade_stats stats = {};
    stats.struct_size = sizeof stats;
    ASSERT_EQ(binade_pool_stats(pool_, &stats), BINADE_OK);
    EXPECT_EQ(stats.allocation_current, 1u);
    EXPECT_EQ(stats.allocated_bytes_current, GetParam().size_bytes);
    size_t bytes = 0;
    EXPECT_EQ(binade_usable_size(pool_, arena_.last(), &bytes), BINADE_OK);
    EXPECT_EQ(bytes, GetParam().size_bytes);
    arena_.Free(freed_);
    ASSERT_EQ(binade_pool_stats(pool_, &stats), BINADE_OK);
    EXPECT_EQ(stats.allocation_current, 0u);
    EXPECT_EQ(stats.allocated_bytes_current, 0u);
}

TEST_P(InAnArena, WhatWasInUseCanBeClaimedAgain)
{
    arena_.TakeAll(freed_);
    std::vector<binade_devptr> blocks = arena_.blocks();
    const size_t size_bytes = GetParam().size_bytes;
    EXPECT_EQ(binade_private_claim(arena_, blocks[0], size_bytes, freed_),
              BINADE_E_BUSY);
    Hold hold(freed_);
    // Of three kinds: a stream's, nobody's, done.
    for (size_t i = 0; i < blocks.size(); i++)
        ASSERT_EQ(binade_free(pool_, blocks[i],
                              i % 3 == 0   ? binade_stream(freed_)
                              : i % 3 == 1 ? BINADE_STREAM_ANY
                                           : BINADE_STREAM_DONE),
                  BINADE_OK);
    arena_.blocks().clear();
    for (size_t i = blocks.size(); i-- > 0;)
        ASSERT_EQ(binade_private_claim(arena_, blocks[i], size_bytes, next_),
                  BINADE_OK)
            << binade_last_error_message();
    EXPECT_TRUE(arena_.ServesNothing(freed_));
    EXPECT_EQ(arena_.Info().live_count, blocks.size());
    arena_.blocks() = blocks;
}

TEST_P(InAnArena, AllOfItCanBeClaimedAsOne)
{
    arena_.TakeAll(freed_);
    binade_devptr base =
        *std::min_element(arena_.blocks().begin(), arena_.blocks().end());
    Hold hold(freed_);
    std::vector<binade_devptr> blocks = arena_.blocks();
    arena_.blocks().clear();
    for (size_t i = 0; i < blocks.size(); i++)
        ASSERT_EQ(
            binade_free(pool_, blocks[i],
                        i % 2 ? binade_stream(freed_) : BINADE_STREAM_DONE),
            BINADE_OK);
    EXPECT_EQ(binade_private_claim(arena_, base, kArenaBytes + 1, next_),
              BINADE_E_FOREIGN);
    EXPECT_EQ(binade_private_claim(arena_, base, kArenaBytes, next_),
              BINADE_OK);
    arena_.blocks().push_back(base);
}

} // namespace private_test
