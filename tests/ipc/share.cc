// SPDX-License-Identifier: Apache-2.0
//
// Sharing on whichever driver is there: --driver=FILE names the stand-in in CI;
// without it the system's driver is taken, as on a GPU host. What needs the
// stand-in's controls is in the other files.
#include <gtest/gtest.h>

#include "moiety/ipc.h"

#include <limits.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/ipc/share_process.h"

namespace
{

using namespace share_test;

constexpr size_t kBlocks = 1000;
constexpr uint32_t kImporters = 4;
constexpr uint64_t kSegmentBytes = 2 << 20;

std::string missing_driver; // why there is nothing to examine

TEST(Driver, IsPresent)
{
    if (missing_driver.empty())
        return;
    if (std::getenv("MOIETY_DRIVER") != nullptr)
        FAIL() << missing_driver;
    GTEST_SKIP() << missing_driver;
}

class Share : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        moiety_pool_options options = share_test::Exportable(kSegmentBytes);
        ASSERT_EQ(MOIETY_OK, moiety_pool_create(&options, &pool_))
            << moiety_last_error_message();
    }

    void TearDown() override
    {
        moiety_leaks leaks = {};
        leaks.struct_size = sizeof leaks;
        EXPECT_EQ(MOIETY_OK, moiety_ipc_trim(0, nullptr));
        EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool_, 0));
        for (const Block &block : blocks_)
            EXPECT_EQ(MOIETY_OK, moiety_free(pool_, block.address,
                                             share_test::OwnStream()));
        EXPECT_EQ(MOIETY_OK, moiety_pool_destroy(pool_, &leaks));
        EXPECT_EQ(0u, leaks.block_count);
    }

    // With the exporter's words in it.
    void Add(uint64_t size_bytes)
    {
        Block block = {};
        block.size_bytes = size_bytes;
        ASSERT_EQ(MOIETY_OK,
                  moiety_alloc(pool_, size_bytes, share_test::OwnStream(),
                               &block.address))
            << moiety_last_error_message();
        ASSERT_EQ(MOIETY_OK,
                  moiety_ipc_export(pool_, block.address, &block.handle))
            << moiety_last_error_message();
        share_test::Write(block.address, size_bytes, WordOf(blocks_.size(), 0));
        blocks_.push_back(block);
    }

    // Waits for what was written, too.
    size_t CountWrong(uint32_t writer) const
    {
        size_t wrong_count = 0;
        for (size_t i = 0; i < blocks_.size(); i++)
            wrong_count += !share_test::Holds(
                blocks_[i].address, blocks_[i].size_bytes, WordOf(i, writer));
        return wrong_count;
    }

    uint64_t ReservedBytes()
    {
        moiety_pool_stats stats = {};
        stats.struct_size = sizeof stats;
        EXPECT_EQ(MOIETY_OK, moiety_pool_get_stats(pool_, &stats));
        return stats.reserved_bytes_current;
    }

    moiety_pool *pool_ = nullptr;
    std::vector<Block> blocks_;
};

TEST_F(Share, AThousandBlocksOfThreeSegmentsWithFourProcesses)
{
    for (size_t i = 0; i < kBlocks; i++)
        Add(4608 + 512 * (i % 3));
    ASSERT_EQ(3 * kSegmentBytes, ReservedBytes());
    ASSERT_EQ(0u, CountWrong(0));
    std::vector<std::unique_ptr<Process>> importers;
    for (uint32_t writer = 1; writer <= kImporters; writer++) {
        SCOPED_TRACE(writer);
        importers.push_back(std::make_unique<Process>());
        Answer answer = importers.back()->Ask(Task::kVisit, blocks_, writer);
        EXPECT_EQ(MOIETY_OK, answer.status) << answer.message;
        EXPECT_EQ(0u, answer.wrong_count);
        EXPECT_EQ(3u, answer.open_count) << "one for each segment";
    }
    EXPECT_EQ(0u, CountWrong(kImporters));
    for (const auto &importer : importers)
        EXPECT_EQ(0u, importer->Ask(Task::kTrim).open_count);
}

