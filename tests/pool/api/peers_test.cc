// SPDX-License-Identifier: Apache-2.0
//
// Devices that may access a pool's memory beside its own: three devices of the
// stand-in, which are peers of each other.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "pool/driver/cuda_abi.h"
#include "tests/pool/inventory.h"
#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

class Peers : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        setenv("MOIETY_STANDIN_DEVICES", "3", 1);
        pool_test::UseStandin();
    }
    void TearDown() override
    {
        unsetenv("MOIETY_CONF");
        pool_test::SetFaults("");
    }
};

moiety_pool_options Mapped(uint64_t peers = 0)
{
    moiety_pool_options options = driver_options();
    set_kind(&options, KIND_MAPPED);
    options.thread_cache_bytes = MOIETY_BYTES_NONE;
    options.peer_devices = peers;
    return options;
}

// Whether the device may read and write there.
bool HasAccess(int device, moiety_devptr address)
{
    CUmemLocation location = {};
    location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    location.id = device;
    unsigned long long flags = 0;
    EXPECT_EQ(CUDA_SUCCESS,
              (pool_test::Get<CUresult(unsigned long long *,
                                       const CUmemLocation *, CUdeviceptr)>(
                  "cuMemGetAccess")(&flags, &location, address)));
    return flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

std::string Message()
{
    return moiety_last_error_message();
}

std::string RefusedBy(const moiety_pool_options &options, moiety_status status)
{
    moiety_pool *pool = nullptr;
    EXPECT_EQ(status, moiety_pool_create(&options, &pool));
    EXPECT_EQ(nullptr, pool);
    return Message();
}

TEST_F(Peers, AreNoneByDefault)
{
    Pool pool(Mapped());
    moiety_devptr block = pool.Alloc(2 * kMiB);
    EXPECT_TRUE(HasAccess(0, block));
    EXPECT_FALSE(HasAccess(1, block));
    EXPECT_FALSE(HasAccess(2, block));
    pool.Free(block);
}

TEST_F(Peers, AreNamedByOptions)
{
    Pool pool(Mapped(1 << 2));
    moiety_devptr block = pool.Alloc(100 * kMiB);
    for (moiety_devptr at : {block, block + 100 * kMiB - 1}) {
        EXPECT_TRUE(HasAccess(0, at));
        EXPECT_FALSE(HasAccess(1, at));
        EXPECT_TRUE(HasAccess(2, at));
    }
    pool.Free(block);
}

TEST_F(Peers, AreNamedByTheEnvironment)
{
    setenv("MOIETY_CONF", "memory:mapped,peers:1+2", 1);
    moiety_pool *pool = nullptr;
    ASSERT_OK(moiety_pool_create(nullptr, &pool)) << Message();
    moiety_devptr block = 0;
    ASSERT_OK(moiety_alloc(pool, kMiB, MOIETY_STREAM_LEGACY, &block));
    EXPECT_TRUE(HasAccess(1, block));
    EXPECT_TRUE(HasAccess(2, block));
    EXPECT_OK(moiety_pool_destroy(pool, nullptr));
}

TEST_F(Peers, AreAddedToWhatIsThereAndWhatComes)
{
    Pool pool(Mapped());
    moiety_devptr before = pool.Alloc(8 * kMiB);
    EXPECT_OK(moiety_pool_add_peer(pool, 1)) << Message();
    EXPECT_OK(moiety_pool_add_peer(pool, 1)) << "again";
    moiety_devptr behind = pool.Alloc(8 * kMiB);
    for (moiety_devptr block : {before, behind}) {
        EXPECT_TRUE(HasAccess(0, block));
        EXPECT_TRUE(HasAccess(1, block));
        EXPECT_FALSE(HasAccess(2, block));
        pool.Free(block);
    }
}

TEST_F(Peers, FollowPiecesThatMove)
{
    Pool pool(Mapped(1 << 1));
    moiety_devptr first = pool.Alloc(8 * kMiB);
    moiety_devptr keeper = pool.Alloc(2 * kMiB);
    pool.Free(first, MOIETY_STREAM_DONE);
    moiety_devptr block = pool.Alloc(12 * kMiB);
    EXPECT_EQ(2u, pool.Stats().mapped_moves);
    EXPECT_TRUE(HasAccess(1, block));
    EXPECT_TRUE(HasAccess(1, block + 12 * kMiB - 1));
    pool.Free(block);
    pool.Free(keeper);
}

// A set and a copy by device 1's own context, with access and without.
TEST_F(Peers, UseTheMemoryThemselves)
{
    moiety_context own = pool_test::Current();
    CUcontext other = nullptr;
    ASSERT_EQ(CUDA_SUCCESS, (pool_test::Get<CUresult(CUcontext *, CUdevice)>(
                                "cuDevicePrimaryCtxRetain")(&other, 1)));
    Pool pool(Mapped());
    moiety_devptr block = pool.Alloc(100 * kMiB);
    pool_test::SetCurrent(other);
    auto set = [&] {
        return pool_test::Get<CUresult(CUdeviceptr, unsigned, size_t)>(
            "cuMemsetD32_v2")(block, 7, 100 * kMiB / 4);
    };
    auto copy = [&] {
        return pool_test::Get<CUresult(CUdeviceptr, CUdeviceptr, size_t)>(
            "cuMemcpyDtoD_v2")(block + 50 * kMiB, block, 8);
    };
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, set());
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, copy());
    EXPECT_OK(moiety_pool_add_peer(pool, 1)) << Message();
    EXPECT_EQ(CUDA_SUCCESS, set());
    EXPECT_EQ(CUDA_SUCCESS, copy());
    EXPECT_EQ(CUDA_SUCCESS, (pool_test::Get<CUresult()>("cuCtxSynchronize")()));
    {
        moiety_pool_options options = Mapped(1 << 0);
        options.context = other;
        Pool there(options);
        moiety_devptr block_there = there.Alloc(2 * kMiB);
        moiety_segment_info info = {};
        info.struct_size = sizeof(info);
        EXPECT_OK(moiety_segment_find(there, block_there, &info));
        EXPECT_EQ(1, info.device);
        EXPECT_TRUE(HasAccess(0, block_there));
        there.Free(block_there);
    }
    pool_test::SetCurrent(own);
    EXPECT_TRUE(pool_test::Holds(block, 100 * kMiB, 7));
    pool.Free(block);
    EXPECT_EQ(CUDA_SUCCESS, (pool_test::Get<CUresult(CUdevice)>(
                                "cuDevicePrimaryCtxRelease_v2")(1)));
}

