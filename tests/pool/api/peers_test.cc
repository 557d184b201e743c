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

namespace
{

using pool_test::kMiB;
using pool_test::Pool;

class Peers : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        setenv("BINADE_STANDIN_DEVICES", "3", 1);
        pool_test::UseStandin();
    }
    void TearDown() override
    {
        unsetenv("BINADE_CONF");
        pool_test::SetFaults("");
    }
};

binade_pool_options Mapped(uint64_t peers = 0)
{
    binade_pool_options options = BINADE_POOL_OPTIONS_INIT;
    options.flags = BINADE_POOL_MAPPED;
    options.thread_cache_bytes = 0;
    options.peer_devices = peers;
    return options;
}

// Whether the device may read and write there.
bool HasAccess(int device, binade_devptr address)
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
    return binade_last_error_message();
}

std::string RefusedBy(const binade_pool_options &options, binade_status status)
{
    binade_pool *pool = nullptr;
    EXPECT_EQ(status, binade_pool_create(&options, &pool));
    EXPECT_EQ(nullptr, pool);
    return Message();
}

TEST_F(Peers, AreNoneByDefault)
{
    Pool pool(Mapped());
    binade_devptr block = pool.Alloc(2 * kMiB);
    EXPECT_TRUE(HasAccess(0, block));
    EXPECT_FALSE(HasAccess(1, block));
    EXPECT_FALSE(HasAccess(2, block));
    pool.Free(block);
}

TEST_F(Peers, AreNamedByOptions)
{
    Pool pool(Mapped(1 << 2));
    binade_devptr block = pool.Alloc(100 * kMiB);
    for (binade_devptr at : {block, block + 100 * kMiB - 1}) {
        EXPECT_TRUE(HasAccess(0, at));
        EXPECT_FALSE(HasAccess(1, at));
        EXPECT_TRUE(HasAccess(2, at));
    }
    pool.Free(block);
}

TEST_F(Peers, AreNamedByTheEnvironment)
{
    setenv("BINADE_CONF", "mapped:1,peers:1+2", 1);
    binade_pool *pool = nullptr;
    ASSERT_EQ(BINADE_OK, binade_pool_create(nullptr, &pool)) << Message();
    binade_devptr block = 0;
    ASSERT_EQ(BINADE_OK,
              binade_alloc(pool, kMiB, BINADE_STREAM_LEGACY, &block));
    EXPECT_TRUE(HasAccess(1, block));
    EXPECT_TRUE(HasAccess(2, block));
    EXPECT_EQ(BINADE_OK, binade_pool_destroy(pool, nullptr));
}

TEST_F(Peers, AreAddedToWhatIsThereAndWhatComes)
{
    Pool pool(Mapped());
    binade_devptr before = pool.Alloc(8 * kMiB);
    EXPECT_EQ(BINADE_OK, binade_pool_add_peer(pool, 1)) << Message();
    EXPECT_EQ(BINADE_OK, binade_pool_add_peer(pool, 1)) << "again";
    binade_devptr behind = pool.Alloc(8 * kMiB);
    for (binade_devptr block : {before, behind}) {
        EXPECT_TRUE(HasAccess(0, block));
        EXPECT_TRUE(HasAccess(1, block));
        EXPECT_FALSE(HasAccess(2, block));
        pool.Free(block);
    }
}

TEST_F(Peers, FollowPiecesThatMove)
{
    Pool pool(Mapped(1 << 1));
    binade_devptr first = pool.Alloc(8 * kMiB);
    binade_devptr keeper = pool.Alloc(2 * kMiB);
    pool.Free(first, BINADE_STREAM_DONE);
    binade_devptr block = pool.Alloc(12 * kMiB);
    EXPECT_EQ(1u, pool.Stats().mapped_moves);
    EXPECT_TRUE(HasAccess(1, block));
    EXPECT_TRUE(HasAccess(1, block + 12 * kMiB - 1));
    pool.Free(block);
    pool.Free(keeper);
}

