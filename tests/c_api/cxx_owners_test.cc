// SPDX-License-Identifier: Apache-2.0
//
// The C++ owners of tenants, arenas, guards, scopes, holds, watches, pins, imports
// and recordings: what they own, what they throw, and what their ends are refused.
#include <gtest/gtest.h>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <type_traits>
#include <vector>

#include "moiety/moiety.hpp"
#include "tests/c_api/cxx_log.h"
#include "tests/pool/pool_under_test.h"

namespace
{

using cxx_test::Log;
using pool_test::kKiB;
using pool_test::kMiB;

template <typename T>
constexpr bool is_owner =
    !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T> &&
    std::is_nothrow_move_constructible_v<T> &&
    std::is_nothrow_move_assignable_v<T> && std::is_nothrow_destructible_v<T>;

static_assert(is_owner<moiety::pool> && is_owner<moiety::buffer>);
static_assert(is_owner<moiety::host_arena> && is_owner<moiety::host_pin>);
static_assert(is_owner<moiety::growth>);
static_assert(is_owner<moiety::tenant> && is_owner<moiety::private_arena>);
static_assert(is_owner<moiety::capture_guard> && is_owner<moiety::scope>);
static_assert(is_owner<moiety::segment_hold> &&
              is_owner<moiety::segment_watch>);
static_assert(is_owner<moiety::ipc_import> && is_owner<moiety::trace>);

// Which status `call` throws, of which class; MOIETY_OK: none.
template <typename Error = moiety::status_error, typename Call>
moiety_status Thrown(Call call)
{
    try {
        call();
    } catch (const Error &thrown) {
        return thrown.status();
    }
    return MOIETY_OK;
}

class CxxOwner : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }
    static moiety::pool Mapped()
    {
        moiety_pool_options options = pool_test::Defaults();
        options.memory = MOIETY_MEMORY_MAPPED;
        options.wait_ms = 200;
        return moiety::pool(options);
    }
    static moiety::pool Exportable()
    {
        moiety_pool_options options = pool_test::Defaults();
        options.flags = MOIETY_POOL_EXPORTABLE;
        return moiety::pool(options);
    }
    static uint64_t LiveCount(moiety::pool_ref pool)
    {
        return pool.stats().allocation_current;
    }

    pool_test::Stream stream_;
};

// --- pools ---

TEST_F(CxxOwner, TheDefaultPoolIsOfTheProcess)
{
    moiety_pool *handle;
    {
        moiety::pool_ref pool = moiety::pool::default_for(0);
        handle = pool.get();
        EXPECT_EQ(handle, moiety::pool::default_for(0).get());
        EXPECT_NE(0u, pool.alloc(512, stream_).address());
    }
    moiety_pool *found = nullptr;
    ASSERT_EQ(MOIETY_OK, moiety_default_pool(0, &found));
    EXPECT_EQ(handle, found);
    EXPECT_EQ(0u, LiveCount(handle)) << "the pool is still there";
    EXPECT_EQ(MOIETY_E_INVALID,
              Thrown([] { (void)moiety::pool::default_for(64); }));
}

TEST_F(CxxOwner, BlocksOfAPoolAreTakenAsOptionsSay)
{
    moiety::pool pool(pool_test::Defaults());
    moiety_alloc_options options = MOIETY_ALLOC_OPTIONS_INIT;
    options.flags = MOIETY_ALLOC_ZEROED;
    options.alignment_bytes = 64 * kKiB;
    moiety::buffer block = pool.alloc_with(5000, stream_, options);
    EXPECT_EQ(0u, block.address() % (64 * kKiB));
    EXPECT_EQ(5000u, block.size());
    pool_test::Synchronize();
    EXPECT_TRUE(pool_test::Holds(block.address(), 4096, 0));
    options.alignment_bytes = 3;
    EXPECT_EQ(MOIETY_E_INVALID,
              Thrown([&] { (void)pool.alloc_with(512, stream_, options); }));
    EXPECT_EQ(1u, LiveCount(pool));
}

