// SPDX-License-Identifier: Apache-2.0
//
// Threads of one process that export, import, close, release and trim at once.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "tests/ipc/peer.h"
#include "tests/pool/pool_under_test.h"

namespace
{

using ipc_test::Peer;
using pool_test::Calls;
using pool_test::kKiB;
using pool_test::kMiB;
using pool_test::Pool;

constexpr unsigned kThreads = 6;
constexpr unsigned kRounds = 100;

// Runs them all, and lets them begin together.
void RunTogether(const std::vector<std::function<void()>> &bodies)
{
    std::atomic<unsigned> ready{0};
    std::vector<std::thread> threads;
    for (const auto &body : bodies)
        threads.emplace_back([&] {
            ready++;
            while (ready < bodies.size())
                std::this_thread::yield();
            body();
        });
    for (std::thread &thread : threads)
        thread.join();
}

class IpcRace : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }

    void TearDown() override
    {
        uint32_t open_count = 1;
        EXPECT_EQ(BINADE_OK, binade_ipc_trim(0, &open_count));
        EXPECT_EQ(0u, open_count);
        EXPECT_EQ(0, pool_test::Live("ipc"));
    }

    static binade_devptr Import(const binade_ipc_handle &handle)
    {
        binade_devptr address = 0;
        EXPECT_EQ(BINADE_OK,
                  binade_ipc_import(&handle, sizeof handle,
                                    pool_test::PrimaryContext(), &address))
            << binade_last_error_message();
        return address;
    }

    static void Close(binade_devptr address, binade_stream stream)
    {
        uint64_t closing = 0;
        EXPECT_EQ(BINADE_OK, binade_ipc_close(address, stream, &closing));
        EXPECT_EQ(BINADE_OK, binade_ipc_wait(closing, 60000));
    }
};

TEST_F(IpcRace, ImportVsImport)
{
    Peer peer;
    binade_ipc_handle handle = peer.Export(peer.Alloc(64 * kKiB));
    uint64_t before = Calls("cuIpcOpenMemHandle");
    for (unsigned round = 0; round < kRounds; round++) {
        std::vector<binade_devptr> addresses(kThreads);
        std::vector<std::function<void()>> bodies;
        for (binade_devptr &address : addresses)
            bodies.push_back([&] { address = Import(handle); });
        RunTogether(bodies);
        for (binade_devptr address : addresses) {
            EXPECT_EQ(addresses[0], address);
            Close(address, BINADE_STREAM_DONE);
        }
        EXPECT_EQ(before + round + 1, Calls("cuIpcOpenMemHandle"));
        EXPECT_EQ(BINADE_OK, binade_ipc_trim(0, nullptr));
    }
}

TEST_F(IpcRace, ImportVsTrim)
{
    Peer peer;
    std::vector<binade_ipc_handle> handles;
    for (unsigned i = 0; i < 3; i++)
        handles.push_back(peer.Export(peer.Alloc(2 * kMiB)));
    std::atomic<bool> is_over{false};
    std::vector<std::function<void()>> bodies(2, [&] {
        for (unsigned i = 0; i < kRounds; i++)
            Close(Import(handles[i % 3]),
                  i % 2 ? BINADE_STREAM_DONE : BINADE_STREAM_LEGACY);
        is_over = true;
    });
    bodies.push_back([&] {
        while (!is_over)
            EXPECT_EQ(BINADE_OK, binade_ipc_trim(1, nullptr));
    });
    RunTogether(bodies);
}

TEST_F(IpcRace, CloseVsWaitAndPoll)
{
    Peer peer;
    binade_ipc_handle handle = peer.Export(peer.Alloc(64 * kKiB));
    std::vector<std::function<void()>> bodies(kThreads, [&] {
        for (unsigned i = 0; i < kRounds; i++) {
            binade_devptr address = Import(handle);
            uint64_t closing = 0;
            EXPECT_EQ(BINADE_OK,
                      binade_ipc_close(address, BINADE_STREAM_ANY, &closing));
            EXPECT_EQ(BINADE_OK, binade_ipc_trim(1, nullptr));
            EXPECT_EQ(BINADE_OK, binade_ipc_wait(closing, 60000));
        }
    });
    RunTogether(bodies);
}

binade_pool_options Exportable()
{
    binade_pool_options options = pool_test::Defaults();
    options.flags = BINADE_POOL_EXPORTABLE;
    return options;
}

TEST_F(IpcRace, ExportVsExport)
{
    Pool pool(Exportable());
    for (unsigned round = 0; round < kRounds; round++) {
        binade_devptr block = pool.Alloc(64 * kKiB);
        std::vector<binade_ipc_handle> handles(kThreads);
        std::vector<std::function<void()>> bodies;
        for (binade_ipc_handle &handle : handles)
            bodies.push_back([&] {
                EXPECT_EQ(BINADE_OK, binade_ipc_export(pool, block, &handle));
            });
        RunTogether(bodies);
        for (const binade_ipc_handle &handle : handles)
            EXPECT_EQ(handles[0].checksum, handle.checksum);
        EXPECT_EQ(BINADE_OK, binade_ipc_release_exports(pool, 0));
        pool.Free(block);
        pool.TrimAll();
        EXPECT_EQ(0u, pool.Stats().reserved_bytes_current) << "no pin is left";
    }
}

TEST_F(IpcRace, ExportVsReleaseVsOwnImport)
{
    Pool pool(Exportable());
    std::atomic<bool> is_over{false};
    std::vector<std::function<void()>> bodies(2, [&] {
        for (unsigned i = 0; i < kRounds; i++) {
            binade_devptr block = pool.Alloc(64 * kKiB), address = 0;
            binade_ipc_handle handle;
            EXPECT_EQ(BINADE_OK, binade_ipc_export(pool, block, &handle));
            binade_status status = binade_ipc_import(
                &handle, sizeof handle, pool_test::PrimaryContext(), &address);
            // The other thread may have released it meanwhile.
            if (status == BINADE_OK) {
                EXPECT_EQ(block, address);
                EXPECT_EQ(BINADE_OK,
                          binade_ipc_close(block, BINADE_STREAM_DONE, nullptr));
            } else {
                EXPECT_EQ(BINADE_E_STALE, status);
            }
            pool.Free(block);
        }
        is_over = true;
    });
    bodies.push_back([&] {
        while (!is_over) {
            binade_status status = binade_ipc_release_exports(pool, 0);
            EXPECT_TRUE(status == BINADE_OK || status == BINADE_E_BUSY);
        }
    });
    RunTogether(bodies);
    EXPECT_EQ(BINADE_OK, binade_ipc_release_exports(pool, 0));
    EXPECT_EQ(0u, pool.Stats().allocation_current);
    pool_test::Synchronize();
    pool.TrimAll();
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_current) << "no pin is left";
}

} // namespace
