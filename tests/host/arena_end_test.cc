// SPDX-License-Identifier: Apache-2.0
//
// The end of a host arena: who may end it, and what its handles are good for
// afterwards.
#include "tests/host/arena_under_test.h"

#include <cstring>
#include <functional>
#include <utility>

#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace host_test
{
namespace
{

using pool_test::kMiB;

using ArenaEnd = pool_test::StandinTest;

// The memory of an arena that is gone is nobody's to look at: under a sanitizer
// of addresses, a look is an error.
TEST_F(ArenaEnd, IsRecognisedByEveryCallAfterItsEnd)
{
    moiety_host *host = nullptr;
    void *block = nullptr;
    char text[64] = "";
    uint64_t bytes = 0;
    moiety_devptr device = 0;
    moiety_host_stats stats = {};
    stats.struct_size = sizeof(stats);
    moiety_leaks leaks = {};
    leaks.struct_size = sizeof(leaks);
    ASSERT_OK(moiety_host_create(nullptr, &host));
    ASSERT_OK(moiety_host_alloc(host, 5000, MOIETY_HOST_CPU, &block));
    void *const was = block;
    ASSERT_OK(moiety_host_destroy(host, nullptr));
    const std::pair<const char *, std::function<moiety_status()>> calls[] = {
        {"alloc",
         [&] {
             return moiety_host_alloc(host, 5000, MOIETY_HOST_CPU, &block);
         }},
        {"alloc of nothing",
         [&] { return moiety_host_alloc(host, 0, MOIETY_HOST_CPU, &block); }},
        {"try_alloc",
         [&] {
             return host_alloc_no_wait(host, 5000, MOIETY_STREAM_LEGACY,
                                       &block);
         }},
        {"free",
         [&] { return moiety_host_free(host, was, MOIETY_STREAM_DONE); }},
        {"free_sized",
         [&] {
             return moiety_host_free_sized(host, was, 5000, MOIETY_STREAM_DONE);
         }},
        {"device_address",
         [&] { return moiety_host_device_address(host, was, &device); }},
        {"reserve",
         [&] { return moiety_host_reserve(host, 1, 0, nullptr, nullptr); }},
        {"trim", [&] { return moiety_host_trim(host, 0, &bytes); }},
        {"stats_get", [&] { return moiety_host_get_stats(host, &stats); }},
        {"report",
         [&] { return moiety_host_report(host, text, sizeof(text)); }},
        {"destroy", [&] { return moiety_host_destroy(host, &leaks); }},
        {"pool_stats",
         [&] {
             moiety_pool_stats of_pool = {};
             of_pool.struct_size = sizeof(of_pool);
             return moiety_pool_get_stats(moiety_host_pool(host), &of_pool);
         }},
        {"pool_destroy",
         [&] { return moiety_pool_destroy(moiety_host_pool(host), nullptr); }},
    };
    for (int round = 0; round < 2; round++) {
        for (const auto &call : calls) {
            EXPECT_EQ(MOIETY_E_DESTROYED, call.second()) << call.first;
            EXPECT_NE(nullptr,
                      strstr(moiety_last_error_message(), "was destroyed"))
                << call.first << ": " << moiety_last_error_message();
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
    moiety_leaks leaks = {};
    leaks.struct_size = sizeof(leaks);
    for (int round = 0; round < 2; round++) {
        EXPECT_EQ(MOIETY_E_INVALID,
                  moiety_pool_destroy(moiety_host_pool(arena), &leaks));
        EXPECT_NE(nullptr,
                  strstr(moiety_last_error_message(), "moiety_host_destroy()"));
    }
    EXPECT_EQ(0u, leaks.block_count);
    EXPECT_EQ(0x5a, static_cast<const char *>(block)[4999]);
    arena.Free(arena.Alloc(3 * kMiB));
    arena.Free(block);
}

} // namespace
} // namespace host_test
