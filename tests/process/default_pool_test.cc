// SPDX-License-Identifier: Apache-2.0
//
// moiety_default_pool(): one pool of each device for all of the process.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/pool/pool_under_test.h"

namespace
{

using pool_test::kMiB;

class DefaultPool : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        setenv("MOIETY_STANDIN_DEVICES", "2", 1);
        pool_test::UseStandin();
    }
    ~DefaultPool() override
    {
        pool_test::SetFaults("");
        unsetenv("MOIETY_CONF");
        EXPECT_OK(moiety_set_log(0, nullptr, nullptr));
    }

    static moiety_pool *Of(int32_t device)
    {
        moiety_pool *pool = nullptr;
        EXPECT_OK(moiety_default_pool(device, &pool)) << Message();
        return pool;
    }

    // The device's next pool is a new one.
    static void Lose(int32_t device)
    {
        EXPECT_OK(moiety_pool_context_lost(Of(device)));
    }

    static std::string Message()
    {
        return moiety_last_error_message();
    }
};

moiety_pool_options OptionsOf(moiety_pool *pool)
{
    moiety_pool_options options = {};
    options.struct_size = sizeof(options);
    EXPECT_OK(moiety_pool_get_options(pool, &options));
    return options;
}

void ExpectToServe(moiety_pool *pool)
{
    moiety_devptr block = 0;
    EXPECT_OK(moiety_alloc(pool, kMiB, MOIETY_STREAM_ANY, &block));
    EXPECT_NE(0u, block);
    EXPECT_OK(moiety_free(pool, block, MOIETY_STREAM_ANY));
}

TEST_F(DefaultPool, IsOneForEachDevice)
{
    moiety_pool *first = Of(0), *second = Of(1);
    EXPECT_NE(first, second);
    EXPECT_EQ(first, Of(0));
    EXPECT_EQ(second, Of(1));
    EXPECT_EQ(0, OptionsOf(first).device);
    EXPECT_EQ(1, OptionsOf(second).device);
    ExpectToServe(first);
    ExpectToServe(second);
}

TEST_F(DefaultPool, IsOneForThreadsThatComeAtOnce)
{
    for (int round = 0; round < 20; round++) {
        Lose(0);
        std::vector<moiety_pool *> found(8);
        std::vector<std::thread> threads;
        for (moiety_pool *&pool : found)
            threads.emplace_back([&pool] { pool = Of(0); });
        for (std::thread &thread : threads)
            thread.join();
        std::set<moiety_pool *> pools(found.begin(), found.end());
        EXPECT_EQ(1u, pools.size());
        ExpectToServe(found[0]);
    }
}

TEST_F(DefaultPool, IsNobodysToDestroy)
{
    moiety_pool *pool = Of(0);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_destroy(pool, nullptr));
    EXPECT_EQ("the pool is the process's, of moiety_default_pool(): nobody "
              "destroys it",
              Message());
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_destroy_later(pool));
    EXPECT_EQ(pool, Of(0));
    ExpectToServe(pool);
}

TEST_F(DefaultPool, GoesByTheEnvironmentWhenItIsMade)
{
    Lose(0);
    setenv("MOIETY_CONF", "wait_ms:7,memory:driver", 1);
    EXPECT_EQ(7u, OptionsOf(Of(0)).wait_ms);
    EXPECT_EQ(MOIETY_MEMORY_DRIVER, OptionsOf(Of(0)).memory);
    setenv("MOIETY_CONF", "wait_ms:8", 1);
    EXPECT_EQ(7u, OptionsOf(Of(0)).wait_ms);
}

TEST_F(DefaultPool, IsReplacedOnceItsContextIsLost)
{
    moiety_pool *lost = Of(0);
    moiety_devptr block = 0;
    ASSERT_OK(moiety_alloc(lost, kMiB, MOIETY_STREAM_ANY, &block));
    Lose(0);
    moiety_pool *fresh = Of(0);
    EXPECT_NE(lost, fresh);
    ExpectToServe(fresh);
    // The old handle is good for late frees, and for nothing else.
    EXPECT_OK(moiety_free(lost, block, MOIETY_STREAM_ANY));
    EXPECT_EQ(MOIETY_E_CONTEXT_DESTROYED,
              moiety_alloc(lost, kMiB, MOIETY_STREAM_ANY, &block));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_destroy(lost, nullptr));
}

TEST_F(DefaultPool, ThatCannotBeMadeIsTriedAgain)
{
    Lose(0);
    moiety_pool *pool = nullptr;
    setenv("MOIETY_CONF", "no_such_key:1", 1);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_default_pool(0, &pool));
    EXPECT_NE(std::string::npos, Message().find("no_such_key"));
    unsetenv("MOIETY_CONF");
    pool_test::SetFaults("cuDevicePrimaryCtxRetain:nth=1:code="
                         "CUDA_ERROR_OUT_OF_MEMORY");
    EXPECT_NE(MOIETY_OK, moiety_default_pool(0, &pool));
    EXPECT_EQ(nullptr, pool);
    pool_test::SetFaults("");
    ExpectToServe(Of(0));
}

TEST_F(DefaultPool, IsOfADeviceThatIsThere)
{
    moiety_pool *pool = nullptr;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_default_pool(0, nullptr));
    for (int32_t device : {-1, 64, INT32_MAX, INT32_MIN}) {
        EXPECT_EQ(MOIETY_E_INVALID, moiety_default_pool(device, &pool));
        EXPECT_NE(std::string::npos,
                  Message().find("device is " + std::to_string(device) +
                                 "; accepted are 0 to 63"))
            << Message();
    }
    EXPECT_NE(MOIETY_OK, moiety_default_pool(63, &pool));
    EXPECT_NE(std::string::npos, Message().find("device 63"));
    EXPECT_EQ(nullptr, pool);
}

// A function that asks for the very pool whose making it is told of.
void AskInside(uint32_t, const char *, void *user)
{
    moiety_pool *pool = nullptr;
    static_cast<std::vector<moiety_status> *>(user)->push_back(
        moiety_default_pool(0, &pool));
}

TEST_F(DefaultPool, IsNotToBeHadWhileThisThreadMakesIt)
{
    std::vector<moiety_status> answers;
    Lose(0);
    ASSERT_OK(moiety_set_log(MOIETY_LOG_INFO, AskInside, &answers));
    // It has the driver's memory then, and says so.
    pool_test::SetFaults("cuMemGetAllocationGranularity:every=1:code="
                         "CUDA_ERROR_NOT_SUPPORTED");
    moiety_pool *pool = Of(0);
    pool_test::SetFaults("");
    ASSERT_LE(1u, answers.size());
    EXPECT_EQ(MOIETY_E_REENTRANT, answers[0]);
    EXPECT_EQ(pool, Of(0));
}

} // namespace