TEST_F(Share, WithAnImporterThatIsKilled)
{
    Add(64 << 10);
    ASSERT_EQ(0u, CountWrong(0));
    Process killed, other;
    EXPECT_EQ(MOIETY_OK, killed.Ask(Task::kImport, blocks_).status);
    killed.Kill();
    Answer answer = other.Ask(Task::kVisit, blocks_, 1);
    EXPECT_EQ(MOIETY_OK, answer.status) << answer.message;
    EXPECT_EQ(0u, answer.wrong_count);
    EXPECT_EQ(0u, CountWrong(1));
    EXPECT_EQ(MOIETY_OK, other.Ask(Task::kTrim).status);
}

TEST_F(Share, WithAnExporterThatIsGoneFirst)
{
    Process exporter, late;
    Answer shared = exporter.Ask(Task::kShare);
    ASSERT_EQ(MOIETY_OK, shared.status) << shared.message;
    moiety_devptr address = 0;
    ASSERT_EQ(MOIETY_OK,
              moiety_ipc_import(&shared.block.handle,
                                sizeof shared.block.handle, nullptr, &address))
        << moiety_last_error_message();
    EXPECT_TRUE(
        share_test::Holds(address, shared.block.size_bytes, WordOf(0, 0)));
    exporter.Kill();
    Answer answer = late.Ask(Task::kImport, {shared.block});
    EXPECT_EQ(MOIETY_E_PEER_GONE, answer.status) << answer.message;
    EXPECT_EQ(MOIETY_OK,
              moiety_ipc_close(address, MOIETY_STREAM_DONE, nullptr));
    EXPECT_EQ(MOIETY_OK, moiety_ipc_trim(0, nullptr))
        << moiety_last_error_message();
}

TEST_F(Share, EveryFlippedBitIsRefused)
{
    Add(64 << 10);
    ASSERT_EQ(0u, CountWrong(0));
    Process importer;
    ASSERT_EQ(MOIETY_OK, importer.Ask(Task::kImport, blocks_).status);
    for (size_t bit = 0; bit < 8 * sizeof(moiety_ipc_handle); bit++) {
        std::vector<Block> turned = blocks_;
        reinterpret_cast<unsigned char *>(&turned[0].handle)[bit / 8] ^=
            static_cast<unsigned char>(1u << bit % 8);
        Answer answer = importer.Ask(Task::kImport, turned);
        EXPECT_NE(MOIETY_OK, answer.status) << "bit " << bit;
    }
    Answer answer = importer.Ask(Task::kVisit, blocks_, 1);
    EXPECT_EQ(MOIETY_OK, answer.status) << answer.message;
    EXPECT_EQ(0u, answer.wrong_count);
}

TEST_F(Share, OfATrimmedSegmentIsStale)
{
    Add(64 << 10);
    ASSERT_EQ(0u, CountWrong(0));
    std::vector<Block> old = blocks_;
    uint64_t bytes = 0;
    EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool_, 0));
    EXPECT_EQ(MOIETY_OK,
              moiety_free(pool_, old[0].address, MOIETY_STREAM_DONE));
    blocks_.clear();
    EXPECT_EQ(MOIETY_OK, moiety_pool_trim(pool_, 0, &bytes));
    EXPECT_EQ(0u, ReservedBytes());
    Process importer;
    Answer answer = importer.Ask(Task::kImport, old);
    EXPECT_EQ(MOIETY_E_STALE, answer.status) << answer.message;
}

} // namespace

int main(int count, char **arguments)
{
    if (count == 2 && std::strcmp(arguments[1], "--serve") == 0)
        return share_test::Serve();
    ::testing::InitGoogleTest(&count, arguments);
    const char option[] = "--driver=";
    char path[PATH_MAX];
    if (count == 2 && std::strncmp(arguments[1], option, strlen(option)) == 0 &&
        realpath(arguments[1] + strlen(option), path) != nullptr) {
        setenv("MOIETY_DRIVER", path, 1);
    } else if (count > 1) {
        std::fprintf(stderr, "usage: [--driver=FILE]\n");
        return 2;
    }
    unsetenv("MOIETY_CONF");
    missing_driver = share_test::OpenDevice();
    if (!missing_driver.empty())
        ::testing::GTEST_FLAG(filter) = "Driver.IsPresent";
    return RUN_ALL_TESTS();
}
