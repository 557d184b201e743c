// SPDX-License-Identifier: Apache-2.0
//
// The n-th call of the driver fails on an allocation's way out of memory, for
// every n: it fails or succeeds, but nothing is lost, and the next works.
#include "tests/pool/oom/oom_under_test.h"

namespace oom_test
{

class OomFault : public OomTest
{
  protected:
    // All in batches, caches and callbacks' hands; every step has to do.
    struct World {
        World() : pool(AllSteps())
        {
            blocks = Fill(pool, 512 * kKiB, 8 * kMiB, stream);
            callback.act = [this](uint64_t) {
                bool has_any = !blocks.empty();
                if (has_any)
                    FreeOne(other);
                return has_any;
            };
            EXPECT_OK(callback.AddTo(pool));
            for (int i = 0; i < 3; i++) {
                FreeOne(other);
                FreeOne(MOIETY_STREAM_ANY);
                FreeOne(stream);
            }
        }

        static moiety_pool_options AllSteps()
        {
            moiety_pool_options options = Small();
            options.first_segment_bytes = 2 * kMiB;
            options.largest_segment_bytes = 2 * kMiB;
            options.flags = MOIETY_POOL_REUSE_DEPENDENCIES;
            options.wait_ms = 2;
            return options;
        }

        // A free that the driver refuses leaves the block where it is.
        void FreeOne(moiety_stream freed)
        {
            if (moiety_free(pool, blocks.back(), freed) == MOIETY_OK)
                blocks.pop_back();
        }

        Pool pool;
        Stream stream, other;
        Callback callback;
        std::vector<moiety_devptr> blocks;
    };

    static bool IsExpected(moiety_status status)
    {
        return status == MOIETY_OK || status == MOIETY_E_NO_DEVICE_MEMORY ||
               status == MOIETY_E_DRIVER;
    }

    // Returns how many calls there were.
    static uint64_t AllocBadly(World &world, unsigned n, const char *code)
    {
        moiety_devptr block = 77;
        uint64_t before = pool_test::Calls();
        pool_test::SetFaults("*:nth=" + std::to_string(n) + ":code=" + code);
        moiety_status status =
            moiety_alloc(world.pool, 7 * kMiB, world.stream, &block);
        uint64_t calls = pool_test::Calls() - before;
        pool_test::SetFaults("");
        EXPECT_TRUE(IsExpected(status)) << status;
        if (status == MOIETY_OK)
            world.pool.Free(block, world.stream);
        else
            EXPECT_EQ(77u, block);
        return calls;
    }

    static void ExpectHealth(World &world)
    {
        EXPECT_OK(world.callback.RemoveFrom(world.pool));
        FreeAll(world.pool, world.blocks);
        pool_test::Synchronize();
        EXPECT_EQ(0u, world.pool.Stats().allocated_bytes_current);
        EXPECT_EQ(0u, world.pool.Stats().double_frees_found);
        world.pool.Free(world.pool.Alloc(8 * kMiB, world.stream), world.stream);
    }

    static void FailEachOnce(const char *code)
    {
        uint64_t calls = UINT64_MAX;
        unsigned n = 0;
        while (n < calls && n < 1000 && !HasFailure()) {
            SCOPED_TRACE("call " + std::to_string(++n));
            World world;
            calls = AllocBadly(world, n, code);
            ExpectHealth(world);
        }
        EXPECT_GT(n, 10u);
        EXPECT_LT(n, 1000u);
        std::printf("%u calls, each failed once\n", n);
    }
};

TEST_F(OomFault, OfUnknownKind)
{
    FailEachOnce("CUDA_ERROR_UNKNOWN");
}

TEST_F(OomFault, OfExhaustion)
{
    FailEachOnce("CUDA_ERROR_OUT_OF_MEMORY");
}

} // namespace oom_test