TEST_F(CxxOwner, BlocksAreAdopted)
{
    moiety::pool pool(pool_test::Defaults());
    moiety_devptr address = pool.alloc(512, stream_).release();
    EXPECT_EQ(1u, LiveCount(pool));
    {
        moiety::buffer block =
            moiety::buffer::adopt(pool, address, 512, stream_);
        EXPECT_EQ(address, block.address());
        EXPECT_EQ(512u, block.size());
        EXPECT_EQ(static_cast<moiety_stream>(stream_), block.stream());
    }
    EXPECT_EQ(0u, LiveCount(pool));
}

// --- tenants and arenas ---

TEST_F(CxxOwner, TenantsHaveBudgets)
{
    moiety::pool pool(pool_test::Defaults());
    moiety_tenant_options options = MOIETY_TENANT_OPTIONS_INIT;
    options.name = "cxx";
    options.budget_bytes = kMiB;
    moiety::tenant first(pool, options);
    EXPECT_EQ(pool.get(), first.pool().get());
    moiety::buffer block = first.alloc(kMiB, stream_);
    EXPECT_EQ(kMiB, first.stats().live_bytes);
    EXPECT_STREQ("cxx", first.stats().name);
    EXPECT_EQ(MOIETY_E_BUDGET, Thrown<moiety::out_of_memory>(
                                   [&] { (void)first.alloc(512, stream_); }));
    first.set_budget(2 * kMiB);
    moiety_alloc_options zeroed = MOIETY_ALLOC_OPTIONS_INIT;
    zeroed.flags = MOIETY_ALLOC_ZEROED;
    moiety::buffer more = first.alloc_with(512, stream_, zeroed);
    moiety_tenant handle = first.get();
    moiety::tenant second(std::move(first));
    EXPECT_EQ(nullptr, first.get()); // NOLINT: that is what is asked
    EXPECT_EQ(nullptr, first.pool().get());
    EXPECT_EQ(handle, second.get());
    EXPECT_EQ(kMiB + 512, second.stats().live_bytes);
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, Thrown([&] { (void)second.arena(); }));
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, Thrown([&] { second.pause(0); }));
    block = moiety::buffer();
    more = moiety::buffer();
    EXPECT_EQ(0u, second.stats().live_bytes);
}

TEST_F(CxxOwner, TenantsAreRefused)
{
    Log log(MOIETY_LOG_ERROR);
    moiety::pool pool(pool_test::Defaults());
    moiety_tenant_options options = MOIETY_TENANT_OPTIONS_INIT;
    options.budget_bytes = UINT64_MAX;
    EXPECT_EQ(MOIETY_E_INVALID,
              Thrown([&] { moiety::tenant refused(pool, options); }));
    EXPECT_EQ(MOIETY_E_INVALID,
              Thrown([] { moiety::tenant refused(nullptr); }));
    EXPECT_TRUE(log.IsEmpty());
    moiety::buffer block;
    {
        moiety::tenant tenant(pool);
        block = tenant.alloc(512, stream_);
    }
    EXPECT_TRUE(log.Has("moiety::~tenant: MOIETY_E_"));
    EXPECT_EQ(1u, LiveCount(pool)) << "its block is there";
}

TEST_F(CxxOwner, TenantsArePaused)
{
    moiety::pool pool = Mapped();
    moiety_tenant_options options = MOIETY_TENANT_OPTIONS_INIT;
    options.flags = MOIETY_TENANT_PAUSABLE;
    moiety::tenant tenant(pool, options);
    moiety::buffer block = tenant.alloc(2 * kMiB, stream_);
    pool_test::Fill(block.address(), 4096, 7);
    tenant.pause(MOIETY_PAUSE_KEEP_CONTENTS);
    moiety_private_stats stats = {};
    stats.struct_size = sizeof stats;
    EXPECT_EQ(MOIETY_OK, moiety_private_get_stats(tenant.arena(), &stats));
    EXPECT_EQ(1u, stats.is_paused);
    tenant.resume();
    EXPECT_TRUE(pool_test::Holds(block.address(), 4096, 7));
}

