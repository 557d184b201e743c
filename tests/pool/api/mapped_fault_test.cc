// SPDX-License-Identifier: Apache-2.0
//
// Each call by which a pool maps its memory fails once, and always: the error
// names the call, no block is lost, and the next allocation works.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tests/pool/inventory.h"
#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

constexpr unsigned kTooMany = 1000; // calls of one entry that no life makes

moiety_pool_options Mapped()
{
    moiety_pool_options options = driver_options();
    set_kind(&options, KIND_MAPPED);
    options.thread_cache_bytes = MOIETY_BYTES_NONE;
    options.limit_bytes = 64 * kMiB;
    return options;
}

class MappedFault : public StandinTestWith<const char *>
{
  protected:
    static std::string Always(const char *entry)
    {
        return std::string(entry) + ":every=1:code=CUDA_ERROR_UNKNOWN";
    }
};

// A pool, of which any call may fail.
class Life
{
  public:
    void Run()
    {
        Alloc(8 * kMiB);
        Alloc(2 * kMiB);
        FreeAt(0);
        Alloc(12 * kMiB); // moves the first
        Alloc(20 * kMiB);
        FreeAt(1);
        Trim();
        Alloc(24 * kMiB);
        FreeAt(0);
        Alloc(16 * kMiB);
        pool_test::Synchronize();
        while (!blocks_.empty())
            FreeAt(0);
        pool_test::Synchronize();
        Trim();
        Alloc(4 * kMiB);
    }

    // No call fails: all memory is there, and all goes back.
    void ExpectHealth()
    {
        while (!blocks_.empty())
            FreeAt(0);
        pool_test::Synchronize();
        // An event for what was freed, one for what was left, and for both
        // once more where recording met the failure.
        for (int i = 0; i < 4; i++)
            pool_.TrimAll();
        EXPECT_EQ(0u, pool_.Stats().reserved_bytes_current);
        EXPECT_EQ(0u, pool_.Stats().unreleased_bytes);
        EXPECT_EQ(0u, pool_.Stats().mapped_left_bytes);
        moiety_devptr block = pool_.Alloc(64 * kMiB);
        for (uint64_t at = 0; at < 64 * kMiB; at += 2 * kMiB)
            pool_test::Fill(block + at, 4096, static_cast<uint32_t>(at));
        for (uint64_t at = 0; at < 64 * kMiB; at += 2 * kMiB)
            EXPECT_TRUE(
                pool_test::Holds(block + at, 4096, static_cast<uint32_t>(at)));
        pool_.Free(block);
    }

    uint64_t moves()
    {
        return pool_.Stats().mapped_moves;
    }

    unsigned failed_count = 0;
    bool may_run_short = false; // of what the driver does not take back

  private:
    void Alloc(size_t size_bytes)
    {
        moiety_devptr block = 0;
        moiety_status status = moiety_alloc(pool_, size_bytes, stream_, &block);
        Count(status);
        if (status == MOIETY_OK)
            blocks_.push_back(block);
    }

    void FreeAt(size_t at)
    {
        if (at >= blocks_.size())
            return;
        pool_.Free(blocks_[at], stream_);
        blocks_.erase(blocks_.begin() + static_cast<long>(at));
    }

    void Trim()
    {
        uint64_t bytes = 0;
        Count(moiety_pool_trim(pool_, 0, &bytes));
    }

    void Count(moiety_status status)
    {
        failed_count += status != MOIETY_OK;
        EXPECT_TRUE(status == MOIETY_OK || status == MOIETY_E_DRIVER ||
                    (may_run_short && status == MOIETY_E_NO_DEVICE_MEMORY))
            << status << ": " << moiety_last_error_message();
    }

    Stream stream_;
    Pool pool_{Mapped()};
    std::vector<moiety_devptr> blocks_;
};

// Each call fails once, with this plan besides.
void ExpectSurvival(const std::string &entry, const std::string &besides)
{
    pool_test::Inventory inventory;
    int64_t live = pool_test::Live("vmm");
    unsigned n = 0;
    uint64_t calls = 0;
    do {
        SCOPED_TRACE(entry + ", call " + std::to_string(++n));
        uint64_t before = pool_test::Calls(entry.c_str());
        Life life;
        life.may_run_short = !besides.empty();
        pool_test::SetFaults(entry + ":nth=" + std::to_string(n) +
                             ":code=CUDA_ERROR_UNKNOWN" + besides);
        life.Run();
        pool_test::SetFaults("");
        calls = pool_test::Calls(entry.c_str()) - before;
        if (n > calls && besides.empty()) {
            EXPECT_EQ(0u, life.failed_count);
            EXPECT_LT(0u, life.moves());
        }
        life.ExpectHealth();
    } while (n <= calls && n < kTooMany && !testing::Test::HasFailure());
    EXPECT_LT(n, kTooMany);
    EXPECT_TRUE(n > 1 || !besides.empty()) << "it was never called";
    std::printf("%u calls, each failed once\n", n - 1);
    EXPECT_EQ(live, pool_test::Live("vmm"));
    inventory.ExpectUnchanged();
}

