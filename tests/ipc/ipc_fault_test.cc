// SPDX-License-Identifier: Apache-2.0
//
// Every n-th call of the driver and of the host's memory fails once, in a life
// that exports and imports in all ways. Whatever the calls then answer: the
// next ones work, and at the end nothing is open, pinned or left.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/ipc/peer.h"
#include "tests/pool/inventory.h"
#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/failing_memory.h"

namespace
{

using ipc_test::Peer;
using namespace pool_test;

constexpr unsigned kTooMany = 5000; // calls that no life below makes

// Remembers what it holds, so that it can give it back.
class Life
{
  public:
    explicit Life(const std::vector<moiety_ipc_handle> &handles)
        : handles_(handles)
    {
    }

    unsigned failed_count() const
    {
        return failed_count_;
    }

    void Run()
    {
        moiety_pool_options options = pool_test::Defaults();
        options.flags = MOIETY_POOL_EXPORTABLE;
        Try(moiety_pool_create(&options, &pool_));
        if (pool_)
            Export();
        for (const moiety_ipc_handle &handle : handles_)
            for (moiety_stream stream :
                 {MOIETY_STREAM_DONE, MOIETY_STREAM_LEGACY, MOIETY_STREAM_ANY})
                ImportAndClose(handle, stream);
        uint32_t open_count = 0;
        Try(moiety_ipc_trim(1, &open_count));
        ImportAndClose(handles_[0], stream_);
        Try(moiety_ipc_trim(0, &open_count));
        if (pool_)
            Release();
    }

    // With nothing failing: all goes.
    void End()
    {
        for (moiety_devptr address : imported_)
            EXPECT_OK(moiety_ipc_close(address, MOIETY_STREAM_DONE, nullptr));
        uint32_t open_count = 1;
        pool_test::Synchronize();
        EXPECT_OK(moiety_ipc_trim(0, &open_count));
        EXPECT_EQ(0u, open_count);
        EXPECT_EQ(0, Live("ipc"));
        if (!pool_)
            return;
        EXPECT_OK(moiety_ipc_release_exports(pool_, 0));
        for (moiety_devptr block : blocks_)
            EXPECT_OK(moiety_free(pool_, block, stream_));
        ExpectWhole();
        moiety_leaks leaks = {};
        leaks.struct_size = sizeof leaks;
        EXPECT_OK(moiety_pool_destroy(pool_, &leaks));
        EXPECT_EQ(0u, leaks.block_count);
    }

  private:
    bool Try(moiety_status status)
    {
        failed_count_ += status != MOIETY_OK;
        return status == MOIETY_OK;
    }

    void Export()
    {
        moiety_devptr block = 0, address = 0;
        moiety_ipc_handle handle;
        while (
            blocks_.size() < 2 &&
            Try(moiety_alloc(pool_, 64 * kKiB, MOIETY_STREAM_LEGACY, &block)))
            blocks_.push_back(block);
        for (moiety_devptr exported : blocks_) {
            if (!Try(moiety_ipc_export(pool_, exported + 9, &handle)))
                continue;
            if (Try(moiety_ipc_import(&handle, sizeof handle, nullptr,
                                      &address)) &&
                !Try(moiety_ipc_close(address, MOIETY_STREAM_DONE, nullptr)))
                imported_.push_back(address);
        }
    }

    // Every second close returns at once.
    void ImportAndClose(const moiety_ipc_handle &handle, moiety_stream stream)
    {
        moiety_devptr address = 0;
        moiety_closing closing = nullptr;
        turn_++;
        if (!Try(moiety_ipc_import(&handle, sizeof handle, nullptr, &address)))
            return;
        if (Try(moiety_ipc_close(address, stream,
                                 turn_ % 2 ? &closing : nullptr)))
            (void)Try(moiety_ipc_wait(closing, 60000));
        else
            imported_.push_back(address);
    }

    void Release()
    {
        if (!blocks_.empty() &&
            Try(moiety_free(pool_, blocks_.back(), MOIETY_STREAM_LEGACY)))
            blocks_.pop_back();
        Try(moiety_ipc_release_exports(pool_, 0));
    }

    void ExpectWhole()
    {
        uint64_t bytes = 0, more = 0;
        moiety_pool_stats stats = {};
        stats.struct_size = sizeof stats;
        EXPECT_OK(moiety_pool_trim(pool_, 0, &bytes));
        pool_test::Synchronize();
        EXPECT_OK(moiety_pool_trim(pool_, 0, &more));
        EXPECT_OK(moiety_pool_get_stats(pool_, &stats));
        EXPECT_EQ(0u, stats.reserved_bytes_current) << "a pin is left";
        EXPECT_EQ(0u, stats.allocation_current);
    }

