// SPDX-License-Identifier: Apache-2.0
//
// Handles that were made up: their checksum is right. They may lead to another
// place of the same segment; nowhere else, and to no crash.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tests/ipc/peer.h"
#include "tests/pool/pool_under_test.h"
#include "tests/support/ipc_probe.h"

namespace
{

using namespace ipc_test;
using namespace pool_test;

class IpcForged : public StandinTest
{
  protected:
    void SetUp() override
    {
        moiety_pool_options options = pool_test::Defaults();
        options.flags = MOIETY_POOL_EXPORTABLE;
        ASSERT_OK(moiety_pool_create(&options, &pool_));
        ASSERT_OK(
            moiety_alloc(pool_, 64 * kKiB, MOIETY_STREAM_LEGACY, &block_));
        ASSERT_OK(moiety_ipc_export(pool_, block_, &handle_));
        pool_test::Fill(block_, 64 * kKiB, 99);
        pool_test::Synchronize();
    }

    void TearDown() override
    {
        EXPECT_OK(moiety_pool_destroy(pool_, nullptr));
    }

    // The same handle with one bit turned, and the checksum made right.
    moiety_ipc_handle Turned(size_t bit) const
    {
        moiety_ipc_handle handle = handle_;
        reinterpret_cast<unsigned char *>(&handle)[bit / 8] ^=
            static_cast<unsigned char>(1u << bit % 8);
        ipc_probe_seal(&handle);
        return handle;
    }

    // Every byte that the handle speaks of can be read, or it is refused.
    static bool IsHarmless(Peer &peer, const moiety_ipc_handle &handle)
    {
        moiety_devptr address = 0;
        moiety_status status = peer.Import(handle, &address);
        if (status != MOIETY_OK)
            return address == 0;
        peer.Holds(address, 4, 0);
        peer.Holds(address + handle.size_bytes / 4 * 4 - 4, 4, 0);
        return peer.Close(address) == MOIETY_OK;
    }

    void TurnEveryBit(bool is_open)
    {
        Peer peer;
        moiety_devptr address = 0, other = 0;
        if (is_open) {
            ASSERT_OK(peer.Import(handle_, &address));
        }
        for (size_t bit = 0; bit < 8 * sizeof handle_ && !HasFailure(); bit++) {
            SCOPED_TRACE("bit " + std::to_string(bit));
            EXPECT_TRUE(IsHarmless(peer, Turned(bit))) << peer.message();
            if (!is_open) {
                EXPECT_EQ(0u, peer.Trim(0));
            }
        }
        if (is_open) {
            EXPECT_TRUE(peer.Holds(address, 64 * kKiB, 99));
            EXPECT_OK(peer.Close(address));
        }
        EXPECT_EQ(0u, peer.Trim(0));
        EXPECT_EQ(0u, peer.Ask(Do::kLiveImports));
        EXPECT_OK(peer.Import(handle_, &other));
        EXPECT_TRUE(peer.Holds(other, 64 * kKiB, 99));
    }

    moiety_pool *pool_ = nullptr;
    moiety_devptr block_ = 0;
    moiety_ipc_handle handle_ = {};
};

TEST_F(IpcForged, BitsOfASegmentThatIsNotOpen)
{
    TurnEveryBit(false);
}

TEST_F(IpcForged, BitsOfASegmentThatIsOpen)
{
    TurnEveryBit(true);
}

TEST_F(IpcForged, AnotherMachinesHandle)
{
    Peer peer;
    moiety_devptr address = 0;
    moiety_ipc_handle handle = handle_;
    handle.machine[5] ^= 1;
    ipc_probe_seal(&handle);
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, peer.Import(handle, &address));
    EXPECT_EQ(MOIETY_E_UNSUPPORTED,
              moiety_ipc_import(&handle, sizeof handle, nullptr, &address));
}

TEST_F(IpcForged, APidThatCameAgain)
{
    Peer peer;
    moiety_devptr address = 0;
    moiety_ipc_handle handle = handle_;
    handle.start_ticks--;
    ipc_probe_seal(&handle);
    EXPECT_EQ(MOIETY_E_PEER_GONE, peer.Import(handle, &address));
    EXPECT_EQ(0u, peer.Ask(Do::kOpens)) << "the driver was not asked";
}

TEST_F(IpcForged, AHandleThatContradictsWhatIsOpen)
{
    Peer peer;
    moiety_devptr address = 0, other = 0;
    ASSERT_OK(peer.Import(handle_, &address));
    moiety_ipc_handle handle = handle_;
    handle.segment_bytes *= 2;
    handle.offset_bytes += handle_.segment_bytes;
    ipc_probe_seal(&handle);
    EXPECT_EQ(MOIETY_E_CORRUPT, peer.Import(handle, &other));
}

TEST_F(IpcForged, ASegmentThatIsLargerThanTheDrivers)
{
    Peer peer;
    moiety_devptr address = 0;
    moiety_ipc_handle handle = handle_;
    handle.segment_bytes *= 2;
    handle.size_bytes = handle.segment_bytes - handle.offset_bytes;
    ipc_probe_seal(&handle);
    EXPECT_EQ(MOIETY_E_CORRUPT, peer.Import(handle, &address));
    EXPECT_EQ(1u, peer.Ask(Do::kOpens));
    EXPECT_EQ(0u, peer.Ask(Do::kLiveImports)) << "closed again";
}

// What follows a trim on a driver that gives the same bytes again.
TEST_F(IpcForged, AnotherSegmentUnderTheSameHandleOfTheDriver)
{
    Peer peer;
    moiety_devptr address = 0;
    ASSERT_OK(peer.Import(handle_, &address));
    moiety_ipc_handle handle = handle_;
    handle.segment_id++;
    ipc_probe_seal(&handle);
    EXPECT_EQ(MOIETY_E_STALE, peer.Import(handle, &address))
        << "the old one is in use";
    ASSERT_OK(peer.Import(handle_, &address));
    EXPECT_OK(peer.Close(address));
    EXPECT_OK(peer.Close(address));
    EXPECT_OK(peer.Import(handle, &address));
    EXPECT_EQ(2u, peer.Ask(Do::kOpens)) << "opened anew";
    EXPECT_EQ(1u, peer.Ask(Do::kCloses)) << "the old one was closed first";
    EXPECT_OK(peer.Close(address));
    EXPECT_EQ(0u, peer.Trim(0));
}

} // namespace
