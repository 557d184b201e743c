// SPDX-License-Identifier: Apache-2.0
//
// The ways to allocate, together: which of them go with each other, and that each
// does what it says beside the others.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

class AllocWith : public StandinTest
{
  protected:
    AllocWith()
    {
        EXPECT_OK(create_tenant(pool_, "t", kMiB, &tenant_));
        EXPECT_OK(create_arena(pool_, 0, &arena_));
    }
    ~AllocWith() override
    {
        EXPECT_OK(moiety_tenant_destroy(tenant_));
        EXPECT_OK(moiety_private_destroy(arena_));
    }

    static moiety_alloc_options Options(uint32_t flags = 0)
    {
        moiety_alloc_options options = MOIETY_ALLOC_OPTIONS_INIT;
        options.flags = flags;
        return options;
    }

    // 0 after a failure that was not expected.
    moiety_devptr Take(size_t size_bytes, const moiety_alloc_options &options)
    {
        moiety_devptr block = 0;
        EXPECT_OK(
            moiety_alloc_with(pool_, size_bytes, kStream, &options, &block));
        return block;
    }

    // What is said; nothing is written, and nothing taken.
    std::string Refusal(const moiety_alloc_options &options,
                        moiety_pool *pool = nullptr,
                        moiety_stream stream = kStream)
    {
        moiety_devptr block = 77;
        const uint64_t live = pool_.Stats().allocated_bytes_current;
        EXPECT_EQ(MOIETY_E_INVALID,
                  moiety_alloc_with(pool ? pool : pool_, 512, stream, &options,
                                    &block));
        EXPECT_EQ(77u, block);
        EXPECT_EQ(live, pool_.Stats().allocated_bytes_current);
        return moiety_last_error_message();
    }

    uint64_t TenantsBytes() const
    {
        moiety_tenant_stats info = {};
        info.struct_size = sizeof(info);
        EXPECT_OK(moiety_tenant_get_stats(tenant_, &info));
        return info.live_bytes;
    }
    uint64_t ArenasBytes() const
    {
        moiety_private_stats info = {};
        info.struct_size = sizeof(info);
        EXPECT_OK(moiety_private_get_stats(arena_, &info));
        return info.live_bytes;
    }

    Pool pool_;
    moiety_tenant tenant_ = 0;
    moiety_private arena_ = 0;
};

TEST_F(AllocWith, NoOptionsIsAsWithout)
{
    moiety_devptr block = 0;
    EXPECT_OK(moiety_alloc_with(pool_, 700, kStream, nullptr, &block));
    EXPECT_EQ(1024u, pool_.UsableSize(block));
    pool_.Free(block);
    pool_.Free(Take(700, Options()));
    EXPECT_OK(moiety_alloc_with(pool_, 0, kStream, nullptr, &block));
    EXPECT_EQ(0u, block);
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_alloc_with(pool_, 1, kStream, nullptr, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_alloc_with(nullptr, 1, kStream, nullptr, &block));
}

// All that goes with each other at once.
TEST_F(AllocWith, ATenantGetsZeroesWithAnAlignmentAndWithoutWaiting)
{
    moiety_devptr dirty = pool_.Alloc(256 * kKiB);
    pool_test::Fill(dirty, 256 * kKiB, 0xd1d1d1d1);
    pool_.Free(dirty);
    moiety_alloc_options options =
        Options(MOIETY_ALLOC_ZEROED | MOIETY_ALLOC_NO_WAIT);
    options.alignment_bytes = 64 * kKiB;
    options.tenant = tenant_;
    moiety_devptr block = Take(96 * kKiB, options);
    EXPECT_EQ(0u, block % (64 * kKiB));
    EXPECT_TRUE(pool_test::Holds(block, 96 * kKiB, 0));
    EXPECT_EQ(pool_.UsableSize(block), TenantsBytes());
    pool_.Free(block);
    EXPECT_EQ(0u, TenantsBytes());
}

TEST_F(AllocWith, AnArenaGivesZeroesWithoutWaiting)
{
    moiety_alloc_options options = Options();
    options.private_arena = arena_;
    moiety_devptr block = Take(kMiB, options);
    pool_test::Fill(block, kMiB, 0xd1d1d1d1);
    EXPECT_EQ(kMiB, ArenasBytes());
    pool_.Free(block);
    options.flags = MOIETY_ALLOC_ZEROED | MOIETY_ALLOC_NO_WAIT;
    options.alignment_bytes = 512;
    EXPECT_EQ(block, Take(kMiB, options));
    EXPECT_TRUE(pool_test::Holds(block, kMiB, 0));
    pool_.Free(block);
    EXPECT_EQ(0u, ArenasBytes());
}

TEST_F(AllocWith, AnArenaDoesNotWaitWhereItIsToldNotTo)
{
    moiety_private small = 0;
    ASSERT_EQ(MOIETY_OK, create_arena(pool_, 2 * kMiB, &small));
    Stream stream;
    moiety_alloc_options options = Options();
    options.private_arena = small;
    moiety_devptr block = 0, other = 0;
    ASSERT_OK(moiety_alloc_with(pool_, 2 * kMiB, stream, &options, &block));
    options.flags = MOIETY_ALLOC_NO_WAIT;
    EXPECT_EQ(MOIETY_E_BUDGET,
              moiety_alloc_with(pool_, 512, kStream, &options, &other));
    stream.Hold();
    pool_.Free(block, stream);
    EXPECT_EQ(MOIETY_E_WOULD_BLOCK,
              moiety_alloc_with(pool_, 512, kStream, &options, &other));
    stream.Release();
    pool_test::Synchronize();
    EXPECT_OK(moiety_alloc_with(pool_, 512, kStream, &options, &other));
    pool_.Free(other);
    EXPECT_OK(moiety_pool_retire_stream(pool_, stream));
    EXPECT_OK(moiety_private_destroy(small));
}