TEST_F(CxxOwner, ArenasHaveMemoryOfTheirOwn)
{
    moiety::pool pool(pool_test::Defaults());
    moiety_private_options options = MOIETY_PRIVATE_OPTIONS_INIT;
    options.limit_bytes = 4 * kMiB;
    moiety::private_arena first(pool, options);
    EXPECT_EQ(MOIETY_E_TOO_LARGE, Thrown<moiety::out_of_memory>([&] {
                  (void)first.alloc(5 * kMiB, stream_);
              }));
    moiety_devptr address;
    {
        moiety_alloc_options zeroed = MOIETY_ALLOC_OPTIONS_INIT;
        zeroed.flags = MOIETY_ALLOC_ZEROED;
        moiety::buffer block = first.alloc_with(kMiB, stream_, zeroed);
        address = block.address();
        EXPECT_EQ(kMiB, first.stats().live_bytes);
    }
    moiety::private_arena second(std::move(first));
    EXPECT_EQ(nullptr, first.get()); // NOLINT
    EXPECT_EQ(pool.get(), second.pool().get());
    EXPECT_EQ(address, second.claim(address, kMiB, stream_).address());
    EXPECT_EQ(0u, second.stats().live_bytes);
    EXPECT_EQ(MOIETY_E_INVALID,
              Thrown([&] { (void)second.claim(address + 1, kMiB, stream_); }));
    pool_test::Synchronize();
    pool.synchronize(20000);
    EXPECT_LE(second.trim(), 4 * kMiB);
}

TEST_F(CxxOwner, ArenasAreRefused)
{
    Log log(MOIETY_LOG_ERROR);
    moiety::pool pool = Mapped();
    moiety_private_options options = MOIETY_PRIVATE_OPTIONS_INIT;
    options.limit_bytes = 1;
    EXPECT_EQ(MOIETY_E_INVALID,
              Thrown([&] { moiety::private_arena refused(pool, options); }));
    options.limit_bytes = 0;
    options.flags = MOIETY_PRIVATE_PAUSABLE;
    moiety::buffer block;
    moiety_private handle;
    {
        moiety::private_arena arena(pool, options);
        handle = arena.get();
        block = arena.alloc(2 * kMiB, stream_);
        EXPECT_TRUE(log.IsEmpty());
        arena.pause(0);
        EXPECT_EQ(1u, arena.stats().is_paused);
    }
    EXPECT_TRUE(log.Has("moiety::~private_arena: MOIETY_E_"));
    EXPECT_EQ(MOIETY_OK, moiety_private_resume(handle)) << "it is still there";
    {
        moiety::private_arena arena(pool, options);
        arena.pause(0);
        arena.resume();
        EXPECT_EQ(0u, arena.stats().is_paused);
    }
}

// --- captures ---

TEST_F(CxxOwner, GuardsAreHeld)
{
    moiety::pool pool(pool_test::Defaults());
    {
        moiety::capture_guard first;
        EXPECT_TRUE(first.is_held());
        EXPECT_EQ(0u, moiety_capture_age_ns());
        moiety::capture_guard second(std::move(first));
        EXPECT_FALSE(first.is_held()); // NOLINT
        EXPECT_EQ(MOIETY_E_CAPTURING, Thrown([&] { pool.synchronize(0); }));
        moiety::capture_guard third;
        third.end();
        EXPECT_FALSE(third.is_held());
        EXPECT_TRUE(second.is_held());
        EXPECT_EQ(0u, moiety_capture_age_ns());
    }
    EXPECT_NE(0u, moiety_capture_age_ns());
    EXPECT_EQ(MOIETY_E_INVALID, moiety_capture_guard_end());
}

TEST_F(CxxOwner, GuardsThatSomebodyElseEndedAreReported)
{
    Log log(MOIETY_LOG_ERROR);
    {
        moiety::capture_guard guard;
        EXPECT_EQ(MOIETY_OK, moiety_capture_guard_end());
        EXPECT_EQ(MOIETY_E_INVALID, Thrown([&] { guard.end(); }));
        EXPECT_TRUE(guard.is_held());
    }
    EXPECT_TRUE(log.Has("moiety::~capture_guard: MOIETY_E_INVALID: "));
}

