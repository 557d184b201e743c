// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <thread>

#include "tests/fault/further_steps.h"
#include "tests/fault/mapped_steps.h"
#include "tests/fault/scenario.h"
#include "tests/support/tools/pools.h"

namespace fault_test
{
namespace
{

using namespace pool_test;

constexpr uint64_t kLimitBytes = 24 * kMiB;

void Probe(World &world)
{
    moiety_caps caps = {};
    caps.struct_size = sizeof(caps);
    (void)TRY(world, moiety_probe, (0, &caps));
    world.Note("moiety_feature_name"), (void)moiety_feature_name(1);
    world.Note("moiety_version"), (void)moiety_version();
}

void Told(uint32_t, const char *message, void *)
{
    EXPECT_STRNE("", message);
}

// All that follows has messages, which nobody misses where there is no memory for
// them.
void Listen(World &world)
{
    EXPECT_TRUE(TRY(world, moiety_set_log, (MOIETY_LOG_INFO, Told, nullptr)));
}

void StopListening(World &world)
{
    EXPECT_TRUE(TRY(world, moiety_set_log, (0, nullptr, nullptr)));
}

void Create(World &world)
{
    moiety_pool_options options = pool_test::Defaults();
    options.flags = MOIETY_POOL_EXPORTABLE | MOIETY_POOL_REUSE_DEPENDENCIES;
    options.limit_bytes = kLimitBytes;
    options.first_segment_bytes = options.largest_segment_bytes = 4 * kMiB;
    options.wait_ms = MOIETY_WAIT_NONE;
    options.history_entries = 16;
    if (TRY(world, moiety_pool_create, (&options, &world.pool)))
        (void)TRY(world, moiety_pool_add_context, (world.pool, world.further));
}

void Classes(World &world)
{
    for (moiety_stream stream :
         {static_cast<moiety_stream>(world.first), MOIETY_STREAM_LEGACY,
          MOIETY_STREAM_PER_THREAD, MOIETY_STREAM_ANY}) {
        for (size_t size_bytes : {512U, 5000U, 100000U, 900000U})
            world.Alloc(size_bytes, stream);
        world.FreeAll(stream);
    }
}

void Large(World &world)
{
    world.Alloc(3 * kMiB, world.first);
    world.Alloc(9 * kMiB, world.second);
    world.FreeAll(world.first);
    world.Alloc(3 * kMiB, world.second);
    world.FreeAll(MOIETY_STREAM_DONE);
}

void OtherAllocs(World &world)
{
    moiety_devptr address = 0, several[70] = {};
    if (!world.pool)
        return;
    if (TRY_WAY(world, alloc_aligned,
                (world.pool, 9 * kKiB, 64 * kKiB, world.first, &address))) {
        EXPECT_EQ(0u, address % (64 * kKiB));
        world.Own(address, 9 * kKiB);
    }
    if (TRY_WAY(world, alloc_no_wait,
                (world.pool, 7 * kKiB, world.first, &address)))
        world.Own(address, 7 * kKiB);
    if (TRY(world, moiety_alloc_batch,
            (world.pool, 20 * kKiB, world.second, 70, several)))
        for (moiety_devptr one : several)
            world.Own(one, 20 * kKiB);
    world.FreeAll(world.second);
}

void OtherFrees(World &world)
{
    world.Alloc(4 * kKiB, world.first);
    world.FreeNewest([&](moiety_devptr address, size_t) {
        size_t bytes = 0;
        (void)TRY(world, moiety_usable_size, (world.pool, address, &bytes));
        return TRY(world, moiety_free_sized,
                   (world.pool, address, 4 * kKiB, world.first));
    });
    world.Alloc(4 * kKiB, world.first);
    world.FreeNewest([&](moiety_devptr address, size_t) {
        size_t freed = 0;
        (void)TRY(world, moiety_free_batch,
                  (world.pool, &address, 1, MOIETY_STREAM_ANY, &freed));
        return freed == 1;
    });
    world.Alloc(4 * kKiB, world.first);
    world.FreeNewest([&](moiety_devptr address, size_t) {
        return TRY(world, moiety_free_on_event,
                   (world.pool, address, world.event));
    });
    world.FreeAll(MOIETY_STREAM_DONE);
}

// These call nobody, so that no fault reaches them: they do what the cache can.
void CachedOnly(World &world)
{
    moiety_devptr address = 0;
    if (!world.pool)
        return;
    world.Alloc(4 * kKiB, world.first);
    world.FreeAll(world.first);
    world.Note("moiety_alloc_with");
    world.Note("moiety_free_no_call");
    moiety_status status =
        alloc_no_call(world.pool, 4 * kKiB, world.first, &address);
    if (status != MOIETY_OK) {
        EXPECT_EQ(MOIETY_E_WOULD_BLOCK, status);
        return;
    }
    world.Own(address, 4 * kKiB);
    world.FreeNewest([&](moiety_devptr own, size_t) {
        return moiety_free_no_call(world.pool, own, world.first) == MOIETY_OK ||
               TRY(world, moiety_free, (world.pool, own, world.first));
    });
}

void RecordUse(World &world)
{
    for (int i = 0; i < 2; i++) {
        world.Alloc(8 * kKiB, world.first);
        world.FreeNewest([&](moiety_devptr address, size_t) {
            for (moiety_stream stream :
                 {static_cast<moiety_stream>(world.second), MOIETY_STREAM_ANY})
                (void)TRY(world, moiety_record_use,
                          (world.pool, address, stream));
            return TRY(world, moiety_free, (world.pool, address, world.first));
        });
    }
    world.FreeAll(MOIETY_STREAM_ANY);
}

void UnderAGuard(World &world)
{
    bool is_held = TRY(world, moiety_capture_guard_begin, ());
    world.Alloc(4 * kKiB, world.first);
    world.Alloc(4 * kKiB, MOIETY_STREAM_ANY);
    world.FreeAll(world.first);
    world.Alloc(4 * kKiB, MOIETY_STREAM_ANY);
    world.FreeAll(MOIETY_STREAM_ANY);
    if (is_held) {
        EXPECT_TRUE(TRY(world, moiety_capture_guard_end, ()));
    }
}

void Share(World &world)
{
    moiety_devptr address = 0;
    moiety_ipc_handle handle;
    world.Alloc(64 * kKiB, world.first);
    world.FreeNewest([&](moiety_devptr block, size_t) {
        if (TRY(world, moiety_ipc_export, (world.pool, block + 9, &handle)) &&
            TRY(world, moiety_ipc_import,
                (&handle, sizeof handle, nullptr, &address)) &&
            !TRY(world, moiety_ipc_close,
                 (address, MOIETY_STREAM_DONE, nullptr)))
            world.imported.push_back(address);
        return TRY(world, moiety_free, (world.pool, block, world.first));
    });
    if (world.pool)
        (void)TRY(world, moiety_ipc_release_exports, (world.pool, 0));
    world.FreeAll(MOIETY_STREAM_DONE);
}

// New threads have none.
void ImportWithoutAContext(World &world)
{
    std::thread([&] {
        for (const moiety_ipc_handle &handle : world.handles) {
            moiety_devptr address = 0;
            if (TRY(world, moiety_ipc_import,
                    (&handle, sizeof handle, nullptr, &address)) &&
                !TRY(world, moiety_ipc_close,
                     (address, MOIETY_STREAM_DONE, nullptr)))
                world.imported.push_back(address);
        }
    }).join();
}

// Every second close returns at once.
void Import(World &world)
{
    unsigned turn = 0;
    for (const moiety_ipc_handle &handle : world.handles)
        for (moiety_stream stream :
             {static_cast<moiety_stream>(world.first), MOIETY_STREAM_DONE,
              MOIETY_STREAM_LEGACY, MOIETY_STREAM_ANY}) {
            moiety_devptr address = 0;
            moiety_closing closing = nullptr;
            if (!TRY(world, moiety_ipc_import,
                     (&handle, sizeof handle, nullptr, &address)))
                continue;
            if (TRY(world, moiety_ipc_close,
                    (address, stream, turn++ % 2 ? &closing : nullptr)))
                (void)TRY(world, moiety_ipc_wait, (closing, 60000));
            else
                world.imported.push_back(address);
        }
    ImportWithoutAContext(world);
    uint32_t open_count = 0;
    (void)TRY(world, moiety_ipc_trim, (0, &open_count));
}

void RetireStream(World &world)
{
    world.Alloc(4 * kKiB, world.second);
    world.FreeAll(world.second);
    if (world.pool)
        (void)TRY(world, moiety_pool_retire_stream, (world.pool, world.second));
    (void)TRY(world, moiety_retire_stream, (world.second));
    world.Alloc(4 * kKiB, world.first);
    world.FreeAll(world.first);
    if (world.pool)
        (void)TRY(world, moiety_pool_synchronize, (world.pool, 1000));
}

// Everything is in caches or at the driver, and one call wants it all.
void AtTheLimit(World &world)
{
    for (int i = 0; i < 20; i++)
        world.Alloc(kMiB, world.first);
    world.FreeAll(world.first);
    world.Alloc(22 * kMiB, MOIETY_STREAM_LEGACY);
    world.FreeAll(MOIETY_STREAM_ANY);
}

int CallBack(moiety_pool *pool, size_t, void *)
{
    moiety_devptr address = 0;
    if (moiety_alloc(pool, 512, MOIETY_STREAM_DONE, &address) != MOIETY_OK)
        return 0;
    EXPECT_OK(moiety_free(pool, address, MOIETY_STREAM_DONE));
    return 1;
}

void OutOfMemory(World &world)
{
    moiety_devptr address = 77;
    if (!world.pool)
        return;
    bool has_callback = TRY(world, moiety_pool_add_oom_callback,
                            (world.pool, CallBack, nullptr));
    world.Alloc(14 * kMiB, world.first);
    EXPECT_NE(MOIETY_OK,
              moiety_alloc(world.pool, 20 * kMiB, world.first, &address));
    EXPECT_EQ(77u, address);
    moiety_oom_report report = {};
    char text[4096];
    report.struct_size = sizeof(report);
    if (TRY(world, moiety_pool_last_oom, (world.pool, &report)))
        world.Note("moiety_oom_text"),
            (void)moiety_oom_text(&report, text, sizeof text);
    if (has_callback) {
        EXPECT_TRUE(TRY(world, moiety_pool_remove_oom_callback,
                        (world.pool, CallBack, nullptr)));
    }
    world.FreeAll(MOIETY_STREAM_ANY);
}

// The limit stays as it is.
void Settings(World &world)
{
    moiety_devptr address = 0;
    moiety_pool *pool = nullptr;
    moiety_pool_options options = driver_options();
    if (!world.pool)
        return;
    (void)TRY(world, moiety_pool_set_limit, (world.pool, kLimitBytes));
    (void)TRY(world, moiety_pool_reserve, (world.pool, 4 * kMiB));
    if (TRY(world, moiety_pool_get_options, (world.pool, &options))) {
        EXPECT_EQ(kLimitBytes, options.limit_bytes);
    }
    if (TRY_WAY(world, alloc_zeroed,
                (world.pool, 5 * kKiB, world.first, &address))) {
        world.Own(address, 5 * kKiB);
        EXPECT_TRUE(TRY(world, moiety_pool_of, (address, &pool)));
        EXPECT_EQ(world.pool, pool);
    }
    world.FreeAll(world.first);
    EXPECT_TRUE(TRY(world, moiety_pool_reset_peaks, (world.pool)));
}

void AskAndTrim(World &world)
{
    moiety_pool_stats stats = {};
    moiety_driver_error error = {};
    uint64_t value = 0;
    stats.struct_size = sizeof(stats);
    error.struct_size = sizeof(error);
    if (!world.pool)
        return;
    (void)TRY(world, moiety_pool_trim, (world.pool, 0, nullptr));
    if (TRY(world, moiety_pool_get_stats, (world.pool, &stats))) {
        EXPECT_EQ(0u, stats.double_frees_found);
        EXPECT_EQ(stats.reserved_bytes_current - stats.unreleased_bytes,
                  stats.allocated_bytes_current + stats.cached_bytes +
                      stats.retiring_bytes + stats.free_bytes);
    }
    world.Note("moiety_pool_stats_entry"),
        (void)moiety_pool_stats_entry(&stats, 0, &value);
    (void)TRY(world, moiety_pool_options_check, (nullptr));
    world.Note("moiety_set_interrupt"), moiety_set_interrupt(nullptr, nullptr);
    world.Note("moiety_capture_age_ns"), (void)moiety_capture_age_ns();
    (void)TRY(world, moiety_last_driver_error, (&error));
    world.Note("moiety_last_error_message");
    world.Note("moiety_status_name"), (void)moiety_status_name(MOIETY_OK);
    world.Note("moiety_status_text"), (void)moiety_status_text(MOIETY_OK);
}

// Refused while a guard is held, it ends with that.
void DestroyLater(World &world)
{
    moiety_pool_options options = driver_options();
    moiety_pool *pool = nullptr;
    world.Note("moiety_log"), moiety_log(MOIETY_LOG_INFO, "a message");
    world.Note("moiety_fail");
    EXPECT_EQ(MOIETY_E_INVALID, moiety_fail(MOIETY_E_INVALID, "a message"));
    if (!TRY(world, moiety_pool_create, (&options, &pool)))
        return;
    bool is_held = TRY(world, moiety_capture_guard_begin, ());
    if (!TRY(world, moiety_pool_destroy_later, (pool)))
        (void)TRY(world, moiety_pool_destroy_later, (pool));
    if (is_held) {
        EXPECT_TRUE(TRY(world, moiety_capture_guard_end, ()));
    }
}

// What was refused before is freed now, with one more try.
void Destroy(World &world)
{
    moiety_leaks leaks = {};
    leaks.struct_size = sizeof(leaks);
    if (!world.pool)
        return;
    world.FreeAll(MOIETY_STREAM_DONE);
    world.FreeAll(MOIETY_STREAM_DONE);
    (void)TRY(world, moiety_ipc_release_exports, (world.pool, 0));
    (void)TRY_TO_END(world, moiety_pool_destroy, (world.pool, &leaks));
    EXPECT_EQ(0u, leaks.block_count);
    world.pool = nullptr;
}

} // namespace

const std::vector<Step> kSteps = {
    {"probe", Probe},
    {"listen", Listen},
    {"create", Create},
    {"classes", Classes},
    {"large blocks", Large},
    {"other allocations", OtherAllocs},
    {"other frees", OtherFrees},
    {"cached only", CachedOnly},
    {"record use", RecordUse},
    {"under a guard", UnderAGuard},
    {"destroyed later", DestroyLater},
    {"share with itself", Share},
    {"import", Import},
    {"retire a stream", RetireStream},
    {"at the limit", AtTheLimit},
    {"tenants", Tenants},
    {"scopes", Scopes},
    {"private arenas", PrivateArenas},
    {"resize and free all", ResizeAndFreeAll},
    {"free on a block's own stream", FreeOwn},
    {"snapshot", Snapshot},
    {"out of memory", OutOfMemory},
    {"look back", LookBack},
    {"record", Record},
    {"checked", Checked},
    {"host arena", HostArena},
    {"pins", Pins},
    {"settings", Settings},
    {"ask and trim", AskAndTrim},
    {"expose", Expose},
    // Last: it waits for events, with more or fewer calls each time, behind
    // which another call would be the n-th.
    {"mapped memory", Mapped},
    {"stop listening", StopListening},
};
const Step kLastStep = {"destroy", Destroy};

} // namespace fault_test
