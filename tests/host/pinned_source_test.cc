// SPDX-License-Identifier: Apache-2.0
//
// Pinned memory as a source: where it is, how it is registered, what is said
// of it, and how it goes away.
#include "tests/host/pinned_under_test.h"

#include <vector>

#include "pool/driver/cuda_abi.h"

namespace host_test
{
namespace
{

constexpr uint64_t kBytes = 34 * kMiB; // more than two pieces for the crew

using PinnedSource = PinnedTest;

TEST_F(PinnedSource, SaysThatItsMemoryIsPinned)
{
    Pinned pinned;
    EXPECT_TRUE(pinned_probe_source(pinned).flags & MOIETY_SOURCE_PINNED);
}

TEST_F(PinnedSource, PinsMemoryThatIsOnItsNode)
{
    Pinned pinned;
    moiety_devptr address = pinned.Reserve(kBytes);
    EXPECT_EQ(0u, address % (2 * kMiB));
    moiety_host_stats stats = pinned.Stats();
    EXPECT_EQ(kBytes, stats.pinned_bytes);
    EXPECT_EQ(1u, stats.region_count);
    EXPECT_EQ(kBytes / 4096, stats.pages_asked);
    EXPECT_EQ(stats.pages_asked, stats.pages_near);
    EXPECT_EQ(0u, stats.pages_elsewhere);
    EXPECT_EQ(0u, stats.fallbacks) << pinned.Reason();
    EXPECT_TRUE(stats.nodes[0] >> pinned_probe_node() & 1);
    EXPECT_OK(pinned.Release(address, kBytes));
    EXPECT_EQ(0u, pinned.Stats().pinned_bytes);
    EXPECT_EQ(0u, pinned.Stats().pages_asked);
}

TEST_F(PinnedSource, IsStrictlyTheSame)
{
    Pinned pinned(MOIETY_HOST_STRICT);
    moiety_devptr address = pinned.Reserve(kBytes);
    EXPECT_EQ(kBytes / 4096, pinned.Stats().pages_near);
    EXPECT_OK(pinned.Release(address, kBytes));
}

TEST_F(PinnedSource, IsForAllContextsAndMapped)
{
    Pinned pinned;
    moiety_devptr address = pinned.Reserve(2 * kMiB), device = 0;
    EXPECT_EQ(
        unsigned{CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP},
        FlagsOf(address));
    EXPECT_OK(pinned_probe_device_address(
        pinned, reinterpret_cast<void *>(address + 5), &device));
    EXPECT_EQ(address + 5, device);
    EXPECT_OK(pinned.Release(address, 2 * kMiB));
}

TEST_F(PinnedSource, KnowsWhatIsNotItsOwn)
{
    Pinned pinned;
    moiety_devptr device = 0;
    EXPECT_EQ(MOIETY_E_FOREIGN,
              pinned_probe_device_address(pinned, &device, &device));
    EXPECT_EQ(MOIETY_E_FOREIGN, pinned.Release(2 * kMiB, 2 * kMiB));
}

TEST_F(PinnedSource, CanBeForReadingOnly)
{
    Pinned pinned(MOIETY_HOST_READ_ONLY);
    moiety_devptr address = pinned.Reserve(2 * kMiB);
    EXPECT_TRUE(FlagsOf(address) & CU_MEMHOSTREGISTER_READ_ONLY);
    EXPECT_OK(pinned.Release(address, 2 * kMiB));
}

TEST_F(PinnedSource, LetsTheDriverAllocateWhatIsWriteCombined)
{
    Pinned pinned(MOIETY_HOST_WRITE_COMBINED | MOIETY_HOST_STRICT);
    moiety_devptr address = pinned.Reserve(kBytes);
    EXPECT_TRUE(FlagsOf(address) & CU_MEMHOSTALLOC_WRITECOMBINED);
    EXPECT_TRUE(FlagsOf(address) & CU_MEMHOSTALLOC_PORTABLE);
    EXPECT_EQ(kBytes / 4096, pinned.Stats().pages_near);
    EXPECT_EQ(kBytes, pinned.Stats().page_kind_bytes[MOIETY_HOST_PAGES_DRIVER]);
    EXPECT_OK(pinned.Release(address, kBytes));
}

TEST_F(PinnedSource, LetsTheDriverAllocateWhatItIsAskedTo)
{
    Pinned pinned(MOIETY_HOST_BY_DRIVER | MOIETY_HOST_STRICT);
    uint64_t registered = pool_test::Calls("cuMemHostRegister");
    moiety_devptr address = pinned.Reserve(kBytes);
    EXPECT_EQ(registered, pool_test::Calls("cuMemHostRegister"));
    EXPECT_FALSE(FlagsOf(address) & CU_MEMHOSTALLOC_WRITECOMBINED);
    EXPECT_TRUE(FlagsOf(address) & CU_MEMHOSTALLOC_PORTABLE);
    EXPECT_EQ(kBytes / 4096, pinned.Stats().pages_near);
    EXPECT_EQ(kBytes, pinned.Stats().page_kind_bytes[MOIETY_HOST_PAGES_DRIVER]);
    EXPECT_EQ(0u, pinned.Stats().fallbacks);
    EXPECT_OK(pinned.Release(address, kBytes));
}

TEST_F(PinnedSource, SaysHowFarItIs)
{
    struct Seen {
        std::vector<uint64_t> done;
        uint64_t total = 0;
    } seen;
    Pinned pinned;
    moiety_devptr address = 0;
    ASSERT_OK(pinned_probe_reserve(
        pinned, kBytes,
        [](void *data, uint64_t done, uint64_t total) {
            auto *to = static_cast<Seen *>(data);
            to->done.push_back(done);
            to->total = total;
        },
        &seen, &address));
    EXPECT_EQ(kBytes, seen.total);
    ASSERT_FALSE(seen.done.empty());
    EXPECT_EQ(kBytes, seen.done.back());
    for (size_t i = 1; i < seen.done.size(); i++)
        EXPECT_LE(seen.done[i - 1], seen.done[i]);
    EXPECT_OK(pinned.Release(address, kBytes));
}

TEST_F(PinnedSource, LeavesTheContextAsItWas)
{
    moiety_context other = pool_test::NewContext();
    pool_test::SetCurrent(other);
    {
        Pinned pinned;
        moiety_devptr address = pinned.Reserve(2 * kMiB);
        EXPECT_EQ(other, pool_test::Current());
        EXPECT_OK(pinned.Release(address, 2 * kMiB));
        EXPECT_EQ(other, pool_test::Current());
    }
    pool_test::SetCurrent(pool_test::PrimaryContext());
    pool_test::DestroyContext(other);
}

TEST_F(PinnedSource, LosesTheRegistrationWithItsContextButNotTheMemory)
{
    moiety_context context = pool_test::NewContext();
    Pinned pinned(0, 2, context);
    moiety_devptr address = pinned.Reserve(2 * kMiB);
    pool_test::DestroyContext(context);
    // Unmapped all the same: the end of the test counts.
    EXPECT_OK(pinned.Release(address, 2 * kMiB));
    EXPECT_EQ(0u, pinned.Stats().pinned_bytes);
}

TEST_F(PinnedSource, KeepsWhatTheDriverDoesNotTakeBack)
{
    Pinned pinned;
    moiety_devptr address = pinned.Reserve(2 * kMiB);
    pool_test::SetFaults(
        "cuMemHostUnregister:nth=1:code=CUDA_ERROR_LAUNCH_FAILED");
    EXPECT_EQ(MOIETY_E_DRIVER, pinned.Release(address, 2 * kMiB));
    EXPECT_EQ(2 * kMiB, pinned.Stats().pinned_bytes);
    *reinterpret_cast<volatile char *>(address) = 1;
    EXPECT_OK(pinned.Release(address, 2 * kMiB));
}

} // namespace
} // namespace host_test
