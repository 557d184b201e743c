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
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

using Fork = StandinTest;

// 0, or which of the calls, counted from 1, was not answered FORKED. No
// GoogleTest here: its reports would come from two processes.
int FirstThatGoesOn(const std::vector<std::function<moiety_status()>> &calls)
{
    int index = 0;
    for (const auto &call : calls) {
        index++;
        if (call() != MOIETY_E_FORKED)
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
    moiety_pool *pool;
    moiety_devptr block;
    moiety_stream stream;
    moiety_event event;
    moiety_context context;
    moiety_devptr out;
    moiety_pool *out_pool;
    size_t out_bytes;
    moiety_pool_stats stats;
    moiety_pool_options options;
    moiety_pool *found;
    moiety_segment_info segment;
    moiety_segment_watcher watcher;
    moiety_watch watch;
    moiety_ipc_handle handle; // of the block
    moiety_scope open, ended, out_scope;
    moiety_tenant tenant;
    moiety_tenant_stats tenant_info;
};

std::vector<std::function<moiety_status()>> CallsOn(Arguments &a)
{
    return {
        [&] { return moiety_alloc(a.pool, 4096, kStream, &a.out); },
        [&] { return moiety_alloc(a.pool, 5 * kMiB, kStream, &a.out); },
        [&] { return alloc_aligned(a.pool, 9, 4096, kStream, &a.out); },
        [&] { return alloc_no_wait(a.pool, 4096, kStream, &a.out); },
        [&] { return moiety_alloc_batch(a.pool, 9, kStream, 1, &a.out); },
        [&] { return moiety_free(a.pool, a.block, kStream); },
        [&] { return moiety_free(a.pool, a.block, MOIETY_STREAM_ANY); },
        [&] { return moiety_free_sized(a.pool, a.block, 4096, kStream); },
        [&] { return moiety_free_on_alloc_stream(a.pool, a.block); },
        [&] {
            return moiety_free_batch(a.pool, &a.block, 1, kStream, nullptr);
        },
        [&] { return moiety_free_on_event(a.pool, a.block, a.event); },
        [&] { return moiety_record_use(a.pool, a.block, a.stream); },
        [&] { return moiety_usable_size(a.pool, a.block, &a.out_bytes); },
        [&] { return alloc_zeroed(a.pool, 4096, kStream, &a.out); },
        [&] { return moiety_pool_trim(a.pool, 0, nullptr); },
        [&] { return moiety_pool_set_limit(a.pool, 0); },
        [&] { return moiety_pool_reserve(a.pool, 4 * kMiB); },
        [&] { return moiety_pool_reset_peaks(a.pool); },
        [&] { return moiety_pool_get_options(a.pool, &a.options); },
        [&] { return moiety_pool_of(a.block, &a.found); },
        [&] { return moiety_pool_get_stats(a.pool, &a.stats); },
        [&] { return moiety_pool_retire_stream(a.pool, a.stream); },
        [&] { return moiety_pool_add_context(a.pool, a.context); },
        [&] { return moiety_pool_add_peer(a.pool, 1); },
        [&] { return moiety_segment_find(a.pool, a.block, &a.segment); },
        [&] { return moiety_segment_hold(a.pool, a.block, 1); },
        [&] { return moiety_segment_unhold(a.pool, a.block, 1); },
        [&] { return moiety_segment_watch(a.pool, &a.watcher, &a.watch); },
        [&] { return moiety_segment_unwatch(a.pool, a.watch); },
        [&] { return moiety_ipc_export(a.pool, a.block, &a.handle); },
        [&] { return moiety_ipc_release_exports(a.pool, 0); },
        [&] {
            return moiety_ipc_import(&a.handle, sizeof(a.handle), a.context,
                                     &a.out);
        },
        [&] { return moiety_ipc_close(a.block, kStream, nullptr); },
        [&] { return moiety_ipc_wait(0, 0); },
        [&] { return moiety_ipc_trim(0, nullptr); },
        [&] { return moiety_capture_guard_begin(); },
        [&] { return moiety_capture_guard_end(); },
        [&] { return moiety_scope_begin(a.pool, a.stream, &a.out_scope); },
        [&] { return moiety_scope_end(a.open); },
        [&] { return moiety_scope_release(a.ended); },
        [&] { return moiety_scope_release(a.out_scope); },
        [&] { return moiety_scope_release_all(a.pool); },
        [&] { return alloc_for_tenant(a.tenant, 9, kStream, &a.out); },
        [&] { return alloc_for_tenant(a.tenant, 9999, kStream, &a.out); },
        [&] {
            return alloc_for_tenant_aligned(a.tenant, 9, 512, kStream, &a.out);
        },
        [&] { return alloc_for_tenant_no_wait(a.tenant, 9, kStream, &a.out); },
        [&] { return create_tenant(a.pool, "", 0, &a.tenant); },
        [&] { return moiety_tenant_set_budget(a.tenant, 0); },
        [&] { return moiety_tenant_get_stats(a.tenant, &a.tenant_info); },
        [&] { return moiety_tenant_destroy(a.tenant); },
        [&] { return moiety_tenant_destroy(0); },
        [&] { return moiety_pool_create(nullptr, &a.out_pool); },
        [&] { return moiety_pool_destroy(a.pool, nullptr); },
    };
}

TEST_F(Fork, IsToldByEveryFunction)
{
    moiety_pool_options options = pool_test::Defaults();
    options.flags = MOIETY_POOL_EXPORTABLE;
    Pool pool(options);
    pool_test::Stream stream;
    Arguments arguments = {};
    arguments.pool = pool;
    arguments.block = pool.Alloc(4096);
    ASSERT_OK(moiety_ipc_export(pool, arguments.block, &arguments.handle));
    arguments.stream = stream;
    arguments.event = pool_test::NewEvent();
    arguments.context = pool_test::PrimaryContext();
    arguments.stats.struct_size = sizeof(arguments.stats);
    arguments.options.struct_size = sizeof(arguments.options);
    arguments.segment.struct_size = sizeof(arguments.segment);
    arguments.watcher.struct_size = sizeof(arguments.watcher);
    arguments.watcher.added = [](void *, const moiety_segment_info *) {};
    pool_test::Stream captured;
    ASSERT_OK(moiety_scope_begin(pool, captured, &arguments.ended));
    ASSERT_OK(moiety_scope_end(arguments.ended));
    ASSERT_OK(moiety_scope_begin(pool, captured, &arguments.open));
    arguments.tenant_info.struct_size = sizeof(arguments.tenant_info);
    ASSERT_OK(create_tenant(pool, "", 4096, &arguments.tenant));
    pool.Free(pool.Alloc(4096)); // so that the next one could be a hit
    auto calls = CallsOn(arguments);
    uint64_t before = pool_test::Calls();
    EXPECT_EQ(0, InChild([&] {
                  int first = FirstThatGoesOn(calls);
                  return first || pool_test::Calls() == before ? first : 99;
              }))
        << "which of the calls; 99: the driver was called";
    EXPECT_OK(moiety_scope_end(arguments.open));
    EXPECT_OK(moiety_scope_release_all(pool));
    pool.Free(arguments.block);
    pool_test::DestroyEvent(arguments.event);
}

TEST_F(Fork, DoesNotDisturbTheParent)
{
    Pool pool;
    moiety_devptr block = pool.Alloc(4096);
    pool_test::Fill(block, 4096, 5);
    InChild([&] {
        moiety_devptr out = 0;
        return moiety_alloc(pool, 512, kStream, &out) == MOIETY_E_FORKED ? 0
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
                  moiety_devptr out = 0;
                  return moiety_alloc(pool, 512, kStream, &out) ==
                                 MOIETY_E_FORKED
                             ? 0
                             : 1;
              }));
}

