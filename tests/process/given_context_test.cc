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

#include "moiety/host.h"
#include "moiety/ipc.h"
#include "tests/pool/pool_under_test.h"

namespace
{

using namespace pool_test;

struct Taker {
    const char *name;
    std::function<moiety_status(moiety_context)> take;
};

moiety_status CreatePool(moiety_context context, uint64_t limit_bytes)
{
    moiety_pool_options options = Defaults();
    moiety_pool *pool = nullptr;
    options.context = context;
    // With a limit nothing else needs the context before the first allocation.
    options.limit_bytes = limit_bytes;
    moiety_status status = moiety_pool_create(&options, &pool);
    EXPECT_EQ(status == MOIETY_OK, pool != nullptr);
    EXPECT_OK(moiety_pool_destroy(pool, nullptr));
    return status;
}

moiety_status CreateArena(moiety_context context)
{
    moiety_host_options options = MOIETY_HOST_OPTIONS_INIT;
    moiety_host *host = nullptr;
    options.context = context;
    options.limit_bytes = 8 * kMiB;
    moiety_status status = moiety_host_create(&options, &host);
    EXPECT_EQ(status == MOIETY_OK, host != nullptr);
    EXPECT_OK(moiety_host_destroy(host, nullptr));
    return status;
}

class GivenContext : public StandinTest
{
  protected:
    void SetUp() override
    {
        moiety_pool_options options = Defaults();
        options.flags = MOIETY_POOL_EXPORTABLE;
        pool_.reset(new Pool(options));
        block_ = pool_->Alloc(4096);
        ASSERT_OK(moiety_ipc_export(*pool_, block_, &handle_));
        contexts_ = pool_test::Live("contexts");
    }

    void TearDown() override
    {
        EXPECT_EQ(contexts_, pool_test::Live("contexts"));
        ASSERT_OK(moiety_ipc_release_exports(*pool_, block_));
        pool_->Free(block_);
    }

    std::vector<Taker> Takers()
    {
        return {
            {"pool", [](moiety_context c) { return CreatePool(c, 0); }},
            {"limited pool",
             [](moiety_context c) { return CreatePool(c, 8 * kMiB); }},
            {"arena", CreateArena},
            {"further context",
             [this](moiety_context c) {
                 return moiety_pool_add_context(*pool_, c);
             }},
            {"import",
             [this](moiety_context c) {
                 moiety_devptr address = 77;
                 moiety_status status =
                     moiety_ipc_import(&handle_, sizeof(handle_), c, &address);
                 EXPECT_EQ(77u, address);
                 return status;
             }},
        };
    }

    void ExpectRefused(moiety_context context, moiety_status status,
                       const char *words)
    {
        for (const Taker &taker : Takers()) {
            EXPECT_EQ(status, taker.take(context)) << taker.name;
            EXPECT_NE(std::string::npos,
                      std::string(moiety_last_error_message()).find(words))
                << taker.name << ": " << moiety_last_error_message();
        }
    }

    std::unique_ptr<Pool> pool_;
    moiety_devptr block_ = 0;
    moiety_ipc_handle handle_ = {};
    int64_t contexts_ = 0;
};

TEST_F(GivenContext, ThatWasDestroyedIsRefused)
{
    moiety_context context = pool_test::NewContext();
    pool_test::DestroyContext(context);
    ExpectRefused(context, MOIETY_E_CONTEXT_DESTROYED, "was destroyed");
}

TEST_F(GivenContext, ThatIsOtherMemoryIsRefused)
{
    alignas(64) static char memory[4096];
    pool_test::Stream stream;
    for (void *other :
         {static_cast<void *>(memory), static_cast<void *>(memory + 3),
          static_cast<void *>(moiety_stream(stream))})
        ExpectRefused(static_cast<moiety_context>(other),
                      MOIETY_E_CONTEXT_DESTROYED, "or is none");
}

TEST_F(GivenContext, AtWhichNothingIsMappedIsNotPassedOn)
{
    uint64_t ids = pool_test::Calls("cuCtxGetId");
    uint64_t versions = pool_test::Calls("cuCtxGetApiVersion");
    for (uintptr_t address : {uintptr_t{1}, uintptr_t{4095}, uintptr_t{4096},
                              uintptr_t{0xdeadbeefdeadbeef}, ~uintptr_t{0}})
        for (const Taker &taker : Takers())
            EXPECT_EQ(MOIETY_E_INVALID,
                      taker.take(reinterpret_cast<moiety_context>(address)))
                << taker.name << ", 0x" << std::hex << address;
    EXPECT_EQ(ids, pool_test::Calls("cuCtxGetId"));
    EXPECT_EQ(versions, pool_test::Calls("cuCtxGetApiVersion"));
}

TEST_F(GivenContext, ThatLivesIsTaken)
{
    moiety_context context = pool_test::NewContext();
    EXPECT_OK(CreatePool(context, 0));
    EXPECT_OK(CreatePool(context, 8 * kMiB));
    EXPECT_OK(CreateArena(context));
    {
        Pool pool;
        EXPECT_OK(moiety_pool_add_context(pool, context));
    }
    pool_test::DestroyContext(context);
}

} // namespace