TEST_P(MappedFault, OfEveryCallIsSurvived)
{
    ExpectSurvival(GetParam(), "");
}

// Nor does the driver undo anything until it is told otherwise.
TEST_P(MappedFault, OfEveryCallAndOfAllUnmappingsIsSurvived)
{
    ExpectSurvival(GetParam(), ",cuMemUnmap:every=1:code=CUDA_ERROR_UNKNOWN");
}

TEST_P(MappedFault, OfEveryCallAndOfAllReleasesIsSurvived)
{
    ExpectSurvival(GetParam(), ",cuMemRelease:every=1:code=CUDA_ERROR_UNKNOWN");
}

// The first call of the end; of the addresses' release too.
TEST_P(MappedFault, OfTheEndIsTriedAgain)
{
    pool_test::Inventory inventory;
    int64_t live = pool_test::Live("vmm");
    {
        Stream stream;
        Pool pool(Mapped());
        moiety_devptr first = pool.Alloc(8 * kMiB, stream);
        moiety_devptr keeper = pool.Alloc(2 * kMiB, stream);
        pool.Free(first, stream);
        pool.Free(pool.Alloc(12 * kMiB, stream), stream);
        pool.Free(keeper, stream);
        pool_test::SetFaults(std::string(GetParam()) +
                             ":nth=1:code=CUDA_ERROR_UNKNOWN");
        EXPECT_EQ(0u, pool.End().block_count);
        pool_test::SetFaults("");
    }
    EXPECT_EQ(live, pool_test::Live("vmm"));
    inventory.ExpectUnchanged();
}

INSTANTIATE_TEST_SUITE_P(Entries, MappedFault,
                         ::testing::Values("cuMemAddressReserve", "cuMemCreate",
                                           "cuMemMap", "cuMemSetAccess",
                                           "cuMemUnmap", "cuMemRelease"),
                         [](const auto &given) {
                             return std::string(given.param);
                         });

// Those without which there is no memory.
class MappedFaultOfGrowth : public MappedFault
{
};

TEST_P(MappedFaultOfGrowth, IsNamedAndLeavesNothing)
{
    pool_test::Inventory inventory;
    int64_t live = pool_test::Live("vmm");
    Pool pool(Mapped());
    moiety_devptr block = 0;
    pool_test::SetFaults(Always(GetParam()));
    EXPECT_EQ(MOIETY_E_DRIVER,
              moiety_alloc(pool, 4 * kMiB, MOIETY_STREAM_LEGACY, &block));
    std::string message = moiety_last_error_message();
    pool_test::SetFaults("");
    EXPECT_NE(std::string::npos, message.find(GetParam())) << message;
    EXPECT_EQ(0u, block);
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
    pool.Free(pool.Alloc(4 * kMiB));
    pool.End();
    EXPECT_EQ(live, pool_test::Live("vmm"));
}

INSTANTIATE_TEST_SUITE_P(Entries, MappedFaultOfGrowth,
                         ::testing::Values("cuMemAddressReserve", "cuMemCreate",
                                           "cuMemMap", "cuMemSetAccess"),
                         [](const auto &given) {
                             return std::string(given.param);
                         });

// A driver that says that it maps memory and refuses: virtual GPUs, WSL2, libraries
// between the program and the driver.
struct Refusal {
    const char *entry;
    const char *code;
};

class PreferredMemory : public ::testing::TestWithParam<Refusal>
{
  protected:
    void SetUp() override
    {
        pool_test::UseStandin();
        EXPECT_OK(moiety_set_log(MOIETY_LOG_WARNING, Note, this));
    }
    void TearDown() override
    {
        pool_test::SetFaults("");
        EXPECT_OK(moiety_set_log(0, nullptr, nullptr));
    }

    static void Note(uint32_t, const char *message, void *user)
    {
        static_cast<PreferredMemory *>(user)->said += message;
    }

    static moiety_pool_options Preferred()
    {
        moiety_pool_options options = Mapped();
        set_kind(&options, KIND_AUTO);
        return options;
    }

    static void Refuse()
    {
        pool_test::SetFaults(std::string(GetParam().entry) +
                             ":every=1:code=" + GetParam().code);
    }

    // Where new memory is from.
    static std::string SourceOf(moiety_pool *pool)
    {
        moiety_heap_summary summary = {};
        moiety_heap_snapshot *snapshot = nullptr;
        summary.struct_size = sizeof(summary);
        EXPECT_OK(moiety_heap_snapshot_create(pool, &snapshot));
        EXPECT_OK(moiety_heap_snapshot_summary(snapshot, &summary));
        std::string name = summary.source_name;
        moiety_heap_snapshot_destroy(snapshot);
        return name;
    }