// A set and a copy by device 1's own context, with access and without.
TEST_F(Peers, UseTheMemoryThemselves)
{
    binade_context own = pool_test::Current();
    CUcontext other = nullptr;
    ASSERT_EQ(CUDA_SUCCESS, (pool_test::Get<CUresult(CUcontext *, CUdevice)>(
                                "cuDevicePrimaryCtxRetain")(&other, 1)));
    Pool pool(Mapped());
    binade_devptr block = pool.Alloc(100 * kMiB);
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
    EXPECT_EQ(BINADE_OK, binade_pool_add_peer(pool, 1)) << Message();
    EXPECT_EQ(CUDA_SUCCESS, set());
    EXPECT_EQ(CUDA_SUCCESS, copy());
    EXPECT_EQ(CUDA_SUCCESS, (pool_test::Get<CUresult()>("cuCtxSynchronize")()));
    {
        binade_pool_options options = Mapped(1 << 0);
        options.context = other;
        Pool there(options);
        binade_devptr block_there = there.Alloc(2 * kMiB);
        binade_segment_info info = {};
        info.struct_size = sizeof(info);
        EXPECT_EQ(BINADE_OK, binade_segment_find(there, block_there, &info));
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
              RefusedBy(Mapped(1 << 1 | 1 << 3), BINADE_E_INVALID));
    EXPECT_EQ("device 0 is the pool's own, and no peer",
              RefusedBy(Mapped(1), BINADE_E_INVALID));
    Pool pool(Mapped());
    for (int32_t device : {-1, 64}) {
        EXPECT_EQ(BINADE_E_INVALID, binade_pool_add_peer(pool, device));
        EXPECT_EQ("binade_pool_add_peer: device " + std::to_string(device) +
                      "; accepted are ordinals from 0 to 63",
                  Message());
    }
    EXPECT_EQ(BINADE_E_INVALID, binade_pool_add_peer(pool, 63));
    EXPECT_EQ(BINADE_E_INVALID, binade_pool_add_peer(pool, 0));
    EXPECT_EQ(BINADE_E_INVALID, binade_pool_add_peer(nullptr, 1));
}

TEST_F(Peers, AreOfMappedMemoryAlone)
{
    const std::string refusal =
        "peers are named; accepted is none where mapped "
        "is 0 or pass_through is 1";
    binade_pool_options options = Mapped(1 << 1);
    options.flags |= BINADE_POOL_PASS_THROUGH;
    EXPECT_EQ(refusal, RefusedBy(options, BINADE_E_INVALID));
    options.flags = 0;
    EXPECT_EQ(refusal, RefusedBy(options, BINADE_E_INVALID));
    for (uint32_t flags :
         {UINT32_C(0), BINADE_POOL_MAPPED | BINADE_POOL_PASS_THROUGH}) {
        options = Mapped();
        options.flags = flags;
        Pool pool(options);
        EXPECT_EQ(BINADE_E_UNSUPPORTED, binade_pool_add_peer(pool, 1));
        EXPECT_EQ("peers are of a pool that is mapped and does not pass all "
                  "through",
                  Message());
    }
}

// A pool that prefers mapped memory and gets none has no peers.
TEST_F(Peers, AreOfMemoryThatIsPreferred)
{
    binade_pool_options options = Mapped(1 << 1);
    options.flags = BINADE_POOL_PREFER_MAPPED;
    {
        Pool pool(options);
        binade_devptr block = pool.Alloc(2 * kMiB);
        EXPECT_TRUE(HasAccess(1, block));
        pool.Free(block);
    }
    options.flags |= BINADE_POOL_EXPORTABLE;
    EXPECT_EQ("the pool's memory is not mapped, so that it can have no peers",
              RefusedBy(options, BINADE_E_UNSUPPORTED));
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
            std::vector<binade_devptr> blocks = {pool.Alloc(2 * kMiB),
                                                 pool.Alloc(100 * kMiB)};
            pool_test::SetFaults(std::string(entry) +
                                 ":nth=" + std::to_string(n) +
                                 ":code=CUDA_ERROR_UNKNOWN");
            binade_status status = binade_pool_add_peer(pool, 1);
            pool_test::SetFaults("");
            failed_count += status != BINADE_OK;
            for (binade_devptr block : blocks)
                EXPECT_EQ(status == BINADE_OK, HasAccess(1, block));
            EXPECT_EQ(BINADE_OK, binade_pool_add_peer(pool, 1)) << Message();
            for (binade_devptr block : blocks) {
                EXPECT_TRUE(HasAccess(1, block));
                pool.Free(block);
            }
        }
    }
    EXPECT_LE(7u, failed_count);
    inventory.ExpectUnchanged();
}

TEST(PeersApart, AreRefused)
{
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            setenv("BINADE_STANDIN_DEVICES", "2", 1);
            setenv("BINADE_STANDIN_PEERS", "0", 1);
            pool_test::UseStandin();
            std::string message =
                RefusedBy(Mapped(1 << 1), BINADE_E_UNSUPPORTED);
            std::exit(message == "device 1 cannot access the memory of device 0"
                          ? 0
                          : 1);
        },
        ::testing::ExitedWithCode(0), "");
}

} // namespace
