// SPDX-License-Identifier: Apache-2.0
//
// Threads of one process that export, import, close, release and trim at once.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "tests/ipc/peer.h"
#include "tests/pool/pool_under_test.h"

namespace
{

using ipc_test::Peer;
using namespace pool_test;

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

class IpcRace : public StandinTest
{
  protected:
    void TearDown() override
    {
        uint32_t open_count = 1;
        EXPECT_OK(moiety_ipc_trim(0, &open_count));
        EXPECT_EQ(0u, open_count);
        EXPECT_EQ(0, pool_test::Live("ipc"));
    }

    static moiety_devptr Import(const moiety_ipc_handle &handle)
    {
        moiety_devptr address = 0;
        EXPECT_OK(moiety_ipc_import(&handle, sizeof handle,
                                    pool_test::PrimaryContext(), &address));
        return address;
    }

    static void Close(moiety_devptr address, moiety_stream stream)
    {
        moiety_closing closing = nullptr;
        EXPECT_OK(moiety_ipc_close(address, stream, &closing));
        EXPECT_OK(moiety_ipc_wait(closing, 60000));
    }
};

TEST_F(IpcRace, ImportVsImport)
{
    Peer peer;
    moiety_ipc_handle handle = peer.Export(peer.Alloc(64 * kKiB));
    uint64_t before = Calls("cuIpcOpenMemHandle");
    for (unsigned round = 0; round < kRounds; round++) {
        std::vector<moiety_devptr> addresses(kThreads);
        std::vector<std::function<void()>> bodies;
        for (moiety_devptr &address : addresses)
            bodies.push_back([&] { address = Import(handle); });
        RunTogether(bodies);
        for (moiety_devptr address : addresses) {
            EXPECT_EQ(addresses[0], address);
            Close(address, MOIETY_STREAM_DONE);
        }
        EXPECT_EQ(before + round + 1, Calls("cuIpcOpenMemHandle"));
        EXPECT_OK(moiety_ipc_trim(0, nullptr));
    }
}

TEST_F(IpcRace, ImportVsTrim)
{
    Peer peer;
    std::vector<moiety_ipc_handle> handles;
    for (unsigned i = 0; i < 3; i++)
        handles.push_back(peer.Export(peer.Alloc(2 * kMiB)));
    std::atomic<bool> is_over{false};
    std::vector<std::function<void()>> bodies(2, [&] {
        for (unsigned i = 0; i < kRounds; i++)
            Close(Import(handles[i % 3]),
                  i % 2 ? MOIETY_STREAM_DONE : MOIETY_STREAM_LEGACY);
        is_over = true;
    });
    bodies.push_back([&] {
        while (!is_over)
            EXPECT_OK(moiety_ipc_trim(1, nullptr));
    });
    RunTogether(bodies);
}

// Nobody but the trim can wake who waits for it.
TEST_F(IpcRace, OneImportVsTrim)
{
    Peer peer;
    moiety_ipc_handle handle = peer.Export(peer.Alloc(64 * kKiB));
    std::atomic<bool> is_over{false};
    RunTogether({[&] {
                     for (unsigned i = 0; i < 100 * kRounds; i++)
                         Close(Import(handle), MOIETY_STREAM_DONE);
                     is_over = true;
                 },
                 [&] {
                     std::minstd_rand random;
                     while (!is_over) {
                         // At any moment of the other's round.
                         for (auto turns = random() % 20000; turns; turns--)
                             std::atomic_signal_fence(
                                 std::memory_order_seq_cst);
                         EXPECT_OK(moiety_ipc_trim(0, nullptr));
                     }
                 }});
}

TEST_F(IpcRace, CloseVsWaitAndPoll)
{
    Peer peer;
    moiety_ipc_handle handle = peer.Export(peer.Alloc(64 * kKiB));
    std::vector<std::function<void()>> bodies(kThreads, [&] {
        for (unsigned i = 0; i < kRounds; i++) {
            moiety_devptr address = Import(handle);
            moiety_closing closing = nullptr;
            EXPECT_OK(moiety_ipc_close(address, MOIETY_STREAM_ANY, &closing));
            EXPECT_OK(moiety_ipc_trim(1, nullptr));
            EXPECT_OK(moiety_ipc_wait(closing, 60000));
        }
    });
    RunTogether(bodies);
}

moiety_pool_options Exportable()
{
    moiety_pool_options options = pool_test::Defaults();
    options.flags = MOIETY_POOL_EXPORTABLE;
    return options;
}

TEST_F(IpcRace, ExportVsExport)
{
    Pool pool(Exportable());
    for (unsigned round = 0; round < kRounds; round++) {
        moiety_devptr block = pool.Alloc(64 * kKiB);
        std::vector<moiety_ipc_handle> handles(kThreads);
        std::vector<std::function<void()>> bodies;
        for (moiety_ipc_handle &handle : handles)
            bodies.push_back(
                [&] { EXPECT_OK(moiety_ipc_export(pool, block, &handle)); });
        RunTogether(bodies);
        for (const moiety_ipc_handle &handle : handles)
            EXPECT_EQ(handles[0].checksum, handle.checksum);
        EXPECT_OK(moiety_ipc_release_exports(pool, 0));
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
            moiety_devptr block = pool.Alloc(64 * kKiB), address = 0;
            moiety_ipc_handle handle;
            EXPECT_OK(moiety_ipc_export(pool, block, &handle));
            moiety_status status = moiety_ipc_import(
                &handle, sizeof handle, pool_test::PrimaryContext(), &address);
            // The other thread may have released it meanwhile.
            if (status == MOIETY_OK) {
                EXPECT_EQ(block, address);
                EXPECT_OK(moiety_ipc_close(block, MOIETY_STREAM_DONE, nullptr));
            } else {
                EXPECT_EQ(MOIETY_E_STALE, status);
            }
            pool.Free(block);
        }
        is_over = true;
    });
    bodies.push_back([&] {
        while (!is_over) {
            moiety_status status = moiety_ipc_release_exports(pool, 0);
            EXPECT_TRUE(status == MOIETY_OK || status == MOIETY_E_IN_USE);
        }
    });
    RunTogether(bodies);
    EXPECT_OK(moiety_ipc_release_exports(pool, 0));
    EXPECT_EQ(0u, pool.Stats().allocation_current);
    pool_test::Synchronize();
    pool.TrimAll();
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_current) << "no pin is left";
}

} // namespace