TEST_F(Peers, ThatAreNoneAreRefused)
{
    EXPECT_EQ("there is no device 3; there are 3",
              RefusedBy(Mapped(1 << 1 | 1 << 3), MOIETY_E_INVALID));
    EXPECT_EQ("device 0 is the pool's own, and no peer",
              RefusedBy(Mapped(1), MOIETY_E_INVALID));
    Pool pool(Mapped());
    for (int32_t device : {-1, 64}) {
        EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_add_peer(pool, device));
        EXPECT_EQ("moiety_pool_add_peer: device " + std::to_string(device) +
                      "; accepted are ordinals from 0 to 63",
                  Message());
    }
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_add_peer(pool, 63));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_add_peer(pool, 0));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_add_peer(nullptr, 1));
}

TEST_F(Peers, AreOfMappedMemoryAlone)
{
    const std::string refusal =
        "peers are named; accepted is none where memory "
        "is driver or pass_through is 1";
    moiety_pool_options options = Mapped(1 << 1);
    set_kind(&options, KIND_AUTO | KIND_PASS_THROUGH);
    EXPECT_EQ(refusal, RefusedBy(options, MOIETY_E_INVALID));
    options.mode = MOIETY_MODE_PLAIN;
    options.memory = MOIETY_MEMORY_DRIVER;
    EXPECT_EQ(refusal, RefusedBy(options, MOIETY_E_INVALID));
    for (uint32_t flags : {UINT32_C(0), KIND_AUTO | KIND_PASS_THROUGH}) {
        options = Mapped();
        options.memory = MOIETY_MEMORY_DRIVER;
        set_kind(&options, flags);
        Pool pool(options);
        EXPECT_EQ(MOIETY_E_UNSUPPORTED, moiety_pool_add_peer(pool, 1));
        EXPECT_EQ("peers are of a pool that is mapped", Message());
    }
}

// A pool that prefers mapped memory and gets none has no peers.
TEST_F(Peers, AreOfMemoryThatIsPreferred)
{
    moiety_pool_options options = Mapped(1 << 1);
    set_kind(&options, KIND_AUTO);
    {
        Pool pool(options);
        moiety_devptr block = pool.Alloc(2 * kMiB);
        EXPECT_TRUE(HasAccess(1, block));
        pool.Free(block);
    }
    options.flags |= MOIETY_POOL_EXPORTABLE;
    EXPECT_EQ("the pool's memory is not mapped, so that it can have no peers",
              RefusedBy(options, MOIETY_E_UNSUPPORTED));
}