TEST_F(AllocWith, ThePoolMayBeLeftOutWhereSomethingElseNamesIt)
{
    moiety_alloc_options options = Options(MOIETY_ALLOC_ZEROED);
    moiety_devptr block = 0;
    options.tenant = tenant_;
    ASSERT_OK(moiety_alloc_with(nullptr, 4096, kStream, &options, &block));
    EXPECT_TRUE(pool_test::Holds(block, 4096, 0));
    pool_.Free(block);
    options.tenant = nullptr;
    options.private_arena = arena_;
    ASSERT_OK(moiety_alloc_with(nullptr, 4096, kStream, &options, &block));
    EXPECT_TRUE(pool_test::Holds(block, 4096, 0));
    pool_.Free(block);
    options.private_arena = nullptr;
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_alloc_with(nullptr, 4096, kStream, &options, &block));
    options.tenant = reinterpret_cast<moiety_tenant>(12345);
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_alloc_with(nullptr, 4096, kStream, &options, &block));
}

TEST_F(AllocWith, WhatIsZeroedInVainIsNotTaken)
{
    moiety_alloc_options options = Options(MOIETY_ALLOC_ZEROED);
    options.tenant = tenant_;
    moiety_devptr block = 77;
    pool_test::SetFaults("cuMemsetD8Async:nth=1:code=CUDA_ERROR_UNKNOWN");
    EXPECT_EQ(MOIETY_E_DRIVER,
              moiety_alloc_with(pool_, 4096, kStream, &options, &block));
    pool_test::SetFaults("");
    EXPECT_EQ(77u, block);
    EXPECT_EQ(0u, TenantsBytes());
}

TEST_F(AllocWith, FieldsAreNamedThatAreOutOfRange)
{
    moiety_alloc_options options = Options();
    options.struct_size = 8;
    EXPECT_EQ("option struct_size is 8; accepted are 32 to 4096",
              Refusal(options));
    options.struct_size = UINT32_MAX;
    EXPECT_EQ("option struct_size is 4294967295; accepted are 32 to 4096",
              Refusal(options));
    EXPECT_EQ("option flags is 0x8; accepted are the bits of 0x7",
              Refusal(Options(8)));
    options = Options();
    for (size_t alignment : {size_t{3}, size_t{4} * kMiB}) {
        options.alignment_bytes = alignment;
        EXPECT_EQ("option alignment_bytes is " + std::to_string(alignment) +
                      "; accepted are 0 and powers of two up to 2 MiB",
                  Refusal(options));
    }
}

TEST_F(AllocWith, FieldsOfALaterVersionMayBeZero)
{
    struct {
        moiety_alloc_options known = MOIETY_ALLOC_OPTIONS_INIT;
        uint64_t later[2] = {};
    } given;
    given.known.struct_size = sizeof(given);
    pool_.Free(Take(512, given.known));
    given.known.flags = MOIETY_ALLOC_NO_CALL;
    pool_.Free(Take(512, given.known));
    given.later[1] = 1;
    EXPECT_EQ("an option that this library does not know is set: byte 40",
              Refusal(given.known));
}

TEST_F(AllocWith, FieldsThatExcludeEachOtherAreNamed)
{
    moiety_alloc_options options = Options();
    options.tenant = tenant_;
    options.private_arena = arena_;
    EXPECT_NE(std::string::npos,
              Refusal(options).find("options tenant and private_arena"));
    options.tenant = nullptr;
    options.alignment_bytes = 1024;
    EXPECT_EQ("option alignment_bytes is 1024; accepted is 512 at most where "
              "private_arena is set",
              Refusal(options));
    for (moiety_stream stream : {MOIETY_STREAM_ANY, MOIETY_STREAM_DONE})
        EXPECT_NE(std::string::npos,
                  Refusal(Options(MOIETY_ALLOC_ZEROED), nullptr, stream)
                      .find("option flags has MOIETY_ALLOC_ZEROED"));
}

TEST_F(AllocWith, WhatCallsNobodyDoesNothingElse)
{
    const uint32_t flags = MOIETY_ALLOC_NO_CALL;
    const std::string behind = ", which does not go with MOIETY_ALLOC_NO_CALL";
    EXPECT_EQ("option flags has MOIETY_ALLOC_ZEROED" + behind,
              Refusal(Options(flags | MOIETY_ALLOC_ZEROED)));
    moiety_alloc_options options = Options(flags);
    options.alignment_bytes = 4096;
    EXPECT_EQ("option alignment_bytes is above 512" + behind, Refusal(options));
    options = Options(flags);
    options.tenant = tenant_;
    EXPECT_EQ("option tenant is set" + behind, Refusal(options));
    options = Options(flags);
    options.private_arena = arena_;
    EXPECT_EQ("option private_arena is set" + behind, Refusal(options));
    pool_.Free(pool_.Alloc(512));
    pool_.Free(Take(512, Options(flags | MOIETY_ALLOC_NO_WAIT)));
}

TEST_F(AllocWith, TenantsAndArenasAreOfThePool)
{
    Pool other;
    moiety_alloc_options options = Options();
    options.tenant = tenant_;
    EXPECT_EQ("option tenant is one of another pool", Refusal(options, other));
    options.tenant = nullptr;
    options.private_arena = arena_;
    EXPECT_EQ("option private_arena is one of another pool",
              Refusal(options, other));
    options.private_arena = reinterpret_cast<moiety_private>(12345);
    EXPECT_NE("", Refusal(options));
    EXPECT_EQ(0u, TenantsBytes());
    EXPECT_EQ(0u, ArenasBytes());
}

} // namespace
