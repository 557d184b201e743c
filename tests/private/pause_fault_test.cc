// SPDX-License-Identifier: Apache-2.0
//
// Pauses and resumptions in which each of the driver's calls fails once, or all
// from one on: nothing is lost.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "moiety/private.h"
#include "moiety/segment.h"
#include "tests/pool/inventory.h"
#include "tests/pool/pool_under_test.h"
#include "tests/private/pausing_arena.h"

namespace
{

using namespace pool_test;
using namespace private_test;

// Each call of the driver fails once, at every place of a life.
class PauseFault : public StandinTestWith<const char *>
{
  protected:
};

using PauseFaultInARow = StandinTest;

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

// It waits no longer than it must where an event cannot be recorded.
moiety_pool_options Hasty()
{
    moiety_pool_options options = Mapped();
    options.wait_ms = MOIETY_WAIT_NONE;
    return options;
}

// An arena that pauses and resumes by one plan after the other.
class Life
{
  public:
    Life()
    {
        pool_test::Fill(first_, 4 * kMiB, 1);
        pool_test::Fill(second_, kMiB, 2);
        reserved_ = pool_.Stats().reserved_bytes_current;
    }
    ~Life()
    {
        pool_.Free(first_);
        pool_.Free(second_);
    }

    // Returns how often the driver was called.
    uint64_t Try(const std::string &plan)
    {
        SCOPED_TRACE(plan);
        unsigned failed_count = 0;
        uint64_t before = pool_test::Calls();
        pool_test::SetFaults(plan);
        PauseAndResume(arena_, &failed_count);
        pool_test::SetFaults("");
        uint64_t calls = pool_test::Calls() - before;
        if (arena_.Info().is_paused)
            arena_.Resume();
        pool_.TrimAll(); // what the driver did not take back
        EXPECT_EQ(reserved_, pool_.Stats().reserved_bytes_current);
        EXPECT_TRUE(pool_test::Holds(first_, 4 * kMiB, 1));
        EXPECT_TRUE(pool_test::Holds(second_, kMiB, 2));
        return calls;
    }

  private:
    Pool pool_{Hasty()};
    Arena arena_{pool_};
    moiety_devptr first_ = arena_.Alloc(4 * kMiB);
    moiety_devptr second_ = arena_.Alloc(kMiB);
    uint64_t reserved_ = 0;
};

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
        Pool pool(Hasty());
        Arena arena(pool);
        unsigned failed_count = 0;
        moiety_devptr first = arena.Alloc(4 * kMiB);
        moiety_devptr second = arena.Alloc(2 * kMiB);
        pool_test::Fill(first, 4 * kMiB, 1);
        pool_test::Fill(second, 2 * kMiB, 2);
        pool_test::SetFaults(std::string(GetParam()) + ":from=" +
                             std::to_string(n) + ":code=CUDA_ERROR_UNKNOWN");
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

// The copy fails, and the unmapping that follows, too: the memory is there, but it is
// away for all the others.
TEST_F(PauseFaultInARow, OfCopyAndUnmappingLeavesItPaused)
{
    int present = 0;
    moiety_segment_watcher watcher = {};
    moiety_watch id = nullptr;
    Pool pool(Mapped());
    watcher.struct_size = sizeof watcher;
    watcher.user = &present;
    watcher.added = [](void *context, const moiety_segment_info *) {
        ++*static_cast<int *>(context);
    };
    watcher.releasing = [](void *context, const moiety_segment_info *) {
        --*static_cast<int *>(context);
    };
    ASSERT_OK(moiety_segment_watch(pool, &watcher, &id));
    {
        Arena arena(pool);
        moiety_devptr block = arena.Alloc(kMiB);
        pool_test::Fill(block, kMiB, 1);
        arena.Pause(kKeep);
        pool_test::SetFaults("cuMemcpyHtoDAsync_v2:nth=1:code=999,"
                             "cuMemUnmap:nth=1:code=999");
        EXPECT_EQ(MOIETY_E_DRIVER, moiety_private_resume(arena));
        EXPECT_NE(nullptr,
                  std::strstr(moiety_last_error_message(), "cuMemcpyHtoDAsync"))
            << moiety_last_error_message();
        pool_test::SetFaults("");
        EXPECT_EQ(1u, arena.Info().is_paused);
        EXPECT_EQ(0, present);
        EXPECT_EQ(MOIETY_E_PAUSED, moiety_segment_hold(pool, block, 512));
        arena.Resume();
        EXPECT_EQ(1, present);
        EXPECT_TRUE(pool_test::Holds(block, kMiB, 1));
        pool.Free(block);
    }
    EXPECT_OK(moiety_segment_unwatch(pool, id));
}

// Nobody can say when the copy is over: its memory stays, and nothing is wanted of
// the context any more.
TEST_F(PauseFaultInARow, OfEveryWaitLosesTheContext)
{
    {
        Pool pool(Mapped());
        Arena arena(pool);
        moiety_devptr block = arena.Alloc(kMiB);
        arena.Pause(kKeep);
        uint64_t unmapped = pool_test::Calls("cuMemUnmap");
        pool_test::SetFaults("cuStreamSynchronize:from=1:code=999,"
                             "cuStreamQuery:from=1:code=999");
        EXPECT_EQ(MOIETY_E_DRIVER, moiety_private_resume(arena));
        EXPECT_NE(nullptr, std::strstr(moiety_last_error_message(),
                                       "cuStreamSynchronize"))
            << moiety_last_error_message();
        pool_test::SetFaults("");
        EXPECT_EQ(unmapped, pool_test::Calls("cuMemUnmap"));
        EXPECT_EQ(MOIETY_E_CONTEXT_DESTROYED, moiety_private_resume(arena));
        pool.Free(block);
    }
    pool_test::ResetContext();
}

// Any two calls that follow each other closely.
TEST_F(PauseFaultInARow, LosesNothing)
{
    pool_test::Inventory inventory;
    int64_t live = pool_test::Live("vmm");
    {
        Life life;
        uint64_t calls = life.Try("");
        EXPECT_LT(20u, calls);
        for (uint64_t n = 1; n <= calls && !HasFailure(); n++) {
            const std::string first =
                "*:nth=" + std::to_string(n) + ":code=999";
            for (uint64_t gap : {1, 2})
                (void)life.Try(first + ",*:nth=" + std::to_string(n + gap) +
                               ":code=999");
        }
    }
    EXPECT_EQ(live, pool_test::Live("vmm"));
    inventory.ExpectUnchanged();
}

INSTANTIATE_TEST_SUITE_P(
    Entries, PauseFault,
    ::testing::Values("cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap",
                      "cuMemRelease", "cuMemHostAlloc", "cuStreamCreate",
                      "cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2",
                      "cuStreamSynchronize", "cuCtxRecordEvent"),
    [](const auto &given) { return std::string(given.param); });

} // namespace