TEST_F(CxxOwner, ScopesAreEndedAndReleased)
{
    moiety::pool pool(pool_test::Defaults());
    moiety_scope handle;
    {
        moiety::scope first(pool, stream_);
        handle = first.get();
        EXPECT_TRUE(first.is_open());
        EXPECT_EQ(MOIETY_E_INVALID,
                  Thrown([&] { moiety::scope again(pool, stream_); }));
        moiety::scope second(std::move(first));
        EXPECT_EQ(nullptr, first.get()); // NOLINT
        EXPECT_FALSE(first.is_open());
        EXPECT_TRUE(second.is_open());
        second.end();
        EXPECT_FALSE(second.is_open());
        EXPECT_EQ(MOIETY_E_DESTROYED, Thrown([&] { second.end(); }));
        EXPECT_EQ(handle, second.get());
    }
    EXPECT_EQ(MOIETY_E_DESTROYED, moiety_scope_release(handle)) << "it is gone";
    {
        moiety::scope open(pool, stream_);
        handle = open.get();
    }
    EXPECT_EQ(MOIETY_E_DESTROYED, moiety_scope_release(handle));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_capture_guard_end());
}

TEST_F(CxxOwner, ScopesOfArenasAreTheirs)
{
    Log log(MOIETY_LOG_ERROR);
    moiety::pool pool(pool_test::Defaults());
    moiety::private_arena arena(pool);
    {
        moiety::scope scope(arena, stream_);
        EXPECT_EQ(1u, arena.stats().graph_count);
    }
    EXPECT_EQ(0u, arena.stats().graph_count);
    EXPECT_EQ(MOIETY_E_INVALID, Thrown([&] {
                  moiety::scope none(moiety_private{nullptr}, stream_);
              }));
    EXPECT_TRUE(log.IsEmpty());
    {
        moiety::scope scope(arena, stream_);
        EXPECT_EQ(MOIETY_OK, moiety_scope_end(scope.get()));
        EXPECT_EQ(MOIETY_OK, moiety_scope_release(scope.get()));
    }
    EXPECT_TRUE(log.Has("moiety::~scope: MOIETY_E_DESTROYED: "));
}

// --- segments ---

uint64_t HoldsAt(moiety::pool_ref pool, moiety_devptr address)
{
    moiety_segment_info info = {};
    info.struct_size = sizeof info;
    EXPECT_EQ(MOIETY_OK, moiety_segment_find(pool.get(), address, &info));
    return info.hold_count;
}

TEST_F(CxxOwner, SegmentsAreHeld)
{
    Log log(MOIETY_LOG_ERROR);
    moiety::pool pool(pool_test::Defaults());
    moiety::buffer block = pool.alloc(kMiB, stream_);
    {
        moiety::segment_hold first(pool, block.address(), block.size());
        EXPECT_EQ(1u, HoldsAt(pool, block.address()));
        moiety::segment_hold second(std::move(first));
        EXPECT_EQ(0u, first.address()); // NOLINT
        EXPECT_EQ(block.address(), second.address());
        EXPECT_EQ(kMiB, second.size());
        EXPECT_EQ(1u, HoldsAt(pool, block.address()));
    }
    EXPECT_EQ(0u, HoldsAt(pool, block.address()));
    EXPECT_EQ(MOIETY_E_FOREIGN,
              Thrown([&] { moiety::segment_hold refused(pool, 512, 512); }));
    EXPECT_TRUE(log.IsEmpty());
    {
        moiety::segment_hold hold(pool, block.address(), 1);
        EXPECT_EQ(MOIETY_OK,
                  moiety_segment_unhold(pool.get(), block.address(), 1));
    }
    EXPECT_TRUE(log.Has("moiety::~segment_hold: MOIETY_E_INVALID: "));
}