TEST_F(Peers, HaveWhatIsMappedOfAPoolThatHasFallenBack)
{
    moiety_pool_options options = Mapped();
    set_kind(&options, KIND_AUTO);
    Pool pool(options);
    moiety_devptr mapped = pool.Alloc(4 * kMiB);
    pool_test::SetFaults("cuMemMap:every=1:code=CUDA_ERROR_UNKNOWN");
    moiety_devptr other = pool.Alloc(8 * kMiB);
    pool_test::SetFaults("");
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, moiety_pool_add_peer(pool, 1));
    EXPECT_NE(std::string::npos, Message().find("enabled peer access"));
    EXPECT_TRUE(HasAccess(1, mapped));
    pool.Free(mapped);
    pool.Free(other);
}

// Memory of cuMemAlloc could not be theirs: a refusal is told.
TEST_F(Peers, KeepAPoolMapped)
{
    moiety_pool_options options = Mapped();
    set_kind(&options, KIND_AUTO);
    Pool pool(options);
    moiety_devptr block = 0;
    EXPECT_OK(moiety_pool_add_peer(pool, 1)) << Message();
    pool_test::SetFaults("cuMemSetAccess:every=1:code=CUDA_ERROR_UNKNOWN");
    EXPECT_EQ(MOIETY_E_DRIVER,
              moiety_alloc(pool, 4 * kMiB, MOIETY_STREAM_LEGACY, &block));
    pool_test::SetFaults("");
    block = pool.Alloc(4 * kMiB);
    EXPECT_TRUE(HasAccess(1, block));
    pool.Free(block);
}

// Each call of the driver fails once: then the device has all or nothing, and
// the next try succeeds.
TEST_F(Peers, HaveAllOrNothingWhereTheDriverFails)
{
    pool_test::Inventory inventory;
    unsigned failed_count = 0;
    for (const char *entry :
         {"cuDeviceGet", "cuDeviceGetCount", "cuDeviceCanAccessPeer",
          "cuCtxGetDevice", "cuMemSetAccess"}) {
        for (unsigned n = 1; n <= 4; n++) {
            SCOPED_TRACE(std::string(entry) + ", call " + std::to_string(n));
            Pool pool(Mapped());
            std::vector<moiety_devptr> blocks = {pool.Alloc(2 * kMiB),
                                                 pool.Alloc(100 * kMiB)};
            pool_test::SetFaults(std::string(entry) +
                                 ":nth=" + std::to_string(n) +
                                 ":code=CUDA_ERROR_UNKNOWN");
            moiety_status status = moiety_pool_add_peer(pool, 1);
            pool_test::SetFaults("");
            failed_count += status != MOIETY_OK;
            for (moiety_devptr block : blocks)
                EXPECT_EQ(status == MOIETY_OK, HasAccess(1, block));
            EXPECT_OK(moiety_pool_add_peer(pool, 1)) << Message();
            for (moiety_devptr block : blocks) {
                EXPECT_TRUE(HasAccess(1, block));
                pool.Free(block);
            }
        }
    }
    EXPECT_LE(7u, failed_count);
    inventory.ExpectUnchanged();
}

// That driver also says no of devices that older ones let access each other.
TEST(PeersApart, AreToldWhatADriverOfCuda135Asks)
{
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            setenv("MOIETY_STANDIN_DEVICES", "2", 1);
            setenv("MOIETY_STANDIN_PEERS", "0", 1);
            setenv("MOIETY_STANDIN_DRIVER_VERSION", "13050", 1);
            pool_test::UseStandin();
            std::string message =
                RefusedBy(Mapped(1 << 1), MOIETY_E_UNSUPPORTED);
            std::exit(message.find("IOMMU") == std::string::npos);
        },
        ::testing::ExitedWithCode(0), "");
}

TEST(PeersApart, AreRefused)
{
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            setenv("MOIETY_STANDIN_DEVICES", "2", 1);
            setenv("MOIETY_STANDIN_PEERS", "0", 1);
            pool_test::UseStandin();
            std::string message =
                RefusedBy(Mapped(1 << 1), MOIETY_E_UNSUPPORTED);
            std::exit(message == "device 1 cannot access the memory of device 0"
                          ? 0
                          : 1);
        },
        ::testing::ExitedWithCode(0), "");
}

} // namespace
