// SPDX-License-Identifier: Apache-2.0
//
// The child of a fork: told so by every function, and nothing of its parent's
// is touched.
#include <gtest/gtest.h>

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <vector>

#include "tests/pool/pool_under_test.h"

namespace
{

using pool_test::kMiB;
using pool_test::Pool;

const binade_stream kStream = BINADE_STREAM_LEGACY;

class Fork : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }
};

// 0, or which of the calls, counted from 1, was not answered FORKED. No
// GoogleTest here: its reports would come from two processes.
int FirstThatGoesOn(const std::vector<std::function<binade_status()>> &calls)
{
    int index = 0;
    for (const auto &call : calls) {
        index++;
        if (call() != BINADE_E_FORKED)
            return index;
    }
    return 0;
}

int InChild(const std::function<int()> &body)
{
    pid_t child = fork();
    if (child == 0)
        _exit(body());
    int status = -1;
    EXPECT_EQ(child, waitpid(child, &status, 0));
    EXPECT_TRUE(WIFEXITED(status)) << status;
    return WEXITSTATUS(status);
}

// What the calls below are made with.
struct Arguments {
    binade_pool *pool;
    binade_devptr block;
    binade_stream stream;
    binade_event event;
    binade_context context;
    binade_devptr out;
    binade_pool *out_pool;
    size_t out_bytes;
    binade_stats stats;
    binade_pool_options options;
    binade_pool *found;
    binade_segment_info segment;
    binade_segment_watcher watcher;
    uint64_t watch;
    binade_ipc_handle handle; // of the block
    binade_scope open, ended, out_scope;
    binade_tenant tenant;
    binade_tenant_info tenant_info;
};

std::vector<std::function<binade_status()>> CallsOn(Arguments &a)
{
    return {
        [&] { return binade_alloc(a.pool, 4096, kStream, &a.out); },
        [&] { return binade_alloc(a.pool, 5 * kMiB, kStream, &a.out); },
        [&] { return binade_alloc_aligned(a.pool, 9, 4096, kStream, &a.out); },
        [&] { return binade_try_alloc(a.pool, 4096, kStream, &a.out); },
        [&] { return binade_alloc_batch(a.pool, 9, kStream, 1, &a.out); },
        [&] { return binade_free(a.pool, a.block, kStream); },
        [&] { return binade_free(a.pool, a.block, BINADE_STREAM_ANY); },
        [&] { return binade_free_sized(a.pool, a.block, 4096, kStream); },
        [&] { return binade_free_own(a.pool, a.block); },
        [&] {
            return binade_free_batch(a.pool, &a.block, 1, kStream, nullptr);
        },
        [&] { return binade_free_after(a.pool, a.block, a.event); },
        [&] { return binade_record_use(a.pool, a.block, a.stream); },
        [&] { return binade_usable_size(a.pool, a.block, &a.out_bytes); },
        [&] { return binade_alloc_zeroed(a.pool, 4096, kStream, &a.out); },
        [&] { return binade_pool_trim(a.pool, 0, nullptr); },
        [&] { return binade_pool_set_limit(a.pool, 0); },
        [&] { return binade_pool_reserve(a.pool, 4 * kMiB); },
        [&] { return binade_pool_reset_peaks(a.pool); },
        [&] { return binade_pool_options_get(a.pool, &a.options); },
        [&] { return binade_pool_of(a.block, &a.found); },
        [&] { return binade_pool_stats(a.pool, &a.stats); },
        [&] { return binade_stream_retire(a.pool, a.stream); },
        [&] { return binade_pool_add_context(a.pool, a.context); },
        [&] { return binade_pool_add_peer(a.pool, 1); },
        [&] { return binade_segment_find(a.pool, a.block, &a.segment); },
        [&] { return binade_segment_hold(a.pool, a.block, 1); },
        [&] { return binade_segment_release(a.pool, a.block, 1); },
        [&] { return binade_segment_watch(a.pool, &a.watcher, &a.watch); },
        [&] { return binade_segment_unwatch(a.pool, a.watch); },
        [&] { return binade_ipc_export(a.pool, a.block, &a.handle); },
        [&] { return binade_ipc_release_exports(a.pool, 0); },
        [&] {
            return binade_ipc_import(&a.handle, sizeof(a.handle), a.context,
                                     &a.out);
        },
        [&] { return binade_ipc_close(a.block, kStream, nullptr); },
        [&] { return binade_ipc_wait(0, 0); },
        [&] { return binade_ipc_trim(0, nullptr); },
        [&] { return binade_capture_guard_begin(); },
        [&] { return binade_capture_guard_end(); },
        [&] { return binade_scope_begin(a.pool, a.stream, &a.out_scope); },
        [&] { return binade_scope_end(a.open); },
        [&] { return binade_scope_release(a.ended); },
        [&] { return binade_scope_release(a.out_scope); },
        [&] { return binade_scope_release_all(a.pool); },
        [&] { return binade_tenant_alloc(a.tenant, 9, kStream, &a.out); },
        [&] { return binade_tenant_alloc(0, 9, kStream, &a.out); },
        [&] { return binade_tenant_alloc(a.tenant, 9999, kStream, &a.out); },
        [&] {
            return binade_tenant_alloc_aligned(a.tenant, 9, 512, kStream,
                                               &a.out);
        },
        [&] { return binade_tenant_try_alloc(a.tenant, 9, kStream, &a.out); },
        [&] { return binade_tenant_create(a.pool, "", 0, &a.tenant); },
        [&] { return binade_tenant_set_budget(a.tenant, 0); },
        [&] { return binade_tenant_stats(a.tenant, &a.tenant_info); },
        [&] { return binade_tenant_destroy(a.tenant); },
        [&] { return binade_tenant_destroy(0); },
        [&] { return binade_pool_create(nullptr, &a.out_pool); },
        [&] { return binade_pool_destroy(a.pool, nullptr); },
    };
}