TEST_F(CxxOwner, SegmentsAreWatched)
{
    Log log(MOIETY_LOG_ERROR);
    moiety::pool pool(pool_test::Defaults());
    unsigned count = 0;
    moiety_segment_watcher watcher = {};
    watcher.struct_size = sizeof watcher;
    EXPECT_EQ(MOIETY_E_INVALID,
              Thrown([&] { moiety::segment_watch refused(pool, watcher); }));
    watcher.user = &count;
    watcher.added = [](void *user, const moiety_segment_info *) {
        ++*static_cast<unsigned *>(user);
    };
    {
        moiety::segment_watch first(pool, watcher);
        moiety::segment_watch second(std::move(first));
        EXPECT_EQ(nullptr, first.get()); // NOLINT
        EXPECT_NE(nullptr, second.get());
        (void)pool.alloc(kMiB, stream_);
        EXPECT_LT(0u, count);
    }
    const unsigned before = count;
    (void)pool.alloc(100 * kMiB, stream_);
    EXPECT_EQ(before, count) << "nobody watches";
    EXPECT_TRUE(log.IsEmpty());
    {
        moiety::segment_watch watch(pool, watcher);
        EXPECT_EQ(MOIETY_OK, moiety_segment_unwatch(pool.get(), watch.get()));
    }
    EXPECT_TRUE(log.Has("moiety::~segment_watch: MOIETY_E_DESTROYED: "));
}

// --- pins ---

TEST_F(CxxOwner, MemoryIsPinned)
{
    Log log(MOIETY_LOG_ERROR);
    std::vector<char> memory(64 * kKiB);
    {
        moiety::host_pin first(memory.data(), memory.size());
        moiety::host_pin second(std::move(first));
        EXPECT_EQ(nullptr, first.address()); // NOLINT
        EXPECT_EQ(memory.data(), second.address());
        EXPECT_EQ(memory.size(), second.size());
    }
    EXPECT_EQ(MOIETY_E_FOREIGN,
              moiety_host_unpin(memory.data(), memory.size()));
    EXPECT_EQ(MOIETY_E_INVALID,
              Thrown([&] { moiety::host_pin refused(memory.data(), 0); }));
    EXPECT_TRUE(log.IsEmpty());
    {
        moiety::host_pin pin(memory.data(), memory.size());
        EXPECT_EQ(MOIETY_OK, moiety_host_unpin(memory.data(), memory.size()));
    }
    EXPECT_TRUE(log.Has("moiety::~host_pin: MOIETY_E_FOREIGN: "));
}

TEST_F(CxxOwner, ArenasOfTheHostArePools)
{
    moiety::host_arena arena;
    EXPECT_EQ(moiety_host_pool(arena.get()), arena.pool().get());
    EXPECT_EQ(0u, LiveCount(arena.pool()));
    moiety::host_arena other(std::move(arena));
    EXPECT_EQ(nullptr, arena.pool().get()); // NOLINT
}

TEST_F(CxxOwner, AGrowthEndsWithItsOwner)
{
    moiety::host_arena arena;
    {
        moiety::growth growth(arena, 4 * kMiB);
        EXPECT_TRUE(growth.wait(600000));
        EXPECT_EQ(4 * kMiB, growth.ready_bytes());
        EXPECT_LE(0, growth.descriptor());
        moiety::growth other(std::move(growth));
        EXPECT_EQ(nullptr, growth.get()); // NOLINT
        other.cancel();
        EXPECT_TRUE(other.wait(0));
    }
    EXPECT_EQ(MOIETY_E_INVALID,
              Thrown([&] { moiety::growth refused(arena, 4 * kMiB, 65); }));
}

// --- all of them ---

TEST_F(CxxOwner, OwnersChangePlacesWhenOneIsAssignedTo)
{
    Log log(MOIETY_LOG_ERROR);
    moiety::pool pool(pool_test::Defaults());
    moiety::pool poorer(pool_test::Defaults());
    moiety::tenant first(pool), second(poorer);
    moiety_tenant handle = second.get();
    first = std::move(second);
    EXPECT_EQ(handle, first.get());
    EXPECT_EQ(poorer.get(), first.pool().get());
    EXPECT_EQ(pool.get(), second.pool().get()); // NOLINT: that is what is asked
    moiety::capture_guard guard;
    {
        moiety::capture_guard other;
        other.end();
        other = std::move(guard);
        EXPECT_TRUE(other.is_held());
        EXPECT_FALSE(guard.is_held()); // NOLINT
    }
    EXPECT_EQ(MOIETY_E_INVALID, moiety_capture_guard_end());
    EXPECT_TRUE(log.IsEmpty());
}