    static bool IsMapped(moiety_pool *pool)
    {
        moiety_pool_options options = {};
        options.struct_size = sizeof(options);
        EXPECT_OK(moiety_pool_get_options(pool, &options));
        return options.memory == MOIETY_MEMORY_MAPPED;
    }

    std::string said;
};

TEST_P(PreferredMemory, IsTheDriversWhereItRefusesToMap)
{
    pool_test::Inventory inventory;
    int64_t live = pool_test::Live("vmm");
    Refuse();
    {
        Pool pool(Preferred());
        moiety_devptr block = pool.Alloc(4 * kMiB);
        pool_test::Fill(block, 4 * kMiB, 7);
        EXPECT_EQ("cuMemAlloc", SourceOf(pool));
        EXPECT_FALSE(IsMapped(pool));
        EXPECT_NE(std::string::npos, said.find(GetParam().entry)) << said;
        pool.Free(block);
    }
    pool_test::SetFaults("");
    EXPECT_EQ(live, pool_test::Live("vmm"));
    inventory.ExpectUnchanged();
}

TEST_P(PreferredMemory, IsTheDriversFromWhenItRefusesToMap)
{
    pool_test::Inventory inventory;
    int64_t live = pool_test::Live("vmm");
    {
        Stream stream;
        Pool pool(Preferred());
        EXPECT_TRUE(IsMapped(pool));
        // Addresses are reserved once.
        if (std::string("cuMemAddressReserve") == GetParam().entry)
            Refuse();
        moiety_devptr first = pool.Alloc(4 * kMiB, stream);
        moiety_devptr keeper = pool.Alloc(4 * kMiB, stream);
        pool_test::Fill(keeper, 4 * kMiB, 1);
        pool.Free(first, stream);
        Refuse();
        std::vector<moiety_devptr> blocks;
        for (uint32_t i = 0; i < 3; i++) {
            blocks.push_back(pool.Alloc(6 * kMiB, stream));
            pool_test::Fill(blocks[i], 6 * kMiB, i);
        }
        EXPECT_EQ("cuMemAlloc", SourceOf(pool));
        EXPECT_FALSE(IsMapped(pool));
        EXPECT_NE(std::string::npos, said.find(GetParam().entry)) << said;
        for (uint32_t i = 0; i < 3; i++)
            EXPECT_TRUE(pool_test::Holds(blocks[i], 6 * kMiB, i));
        EXPECT_TRUE(pool_test::Holds(keeper, 4 * kMiB, 1));
        for (moiety_devptr block : blocks)
            pool.Free(block, stream);
        pool.Free(keeper, stream);
        pool_test::SetFaults("");
        pool.TrimAll();
        pool.TrimAll();
        EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
        // It does not go back to what was refused.
        pool.Free(pool.Alloc(4 * kMiB, stream), stream);
        EXPECT_EQ("cuMemAlloc", SourceOf(pool));
    }
    EXPECT_EQ(live, pool_test::Live("vmm"));
    inventory.ExpectUnchanged();
}

// Other codes than the one for what is not supported are as common.
INSTANTIATE_TEST_SUITE_P(
    Entries, PreferredMemory,
    ::testing::Values(Refusal{"cuMemAddressReserve",
                              "CUDA_ERROR_OUT_OF_MEMORY"},
                      Refusal{"cuMemCreate", "CUDA_ERROR_NOT_SUPPORTED"},
                      Refusal{"cuMemMap", "CUDA_ERROR_UNKNOWN"},
                      Refusal{"cuMemSetAccess", "CUDA_ERROR_NOT_READY"},
                      Refusal{"cuMemSetAccess", "CUDA_ERROR_INVALID_VALUE"}),
    [](const auto &given) {
        return std::string(given.param.entry) + std::to_string(given.index);
    });

class PreferredOnce : public PreferredMemory
{
};

TEST_P(PreferredOnce, IsTriedAgain)
{
    Pool pool(Preferred());
    pool_test::SetFaults(std::string(GetParam().entry) +
                         ":nth=1:code=" + GetParam().code);
    pool.Free(pool.Alloc(4 * kMiB));
    EXPECT_EQ("cuMemMap", SourceOf(pool));
    EXPECT_EQ("", said);
}

INSTANTIATE_TEST_SUITE_P(
    Entries, PreferredOnce,
    ::testing::Values(Refusal{"cuMemSetAccess", "CUDA_ERROR_NOT_READY"}),
    [](const auto &given) { return std::string(given.param.entry); });

class MappedExhaustion : public ::testing::Test
{
};

TEST_F(MappedExhaustion, OfTheDeviceIsCalledThat)
{
    pool_test::UseStandin();
    Pool pool(Mapped());
    moiety_devptr block = 0;
    pool_test::SetFaults("cuMemCreate:every=1:code=CUDA_ERROR_OUT_OF_MEMORY");
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, 4 * kMiB, MOIETY_STREAM_LEGACY, &block));
    pool_test::SetFaults("");
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
    pool.Free(pool.Alloc(4 * kMiB));
}

} // namespace
