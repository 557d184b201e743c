// SPDX-License-Identifier: Apache-2.0
//
// moiety_default_pool_set_options(): the options of the pools that all of the process
// shares. They are set once in a process, so the steps are one test.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/pool/pool_under_test.h"

namespace
{

using pool_test::kMiB;

moiety_pool_options Sized(uint64_t limit_bytes)
{
    moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
    options.limit_bytes = limit_bytes;
    options.flags = MOIETY_POOL_NOTE_STREAMS;
    return options;
}

moiety_pool_options OfDefaultPool(int32_t device)
{
    moiety_pool *pool = nullptr;
    moiety_pool_options options = {};
    options.struct_size = sizeof(options);
    EXPECT_EQ(MOIETY_OK, moiety_default_pool(device, &pool));
    EXPECT_EQ(MOIETY_OK, moiety_pool_get_options(pool, &options));
    return options;
}

void ExpectRefused(const moiety_pool_options *options, const std::string &named)
{
    EXPECT_EQ(MOIETY_E_INVALID, moiety_default_pool_set_options(options));
    EXPECT_NE(std::string::npos,
              std::string(moiety_last_error_message()).find(named))
        << moiety_last_error_message();
}

void ExpectBadOptionsRefused()
{
    moiety_pool_options options = Sized(64 * kMiB);
    ExpectRefused(nullptr, "options is NULL");
    options.device = 1;
    ExpectRefused(&options, "device");
    options = Sized(64 * kMiB);
    options.context = reinterpret_cast<moiety_context>(uintptr_t{16});
    ExpectRefused(&options, "context");
    options = Sized(64 * kMiB);
    options.struct_size = 4;
    ExpectRefused(&options, "struct_size");
    options = Sized(64 * kMiB);
    options.first_segment_bytes = 3;
    ExpectRefused(&options, "first_segment_bytes");
}

// PyTorch's programs enable the allocator first, and fork their workers then.
void ExpectChildrenMakePools()
{
    pid_t child = fork();
    ASSERT_NE(-1, child);
    if (child == 0) {
        pool_test::UseStandin();
        _exit(OfDefaultPool(0).limit_bytes == 32 * kMiB ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
}

TEST(DefaultPoolOptions, AreSetBeforeTheFirstPoolAndStay)
{
    setenv("MOIETY_STANDIN_DEVICES", "2", 1);
    ExpectBadOptionsRefused();
    moiety_pool_options options = Sized(64 * kMiB);
    EXPECT_EQ(MOIETY_OK, moiety_default_pool_set_options(&options));
    // The last one counts, as long as there is no pool.
    options = Sized(32 * kMiB);
    EXPECT_EQ(MOIETY_OK, moiety_default_pool_set_options(&options));
    ExpectChildrenMakePools();
    pool_test::UseStandin();
    for (int32_t device : {0, 1}) {
        EXPECT_EQ(32 * kMiB, OfDefaultPool(device).limit_bytes);
        EXPECT_EQ(MOIETY_POOL_NOTE_STREAMS, OfDefaultPool(device).flags);
        EXPECT_EQ(device, OfDefaultPool(device).device);
    }
    options = Sized(128 * kMiB);
    EXPECT_EQ(MOIETY_E_IN_USE, moiety_default_pool_set_options(&options));
    EXPECT_EQ(32 * kMiB, OfDefaultPool(0).limit_bytes);
    // A pool in place of a lost one is made alike.
    moiety_pool *lost = nullptr;
    ASSERT_EQ(MOIETY_OK, moiety_default_pool(0, &lost));
    EXPECT_EQ(MOIETY_OK, moiety_pool_context_lost(lost));
    EXPECT_EQ(32 * kMiB, OfDefaultPool(0).limit_bytes);
}

} // namespace
