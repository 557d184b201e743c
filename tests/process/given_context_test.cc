// SPDX-License-Identifier: Apache-2.0
//
// Contexts that the program names and that are none, or none any more: every
// function that takes one refuses them, and no driver is given an address at
// which nothing is mapped, where it would crash.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "binade/host.h"
#include "binade/ipc.h"
#include "tests/pool/pool_under_test.h"

namespace
{

using pool_test::Defaults;
using pool_test::kMiB;
using pool_test::Pool;

struct Taker {
    const char *name;
    std::function<binade_status(binade_context)> take;
};

binade_status CreatePool(binade_context context, uint64_t limit_bytes)
{
    binade_pool_options options = Defaults();
    binade_pool *pool = nullptr;
    options.context = context;
    // With a limit nothing else needs the context before the first allocation.
    options.limit_bytes = limit_bytes;
    binade_status status = binade_pool_create(&options, &pool);
    EXPECT_EQ(status == BINADE_OK, pool != nullptr);
    EXPECT_EQ(BINADE_OK, binade_pool_destroy(pool, nullptr));
    return status;
}

binade_status CreateArena(binade_context context)
{
    binade_host_options options = BINADE_HOST_OPTIONS_INIT;
    binade_host *host = nullptr;
    options.context = context;
    options.limit_bytes = 8 * kMiB;
    binade_status status = binade_host_create(&options, &host);
    EXPECT_EQ(status == BINADE_OK, host != nullptr);
    EXPECT_EQ(BINADE_OK, binade_host_destroy(host, nullptr));
    return status;
}

class GivenContext : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }

    void SetUp() override
    {
        binade_pool_options options = Defaults();
        options.flags = BINADE_POOL_EXPORTABLE;
        pool_.reset(new Pool(options));
        block_ = pool_->Alloc(4096);
        ASSERT_EQ(BINADE_OK, binade_ipc_export(*pool_, block_, &handle_));
        contexts_ = pool_test::Live("contexts");
    }

    void TearDown() override
    {
        EXPECT_EQ(contexts_, pool_test::Live("contexts"));
        ASSERT_EQ(BINADE_OK, binade_ipc_release_exports(*pool_, block_));
        pool_->Free(block_);
    }

    std::vector<Taker> Takers()
    {
        return {
            {"pool", [](binade_context c) { return CreatePool(c, 0); }},
            {"limited pool",
             [](binade_context c) { return CreatePool(c, 8 * kMiB); }},
            {"arena", CreateArena},
            {"further context",
             [this](binade_context c) {
                 return binade_pool_add_context(*pool_, c);
             }},
            {"import",
             [this](binade_context c) {
                 binade_devptr address = 77;
                 binade_status status =
                     binade_ipc_import(&handle_, sizeof(handle_), c, &address);
                 EXPECT_EQ(77u, address);
                 return status;
             }},
        };
    }

    void ExpectRefused(binade_context context, binade_status status,
                       const char *words)
    {
        for (const Taker &taker : Takers()) {
            EXPECT_EQ(status, taker.take(context)) << taker.name;
            EXPECT_NE(std::string::npos,
                      std::string(binade_last_error_message()).find(words))
                << taker.name << ": " << binade_last_error_message();
        }
    }

    std::unique_ptr<Pool> pool_;
    binade_devptr block_ = 0;
    binade_ipc_handle handle_ = {};
    int64_t contexts_ = 0;
};

TEST_F(GivenContext, ThatWasDestroyedIsRefused)
{
    binade_context context = pool_test::NewContext();
    pool_test::DestroyContext(context);
    ExpectRefused(context, BINADE_E_CONTEXT_DESTROYED, "was destroyed");
}

TEST_F(GivenContext, ThatIsOtherMemoryIsRefused)
{
    alignas(64) static char memory[4096];
    pool_test::Stream stream;
    for (void *other :
         {static_cast<void *>(memory), static_cast<void *>(memory + 3),
          static_cast<void *>(binade_stream(stream))})
        ExpectRefused(static_cast<binade_context>(other),
                      BINADE_E_CONTEXT_DESTROYED, "or is none");
}

TEST_F(GivenContext, AtWhichNothingIsMappedIsNotPassedOn)
{
    uint64_t ids = pool_test::Calls("cuCtxGetId");
    uint64_t versions = pool_test::Calls("cuCtxGetApiVersion");
    for (uintptr_t address : {uintptr_t{1}, uintptr_t{4095}, uintptr_t{4096},
                              uintptr_t{0xdeadbeefdeadbeef}, ~uintptr_t{0}})
        for (const Taker &taker : Takers())
            EXPECT_EQ(BINADE_E_INVALID,
                      taker.take(reinterpret_cast<binade_context>(address)))
                << taker.name << ", 0x" << std::hex << address;
    EXPECT_EQ(ids, pool_test::Calls("cuCtxGetId"));
    EXPECT_EQ(versions, pool_test::Calls("cuCtxGetApiVersion"));
}

TEST_F(GivenContext, ThatLivesIsTaken)
{
    binade_context context = pool_test::NewContext();
    EXPECT_EQ(BINADE_OK, CreatePool(context, 0));
    EXPECT_EQ(BINADE_OK, CreatePool(context, 8 * kMiB));
    EXPECT_EQ(BINADE_OK, CreateArena(context));
    {
        Pool pool;
        EXPECT_EQ(BINADE_OK, binade_pool_add_context(pool, context));
    }
    pool_test::DestroyContext(context);
}

} // namespace
