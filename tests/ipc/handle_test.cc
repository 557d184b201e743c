// SPDX-License-Identifier: Apache-2.0
//
// The bytes of a handle, and the process that they name.
#include <gtest/gtest.h>

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/support/ipc_probe.h"

namespace
{

moiety_ipc_handle Good()
{
    moiety_ipc_handle handle;
    std::memset(&handle, 0, sizeof handle);
    std::memset(handle.driver_handle, 0xa5, sizeof handle.driver_handle);
    handle.segment_bytes = 64 << 20;
    handle.offset_bytes = 512;
    handle.size_bytes = 4096;
    handle.segment_id = 3;
    handle.generation = 7;
    EXPECT_TRUE(ipc_probe_make_own(&handle));
    ipc_probe_seal(&handle);
    return handle;
}

moiety_status Read(const moiety_ipc_handle &handle)
{
    return ipc_probe_read(&handle, sizeof handle);
}

TEST(IpcHandle, IsReadAsItWasSealed)
{
    EXPECT_EQ(MOIETY_OK, Read(Good()));
}

TEST(IpcHandle, HasAFixedLayout)
{
    EXPECT_EQ(176u, sizeof(moiety_ipc_handle));
    EXPECT_EQ(8u, offsetof(moiety_ipc_handle, driver_handle));
    EXPECT_EQ(80u, offsetof(moiety_ipc_handle, offset_bytes));
    EXPECT_EQ(88u, offsetof(moiety_ipc_handle, size_bytes));
    EXPECT_EQ(168u, offsetof(moiety_ipc_handle, checksum));
}

// Handles that importers of earlier versions hold must stay readable.
TEST(IpcHandle, HasTheChecksumItAlwaysHad)
{
    moiety_ipc_handle handle;
    std::memset(&handle, 0, sizeof handle);
    handle.segment_bytes = handle.size_bytes = 4096;
    ipc_probe_seal(&handle);
    EXPECT_EQ(UINT64_C(0xed8b77a23bf4e732), handle.checksum);
}

TEST(IpcHandle, EveryLengthButOneIsRefused)
{
    std::vector<unsigned char> bytes(1024);
    moiety_ipc_handle handle = Good();
    std::memcpy(bytes.data(), &handle, sizeof handle);
    for (size_t length = 0; length < bytes.size(); length++) {
        EXPECT_EQ(length == sizeof handle ? MOIETY_OK : MOIETY_E_INVALID,
                  ipc_probe_read(bytes.data(), length));
    }
}

TEST(IpcHandle, EveryByteHasEveryOtherValueRefused)
{
    const moiety_ipc_handle good = Good();
    for (size_t at = 0; at < sizeof good; at++) {
        for (unsigned other = 1; other < 256; other++) {
            moiety_ipc_handle handle = good;
            reinterpret_cast<unsigned char *>(&handle)[at] ^=
                static_cast<unsigned char>(other);
            ASSERT_NE(MOIETY_OK, Read(handle)) << at << " " << other;
        }
    }
}

TEST(IpcHandle, WordsThatChangedPlacesAreNoticed)
{
    const moiety_ipc_handle good = Good();
    uint64_t words[sizeof good / 8];
    for (size_t i = 0; i < 22; i++) {
        for (size_t j = 0; j < i; j++) {
            std::memcpy(words, &good, sizeof words);
            if (words[i] == words[j])
                continue;
            std::swap(words[i], words[j]);
            EXPECT_NE(MOIETY_OK, ipc_probe_read(words, sizeof words));
        }
    }
}

TEST(IpcHandle, OtherVersionsAreUnsupported)
{
    for (uint32_t version : {0u, 2u, UINT32_MAX}) {
        moiety_ipc_handle handle = Good();
        handle.version = version;
        EXPECT_EQ(MOIETY_E_UNSUPPORTED, Read(handle));
    }
}

TEST(IpcHandle, MustLieWithinItsSegmentThoughItsChecksumIsRight)
{
    struct {
        uint64_t segment, offset, size;
    } bad[] = {{4096, 0, 0},    {4096, 0, 4097},       {4096, 4096, 1},
               {4096, 5000, 1}, {4096, UINT64_MAX, 2}, {4096, 1, UINT64_MAX},
               {0, 0, 1}};
    for (const auto &row : bad) {
        moiety_ipc_handle handle = Good();
        handle.segment_bytes = row.segment;
        handle.offset_bytes = row.offset;
        handle.size_bytes = row.size;
        ipc_probe_seal(&handle);
        EXPECT_EQ(MOIETY_E_CORRUPT, Read(handle))
            << row.segment << " " << row.offset << " " << row.size;
    }
}

TEST(IpcHandle, ReservedBytesMustBeZero)
{
    moiety_ipc_handle handle = Good();
    handle.kind = 2;
    ipc_probe_seal(&handle);
    EXPECT_EQ(MOIETY_E_CORRUPT, Read(handle));
}

TEST(IpcProcess, KnowsItself)
{
    moiety_ipc_handle handle = Good();
    EXPECT_EQ(IPC_PROBE_LIVES, ipc_probe_exporter(&handle));
}

TEST(IpcProcess, APidThatStartedAtAnotherTimeIsGone)
{
    moiety_ipc_handle handle = Good();
    handle.start_ticks++;
    EXPECT_EQ(IPC_PROBE_GONE, ipc_probe_exporter(&handle));
}

TEST(IpcProcess, OtherNamespacesCannotBeSeenInto)
{
    moiety_ipc_handle handle = Good();
    handle.pid_namespace++;
    EXPECT_EQ(IPC_PROBE_UNSEEN, ipc_probe_exporter(&handle));
}

TEST(IpcProcess, APidOfNobodyIsGone)
{
    moiety_ipc_handle handle = Good();
    handle.pid = 0x7ffffff0;
    EXPECT_EQ(IPC_PROBE_GONE, ipc_probe_exporter(&handle));
}

// Its name holds what the fields behind it look like.
TEST(IpcProcess, NamesDoNotConfuse)
{
    char before[16] = "", name[] = "a) Z 1 (b";
    ASSERT_EQ(0, pthread_getname_np(pthread_self(), before, sizeof before));
    ASSERT_EQ(0, pthread_setname_np(pthread_self(), name));
    moiety_ipc_handle handle = Good();
    EXPECT_EQ(IPC_PROBE_LIVES, ipc_probe_exporter(&handle));
    pthread_setname_np(pthread_self(), before);
}

} // namespace