TEST_F(CxxOwner, OwnersEndQuietlyInAChild)
{
    Log log(MOIETY_LOG_WARNING);
    moiety::pool pool = Exportable();
    moiety::buffer block = pool.alloc(64 * kKiB, stream_);
    std::vector<char> memory(kMiB);
    moiety_ipc_handle handle = {};
    ASSERT_EQ(MOIETY_OK,
              moiety_ipc_export(pool.get(), block.address(), &handle));
    moiety::tenant tenant(pool);
    moiety::private_arena arena(pool);
    moiety::segment_hold hold(pool, block.address(), 1);
    moiety::host_pin pin(memory.data(), memory.size());
    moiety::ipc_import import(handle, nullptr, MOIETY_STREAM_DONE);
    moiety::scope scope(pool, stream_);
    moiety::capture_guard guard;
    pid_t child = fork();
    ASSERT_NE(-1, child);
    if (child == 0) {
        {
            moiety::capture_guard guard_ends(std::move(guard));
            moiety::scope scope_ends(std::move(scope));
            moiety::ipc_import import_ends(std::move(import));
            moiety::host_pin pin_ends(std::move(pin));
            moiety::segment_hold hold_ends(std::move(hold));
            moiety::private_arena arena_ends(std::move(arena));
            moiety::tenant tenant_ends(std::move(tenant));
        }
        _exit(log.IsEmpty() ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
}

// --- other processes ---

moiety_ipc_handle HandleOf(moiety::pool_ref pool, moiety_devptr address)
{
    moiety_ipc_handle handle = {};
    EXPECT_EQ(MOIETY_OK, moiety_ipc_export(pool.get(), address, &handle));
    return handle;
}

TEST_F(CxxOwner, ImportsEnd)
{
    Log log(MOIETY_LOG_ERROR);
    moiety::pool pool = Exportable();
    moiety::buffer block = pool.alloc(64 * kKiB, stream_);
    moiety_ipc_handle handle = HandleOf(pool, block.address());
    {
        moiety::ipc_import first(handle, nullptr, stream_);
        EXPECT_EQ(block.address(), first.address());
        EXPECT_EQ(reinterpret_cast<void *>(block.address()), first.data());
        EXPECT_EQ(64 * kKiB, first.size());
        moiety::ipc_import second(std::move(first));
        EXPECT_EQ(0u, first.address()); // NOLINT
        EXPECT_EQ(static_cast<moiety_stream>(stream_), second.stream());
        second.set_stream(MOIETY_STREAM_DONE);
        EXPECT_NE(MOIETY_OK, moiety_ipc_release_exports(pool.get(), 0));
    }
    EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool.get(), 0));
    handle.checksum++;
    EXPECT_EQ(MOIETY_E_CORRUPT, Thrown([&] {
                  moiety::ipc_import refused(handle, nullptr, stream_);
              }));
    EXPECT_TRUE(log.IsEmpty());
    handle = HandleOf(pool, block.address());
    {
        moiety::ipc_import import(handle, nullptr, stream_);
        EXPECT_EQ(MOIETY_OK, moiety_ipc_close(import.address(),
                                              MOIETY_STREAM_DONE, nullptr));
    }
    EXPECT_TRUE(log.Has("moiety::~ipc_import: MOIETY_E_INVALID: "));
    EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool.get(), 0));
}

