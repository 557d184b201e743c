// SPDX-License-Identifier: Apache-2.0
//
// Pauses and resumptions in which each of the driver's calls fails once, or all
// from one on: nothing is lost.
#include <gtest/gtest.h>

#include <string>

#include "moiety/private.h"
#include "tests/pool/inventory.h"
#include "tests/pool/pool_under_test.h"
#include "tests/private/pausing_arena.h"

namespace
{

using pool_test::kMiB;
using pool_test::Pool;
using private_test::Arena;
using private_test::kKeep;
using private_test::Mapped;

// Each call of the driver fails once, at every place of a life.
class PauseFault : public ::testing::TestWithParam<const char *>
{
  protected:
    void SetUp() override
    {
        pool_test::UseStandin();
    }
};

// Whatever was refused is asked again without faults, and nothing is lost.
void PauseAndResume(Arena &arena, unsigned *failed_count)
{
    moiety_status status = moiety_private_pause(arena, kKeep);
    *failed_count += status != MOIETY_OK;
    if (!arena.Info().is_paused)
        return;
    status = moiety_private_resume(arena);
    *failed_count += status != MOIETY_OK;
    if (status != MOIETY_OK) {
        EXPECT_EQ(1u, arena.Info().is_paused);
    }
}

TEST_P(PauseFault, LosesNothing)
{
    pool_test::Inventory inventory;
    int64_t live = pool_test::Live("vmm");
    unsigned n = 0;
    unsigned failed_in_all = 0;
    uint64_t calls = 0;
    do {
        SCOPED_TRACE(std::string(GetParam()) + ", call " + std::to_string(++n));
        Pool pool(Mapped());
        Arena arena(pool);
        unsigned failed_count = 0;
        moiety_devptr first = arena.Alloc(4 * kMiB);
        moiety_devptr second = arena.Alloc(2 * kMiB);
        moiety_devptr third = arena.Alloc(3 * kMiB);
        pool_test::Fill(first, 4 * kMiB, 1);
        pool_test::Fill(second, 2 * kMiB, 2);
        pool_test::Fill(third, 3 * kMiB, 3);
        uint64_t reserved = pool.Stats().reserved_bytes_current;
        uint64_t before = pool_test::Calls(GetParam());
        pool_test::SetFaults(std::string(GetParam()) + ":nth=" +
                             std::to_string(n) + ":code=CUDA_ERROR_UNKNOWN");
        PauseAndResume(arena, &failed_count);
        pool_test::SetFaults("");
        calls = pool_test::Calls(GetParam()) - before;
        failed_in_all += failed_count;
        if (arena.Info().is_paused)
            arena.Resume();
        pool.TrimAll(); // what the driver did not take back
        EXPECT_EQ(reserved, pool.Stats().reserved_bytes_current);
        EXPECT_TRUE(pool_test::Holds(first, 4 * kMiB, 1));
        EXPECT_TRUE(pool_test::Holds(second, 2 * kMiB, 2));
        EXPECT_TRUE(pool_test::Holds(third, 3 * kMiB, 3));
        arena.Pause(kKeep);
        EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
        arena.Resume();
        EXPECT_TRUE(pool_test::Holds(third, 3 * kMiB, 3));
        pool.Free(first);
        pool.Free(second);
        pool.Free(third);
    } while (n <= calls && n < 1000 && !HasFailure());
    EXPECT_GT(n, 1u) << "it was never called";
    std::printf("%u calls, each failed once; %u were noticed\n", n - 1,
                failed_in_all);
    EXPECT_EQ(live, pool_test::Live("vmm"));
    inventory.ExpectUnchanged();
}

// All calls of a kind fail from one on: the way back fails, too.
TEST_P(PauseFault, LosesNothingWhereTheWayBackFailsToo)
{
    for (unsigned n = 1; n <= 12; n++) {
        SCOPED_TRACE(std::string(GetParam()) + ", from call " +
                     std::to_string(n));
        Pool pool(Mapped());
        Arena arena(pool);
        unsigned failed_count = 0;
        moiety_devptr first = arena.Alloc(4 * kMiB);
        moiety_devptr second = arena.Alloc(2 * kMiB);
        pool_test::Fill(first, 4 * kMiB, 1);
        pool_test::Fill(second, 2 * kMiB, 2);
        std::string plan;
        for (unsigned i = n; i < n + 20; i++)
            plan += std::string(i == n ? "" : ",") + GetParam() +
                    ":nth=" + std::to_string(i) + ":code=CUDA_ERROR_UNKNOWN";
        pool_test::SetFaults(plan);
        PauseAndResume(arena, &failed_count);
        pool_test::SetFaults("");
        if (arena.Info().is_paused)
            arena.Resume();
        EXPECT_TRUE(pool_test::Holds(first, 4 * kMiB, 1));
        EXPECT_TRUE(pool_test::Holds(second, 2 * kMiB, 2));
        pool.Free(first);
        pool.Free(second);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Entries, PauseFault,
    ::testing::Values("cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap",
                      "cuMemRelease", "cuMemHostAlloc", "cuStreamCreate",
                      "cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2",
                      "cuStreamSynchronize", "cuCtxRecordEvent"),
    [](const auto &given) { return std::string(given.param); });

} // namespace
