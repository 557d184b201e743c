// SPDX-License-Identifier: Apache-2.0
//
// The end of a host arena: who may end it, and what its handles are good for
// afterwards.
#include "tests/host/arena_under_test.h"

#include <cstring>
#include <functional>
#include <utility>

#include "tests/pool/pool_under_test.h"

namespace host_test
{
namespace
{

using pool_test::kMiB;

class ArenaEnd : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }
};

// The memory of an arena that is gone is nobody's to look at: under a sanitizer
// of addresses, a look is an error.
TEST_F(ArenaEnd, IsRecognisedByEveryCallAfterItsEnd)
{
    binade_host *host = nullptr;
    void *block = nullptr;
    char text[64] = "";
    uint64_t bytes = 0;
    binade_devptr device = 0;
    binade_host_stats stats = {};
    stats.struct_size = sizeof(stats);
    binade_leaks leaks = {};
    leaks.struct_size = sizeof(leaks);
    ASSERT_EQ(BINADE_OK, binade_host_create(nullptr, &host));
    ASSERT_EQ(BINADE_OK,
              binade_host_alloc(host, 5000, BINADE_HOST_CPU, &block));
    void *const was = block;
    ASSERT_EQ(BINADE_OK, binade_host_destroy(host, nullptr));
    const std::pair<const char *, std::function<binade_status()>> calls[] = {
        {"alloc",
         [&] {
             return binade_host_alloc(host, 5000, BINADE_HOST_CPU, &block);
         }},
        {"alloc of nothing",
         [&] { return binade_host_alloc(host, 0, BINADE_HOST_CPU, &block); }},
        {"try_alloc",
         [&] {
             return binade_host_try_alloc(host, 5000, BINADE_STREAM_LEGACY,
                                          &block);
         }},
        {"free",
         [&] { return binade_host_free(host, was, BINADE_STREAM_DONE); }},
        {"free_sized",
         [&] {
             return binade_host_free_sized(host, was, 5000, BINADE_STREAM_DONE);
         }},
        {"device_address",
         [&] { return binade_host_device_address(host, was, &device); }},
        {"reserve",
         [&] { return binade_host_reserve(host, 1, 0, nullptr, nullptr); }},
        {"trim", [&] { return binade_host_trim(host, 0, &bytes); }},
        {"stats_get", [&] { return binade_host_stats_get(host, &stats); }},
        {"report",
         [&] { return binade_host_report(host, text, sizeof(text)); }},
        {"destroy", [&] { return binade_host_destroy(host, &leaks); }},
        {"pool_stats",
         [&] {
             binade_stats of_pool = {};
             of_pool.struct_size = sizeof(of_pool);
             return binade_pool_stats(binade_host_pool(host), &of_pool);
         }},
        {"pool_destroy",
         [&] { return binade_pool_destroy(binade_host_pool(host), nullptr); }},
    };
    for (int round = 0; round < 2; round++) {
        for (const auto &call : calls) {
            EXPECT_EQ(BINADE_E_INVALID, call.second()) << call.first;
            EXPECT_NE(nullptr,
                      strstr(binade_last_error_message(), "was destroyed"))
                << call.first << ": " << binade_last_error_message();
        }
    }
    EXPECT_EQ(was, block);
    EXPECT_STREQ("", text);
    EXPECT_EQ(0u, leaks.block_count);
}

TEST_F(ArenaEnd, LivesOnWhenItsPoolIsToBeDestroyed)
{
    Arena arena;
    void *block = arena.Alloc(5000);
    memset(block, 0x5a, 5000);
    binade_leaks leaks = {};
    leaks.struct_size = sizeof(leaks);
    for (int round = 0; round < 2; round++) {
        EXPECT_EQ(BINADE_E_INVALID,
                  binade_pool_destroy(binade_host_pool(arena), &leaks));
        EXPECT_NE(nullptr,
                  strstr(binade_last_error_message(), "binade_host_destroy()"));
    }
    EXPECT_EQ(0u, leaks.block_count);
    EXPECT_EQ(0x5a, static_cast<const char *>(block)[4999]);
    arena.Free(arena.Alloc(3 * kMiB));
    arena.Free(block);
}

} // namespace
} // namespace host_test
