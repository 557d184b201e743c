// SPDX-License-Identifier: Apache-2.0
//
// The size of pieces where registering takes its time: the stand-in takes at least
// as long as an H200's host, a millisecond and more for each registration. Alone in
// its process, as the stand-in reads its settings once.
#include "tests/host/arena_under_test.h"

#include <cstdlib>

#include "tests/pool/pool_under_test.h"

namespace host_test
{
namespace
{

using pool_test::kMiB;

class Stall : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        setenv("MOIETY_STANDIN_COST", "h200", 1);
        pool_test::UseStandin();
    }
    static uint64_t Pieces(uint32_t stall_ms, uint64_t max_block_bytes)
    {
        moiety_host_options options = HostDefaults();
        options.stall_ms = stall_ms;
        options.max_block_bytes = max_block_bytes;
        Arena arena(options);
        EXPECT_OK(moiety_host_reserve(arena, 32 * kMiB, 0, nullptr, nullptr));
        EXPECT_EQ(32 * kMiB, arena.Stats().pinned_bytes);
        return arena.Stats().region_count;
    }
};

// No piece is pinned in a millisecond, so none is longer than it must be.
TEST_F(Stall, KeepsPiecesSmallWhereRegisteringIsSlow)
{
    EXPECT_EQ(16u, Pieces(1, 1));
}

// 2, seven of 4, and the rest.
TEST_F(Stall, LeavesRoomForTheLongestBlocks)
{
    EXPECT_EQ(9u, Pieces(1, 4 * kMiB));
}

// 2, 4, 8, 16 and the rest.
TEST_F(Stall, DoublesPiecesWhereOthersMayWait)
{
    EXPECT_EQ(5u, Pieces(60000, 0));
}

} // namespace
} // namespace host_test