TEST_F(Fork, IsToldByEveryFunction)
{
    binade_pool_options options = pool_test::Defaults();
    options.flags = BINADE_POOL_EXPORTABLE;
    Pool pool(options);
    pool_test::Stream stream;
    Arguments arguments = {};
    arguments.pool = pool;
    arguments.block = pool.Alloc(4096);
    ASSERT_EQ(BINADE_OK,
              binade_ipc_export(pool, arguments.block, &arguments.handle));
    arguments.stream = stream;
    arguments.event = pool_test::NewEvent();
    arguments.context = pool_test::PrimaryContext();
    arguments.stats.struct_size = sizeof(arguments.stats);
    arguments.options.struct_size = sizeof(arguments.options);
    arguments.segment.struct_size = sizeof(arguments.segment);
    arguments.watcher.struct_size = sizeof(arguments.watcher);
    arguments.watcher.added = [](void *, const binade_segment_info *) {};
    pool_test::Stream captured;
    ASSERT_EQ(BINADE_OK, binade_scope_begin(pool, captured, &arguments.ended));
    ASSERT_EQ(BINADE_OK, binade_scope_end(arguments.ended));
    ASSERT_EQ(BINADE_OK, binade_scope_begin(pool, captured, &arguments.open));
    arguments.tenant_info.struct_size = sizeof(arguments.tenant_info);
    ASSERT_EQ(BINADE_OK,
              binade_tenant_create(pool, "", 4096, &arguments.tenant));
    pool.Free(pool.Alloc(4096)); // so that the next one could be a hit
    auto calls = CallsOn(arguments);
    uint64_t before = pool_test::Calls();
    EXPECT_EQ(0, InChild([&] {
                  int first = FirstThatGoesOn(calls);
                  return first || pool_test::Calls() == before ? first : 99;
              }))
        << "which of the calls; 99: the driver was called";
    EXPECT_EQ(BINADE_OK, binade_scope_end(arguments.open));
    EXPECT_EQ(BINADE_OK, binade_scope_release_all(pool));
    pool.Free(arguments.block);
    pool_test::DestroyEvent(arguments.event);
}

TEST_F(Fork, DoesNotDisturbTheParent)
{
    Pool pool;
    binade_devptr block = pool.Alloc(4096);
    pool_test::Fill(block, 4096, 5);
    InChild([&] {
        binade_devptr out = 0;
        return binade_alloc(pool, 512, kStream, &out) == BINADE_E_FORKED ? 0
                                                                         : 1;
    });
    EXPECT_TRUE(pool_test::Holds(block, 4096, 5));
    pool.Free(block);
    EXPECT_EQ(block, pool.Alloc(4096)) << "the cache is as it was";
    pool.Free(block);
    EXPECT_EQ(32 * kMiB, pool.TrimAll());
}

TEST_F(Fork, OfAThreadThatNeverUsedThePoolIsToldToo)
{
    Pool pool;
    EXPECT_EQ(0, InChild([&] {
                  binade_devptr out = 0;
                  return binade_alloc(pool, 512, kStream, &out) ==
                                 BINADE_E_FORKED
                             ? 0
                             : 1;
              }));
}

// The free would be a hit, and so would one on the stream by its name.
TEST_F(Fork, IsToldByAFreeOnABlocksOwnStream)
{
    binade_pool_options options = pool_test::Defaults();
    options.flags = BINADE_POOL_NOTE_STREAMS;
    Pool pool(options);
    binade_devptr block = pool.Alloc(4096);
    EXPECT_EQ(BINADE_OK, binade_free_own(pool, block));
    ASSERT_EQ(block, pool.Alloc(4096));
    EXPECT_EQ(0, InChild([&] {
                  return FirstThatGoesOn({
                      [&] { return binade_free_own(pool, block); },
                      [&] { return binade_free(pool, block, kStream); },
                  });
              }));
    EXPECT_EQ(BINADE_OK, binade_free_own(pool, block));
    EXPECT_EQ(0u, pool.Stats().allocation_current);
}

// No fork handler runs then.
TEST_F(Fork, WithoutTheCLibraryIsToldToo)
{
    Pool pool;
    binade_devptr block = pool.Alloc(4096);
    pool.Free(block);
    pid_t child = static_cast<pid_t>(syscall(SYS_fork));
    if (child == 0) {
        binade_devptr out = 0;
        _exit(binade_alloc(pool, 4096, kStream, &out) == BINADE_E_FORKED ? 0
                                                                         : 1);
    }
    int status = -1;
    EXPECT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
}

TEST_F(Fork, GrandchildrenAreToldToo)
{
    Pool pool;
    pool.Free(pool.Alloc(512));
    EXPECT_EQ(0, InChild([&] {
                  pid_t grandchild = fork();
                  binade_devptr out = 0;
                  if (grandchild == 0)
                      _exit(binade_alloc(pool, 512, kStream, &out) ==
                                    BINADE_E_FORKED
                                ? 0
                                : 1);
                  int status = -1;
                  waitpid(grandchild, &status, 0);
                  return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
              }));
}

} // namespace