// The free would be a hit, and so would one on the stream by its name.
TEST_F(Fork, IsToldByAFreeOnABlocksOwnStream)
{
    moiety_pool_options options = pool_test::Defaults();
    options.flags = MOIETY_POOL_NOTE_STREAMS;
    Pool pool(options);
    moiety_devptr block = pool.Alloc(4096);
    EXPECT_OK(moiety_free_on_alloc_stream(pool, block));
    ASSERT_EQ(block, pool.Alloc(4096));
    EXPECT_EQ(0, InChild([&] {
                  return FirstThatGoesOn({
                      [&] { return moiety_free_on_alloc_stream(pool, block); },
                      [&] { return moiety_free(pool, block, kStream); },
                  });
              }));
    EXPECT_OK(moiety_free_on_alloc_stream(pool, block));
    EXPECT_EQ(0u, pool.Stats().allocation_current);
}

// No fork handler runs then.
TEST_F(Fork, WithoutTheCLibraryIsToldToo)
{
    Pool pool;
    moiety_devptr block = pool.Alloc(4096);
    pool.Free(block);
    pid_t child = static_cast<pid_t>(syscall(SYS_fork));
    if (child == 0) {
        moiety_devptr out = 0;
        _exit(moiety_alloc(pool, 4096, kStream, &out) == MOIETY_E_FORKED ? 0
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
                  moiety_devptr out = 0;
                  if (grandchild == 0)
                      _exit(moiety_alloc(pool, 512, kStream, &out) ==
                                    MOIETY_E_FORKED
                                ? 0
                                : 1);
                  int status = -1;
                  waitpid(grandchild, &status, 0);
                  return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
              }));
}

} // namespace