    std::vector<moiety_ipc_handle> handles_;
    moiety_pool *pool_ = nullptr;
    std::vector<moiety_devptr> blocks_;
    std::vector<moiety_devptr> imported_;
    pool_test::Stream stream_;
    unsigned turn_ = 0;
    unsigned failed_count_ = 0;
};

class IpcFault : public StandinTest
{
  protected:
    void SetUp() override
    {
        for (int i = 0; i < 2; i++)
            handles_.push_back(peer_.Export(peer_.Alloc(2 * kMiB)));
    }

    void ExpectDriverFaultsAreSurvived(const std::string &code)
    {
        unsigned n = 0;
        for (uint64_t calls = 1; n < calls && n < kTooMany && !HasFailure();) {
            SCOPED_TRACE("call " + std::to_string(++n));
            calls = LiveBadly(n, code);
            inventory_.ExpectUnchanged();
        }
        EXPECT_LT(n, kTooMany);
        std::printf("%u calls, each failed once\n", n);
    }

    // Returns how many calls there were.
    uint64_t LiveBadly(unsigned n, const std::string &code)
    {
        Life life(handles_);
        uint64_t before = pool_test::Calls();
        pool_test::SetFaults("*:nth=" + std::to_string(n) + ":code=" + code);
        life.Run();
        pool_test::SetFaults("");
        uint64_t calls = pool_test::Calls() - before;
        life.End();
        return calls;
    }

    Peer peer_;
    std::vector<moiety_ipc_handle> handles_;
    pool_test::Inventory inventory_;
};

TEST_F(IpcFault, EveryCallOfTheDriver)
{
    ExpectDriverFaultsAreSurvived("CUDA_ERROR_UNKNOWN");
}

TEST_F(IpcFault, EveryCallOfTheDriverByABadValue)
{
    ExpectDriverFaultsAreSurvived("CUDA_ERROR_INVALID_VALUE");
}

TEST_F(IpcFault, EveryAllocationOfHostMemory)
{
    bool is_over = false;
    unsigned n = 0;
    while (!is_over && n < kTooMany && !HasFailure()) {
        SCOPED_TRACE("allocation " + std::to_string(++n));
        {
            Life life(handles_);
            failing_memory_arm(n);
            life.Run();
            is_over = failing_memory_disarm();
            if (is_over) {
                EXPECT_EQ(0u, life.failed_count());
            }
            life.End();
        }
        inventory_.ExpectUnchanged();
    }
    EXPECT_LT(n, kTooMany);
    std::printf("%u allocations, each failed once\n", n - 1);
}

// A segment may be listed, and the block that was to be the first not noted:
// then nothing but the pin keeps the segment where the list says it is.
TEST_F(IpcFault, SegmentsAreWhereTheListSaysAfterAnExportThatFailed)
{
    bool is_over = false;
    for (unsigned n = 1; !is_over && n < kTooMany && !HasFailure(); n++) {
        SCOPED_TRACE("allocation " + std::to_string(n));
        moiety_pool_options options = pool_test::Defaults();
        options.flags = MOIETY_POOL_EXPORTABLE;
        options.largest_segment_bytes = options.first_segment_bytes;
        pool_test::Pool pool(options);
        moiety_devptr block = pool.Alloc(64 * kKiB), address = 0;
        moiety_ipc_handle handle;
        failing_memory_arm(n);
        moiety_status status = moiety_ipc_export(pool, block, &handle);
        is_over = failing_memory_disarm();
        EXPECT_TRUE(status == MOIETY_OK || status == MOIETY_E_NO_HOST_MEMORY);
        pool.Free(block);
        pool.TrimAll();
        block = pool.Alloc(64 * kKiB);
        pool_test::Fill(block, 64 * kKiB, n);
        pool_test::Synchronize();
        ASSERT_OK(moiety_ipc_export(pool, block, &handle));
        EXPECT_OK(peer_.Import(handle, &address)) << peer_.message();
        if (address) {
            EXPECT_TRUE(peer_.Holds(address, 64 * kKiB, n));
            EXPECT_OK(peer_.Close(address));
        }
        EXPECT_EQ(0u, peer_.Trim(0));
        EXPECT_OK(moiety_ipc_release_exports(pool, 0));
        pool.Free(block);
    }
    EXPECT_TRUE(is_over);
}

} // namespace