TEST_F(CxxOwner, ImportsAreClosedWithoutWaiting)
{
    moiety::pool pool = Exportable();
    moiety::buffer block = pool.alloc(64 * kKiB, stream_);
    moiety_ipc_handle handle = HandleOf(pool, block.address());
    moiety::ipc_import import(handle, nullptr, stream_);
    moiety::ipc_closing closing = import.close();
    EXPECT_EQ(0u, import.address());
    EXPECT_EQ(0u, import.size());
    EXPECT_TRUE(closing.wait(0)) << "of this process's own";
    EXPECT_TRUE(moiety::ipc_closing().wait(0));
    EXPECT_EQ(MOIETY_E_INVALID, Thrown([] {
                  auto none = reinterpret_cast<moiety_closing>(1000000);
                  (void)moiety::ipc_closing(none).wait(0);
              }));
    EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool.get(), 0));
}

TEST_F(CxxOwner, ImportsAreReceived)
{
    moiety::pool pool = Exportable();
    moiety::buffer block = pool.alloc(64 * kKiB, stream_);
    int sockets[2];
    ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
    ASSERT_EQ(MOIETY_OK,
              moiety_ipc_send(pool.get(), block.address(), sockets[0]));
    {
        moiety::ipc_import import(sockets[1], pool_test::PrimaryContext(),
                                  stream_);
        EXPECT_EQ(block.address(), import.address());
        EXPECT_EQ(64 * kKiB, import.size());
    }
    close(sockets[0]);
    EXPECT_EQ(MOIETY_E_PEER_GONE, Thrown([&] {
                  moiety::ipc_import refused(
                      sockets[1], pool_test::PrimaryContext(), stream_);
              }));
    close(sockets[1]);
    EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool.get(), 0));
}

// --- recordings ---

class CxxTrace : public CxxOwner
{
  protected:
    ~CxxTrace() override
    {
        unlink(path_.c_str());
    }
    static moiety::pool Recorded()
    {
        moiety_pool_options options = pool_test::Defaults();
        options.history_entries = 1024;
        return moiety::pool(options);
    }
    off_t Size() const
    {
        struct stat found = {};
        return stat(path_.c_str(), &found) == 0 ? found.st_size : -1;
    }
    const std::string path_ =
        ::testing::TempDir() + "cxx" + std::to_string(getpid()) + ".trace";
};

TEST_F(CxxTrace, PoolsAreRecorded)
{
    Log log(MOIETY_LOG_ERROR);
    moiety::pool pool = Recorded();
    {
        moiety::trace first(pool, path_.c_str());
        moiety::trace second(std::move(first));
        EXPECT_FALSE(first.is_recording()); // NOLINT
        EXPECT_TRUE(second.is_recording());
        (void)pool.alloc(512, stream_);
        EXPECT_LE(2u, second.flush().operation_count);
        (void)pool.alloc(512, stream_);
        EXPECT_LE(4u, second.stop().operation_count);
        EXPECT_FALSE(second.is_recording());
        EXPECT_EQ(MOIETY_E_INVALID, Thrown([&] { (void)second.flush(); }));
    }
    EXPECT_LT(0, Size());
    {
        moiety::trace ends(pool, path_.c_str());
        (void)pool.alloc(512, stream_);
    }
    EXPECT_TRUE(log.IsEmpty());
    moiety_trace_summary summary = {};
    summary.struct_size = sizeof summary;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_trace_stop(pool.get(), &summary))
        << "its end stopped it";
}

TEST_F(CxxTrace, IsRefused)
{
    moiety::pool plain(pool_test::Defaults());
    EXPECT_EQ(MOIETY_E_UNSUPPORTED,
              Thrown([&] { moiety::trace refused(plain, path_.c_str()); }));
    moiety::pool pool = Recorded();
    EXPECT_EQ(MOIETY_E_INVALID,
              Thrown([&] { moiety::trace refused(pool, "/nowhere/to/be"); }));
    Log log(MOIETY_LOG_ERROR);
    {
        moiety::trace trace(pool, path_.c_str());
        EXPECT_EQ(MOIETY_OK, moiety_trace_stop(pool.get(), nullptr));
    }
    EXPECT_TRUE(log.Has("moiety::~trace: MOIETY_E_INVALID: "));
}

} // namespace
