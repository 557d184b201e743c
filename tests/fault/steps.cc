// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <thread>

#include "tests/fault/further_steps.h"
#include "tests/fault/mapped_steps.h"
#include "tests/fault/scenario.h"

namespace fault_test
{
namespace
{

using pool_test::kKiB;
using pool_test::kMiB;

constexpr uint64_t kLimitBytes = 24 * kMiB;

void Probe(World &world)
{
    binade_caps caps = {};
    caps.struct_size = sizeof(caps);
    (void)TRY(world, binade_probe, (0, &caps));
    world.Note("binade_feature_name"), (void)binade_feature_name(1);
    world.Note("binade_version"), (void)binade_version();
}

void Told(uint32_t, const char *message, void *)
{
    EXPECT_STRNE("", message);
}

// All that follows has messages, which nobody misses where there is no memory for
// them.
void Listen(World &world)
{
    EXPECT_TRUE(TRY(world, binade_set_log, (BINADE_LOG_INFO, Told, nullptr)));
}

void StopListening(World &world)
{
    EXPECT_TRUE(TRY(world, binade_set_log, (0, nullptr, nullptr)));
}

void Create(World &world)
{
    binade_pool_options options = pool_test::Defaults();
    options.flags = BINADE_POOL_EXPORTABLE | BINADE_POOL_REUSE_DEPENDENCIES;
    options.limit_bytes = kLimitBytes;
    options.first_segment_bytes = options.largest_segment_bytes = 4 * kMiB;
    options.wait_ms = 0;
    options.history_entries = 16;
    if (TRY(world, binade_pool_create, (&options, &world.pool)))
        (void)TRY(world, binade_pool_add_context, (world.pool, world.further));
}

void Classes(World &world)
{
    for (binade_stream stream :
         {static_cast<binade_stream>(world.first), BINADE_STREAM_LEGACY,
          BINADE_STREAM_PER_THREAD, BINADE_STREAM_ANY}) {
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
    world.FreeAll(BINADE_STREAM_DONE);
}

void OtherAllocs(World &world)
{
    binade_devptr address = 0, several[70] = {};
    if (!world.pool)
        return;
    if (TRY(world, binade_alloc_aligned,
            (world.pool, 9 * kKiB, 64 * kKiB, world.first, &address))) {
        EXPECT_EQ(0u, address % (64 * kKiB));
        world.Own(address, 9 * kKiB);
    }
    if (TRY(world, binade_try_alloc,
            (world.pool, 7 * kKiB, world.first, &address)))
        world.Own(address, 7 * kKiB);
    if (TRY(world, binade_alloc_batch,
            (world.pool, 20 * kKiB, world.second, 70, several)))
        for (binade_devptr one : several)
            world.Own(one, 20 * kKiB);
    world.FreeAll(world.second);
}

void OtherFrees(World &world)
{
    world.Alloc(4 * kKiB, world.first);
    world.FreeNewest([&](binade_devptr address, size_t) {
        size_t bytes = 0;
        (void)TRY(world, binade_usable_size, (world.pool, address, &bytes));
        return TRY(world, binade_free_sized,
                   (world.pool, address, 4 * kKiB, world.first));
    });
    world.Alloc(4 * kKiB, world.first);
    world.FreeNewest([&](binade_devptr address, size_t) {
        size_t freed = 0;
        (void)TRY(world, binade_free_batch,
                  (world.pool, &address, 1, BINADE_STREAM_ANY, &freed));
        return freed == 1;
    });
    world.Alloc(4 * kKiB, world.first);
    world.FreeNewest([&](binade_devptr address, size_t) {
        return TRY(world, binade_free_after,
                   (world.pool, address, world.event));
    });
    world.FreeAll(BINADE_STREAM_DONE);
}

// These call nobody, so that no fault reaches them: they do what the cache can.
void CachedOnly(World &world)
{
    binade_devptr address = 0;
    if (!world.pool)
        return;
    world.Alloc(4 * kKiB, world.first);
    world.FreeAll(world.first);
    world.Note("binade_alloc_cached");
    world.Note("binade_free_cached");
    binade_status status =
        binade_alloc_cached(world.pool, 4 * kKiB, world.first, &address);
    if (status != BINADE_OK) {
        EXPECT_EQ(BINADE_E_BUSY, status);
        return;
    }
    world.Own(address, 4 * kKiB);
    world.FreeNewest([&](binade_devptr own, size_t) {
        return binade_free_cached(world.pool, own, world.first) == BINADE_OK ||
               TRY(world, binade_free, (world.pool, own, world.first));
    });
}

void RecordUse(World &world)
{
    for (int i = 0; i < 2; i++) {
        world.Alloc(8 * kKiB, world.first);
        world.FreeNewest([&](binade_devptr address, size_t) {
            for (binade_stream stream :
                 {static_cast<binade_stream>(world.second), BINADE_STREAM_ANY})
                (void)TRY(world, binade_record_use,
                          (world.pool, address, stream));
            return TRY(world, binade_free, (world.pool, address, world.first));
        });
    }
    world.FreeAll(BINADE_STREAM_ANY);
}

void UnderAGuard(World &world)
{
    bool is_held = TRY(world, binade_capture_guard_begin, ());
    world.Alloc(4 * kKiB, world.first);
    world.Alloc(4 * kKiB, BINADE_STREAM_ANY);
    world.FreeAll(world.first);
    world.Alloc(4 * kKiB, BINADE_STREAM_ANY);
    world.FreeAll(BINADE_STREAM_ANY);
    if (is_held) {
        EXPECT_TRUE(TRY(world, binade_capture_guard_end, ()));
    }
}

void Share(World &world)
{
    binade_devptr address = 0;
    binade_ipc_handle handle;
    world.Alloc(64 * kKiB, world.first);
    world.FreeNewest([&](binade_devptr block, size_t) {
        if (TRY(world, binade_ipc_export, (world.pool, block + 9, &handle)) &&
            TRY(world, binade_ipc_import,
                (&handle, sizeof handle, nullptr, &address)) &&
            !TRY(world, binade_ipc_close,
                 (address, BINADE_STREAM_DONE, nullptr)))
            world.imported.push_back(address);
        return TRY(world, binade_free, (world.pool, block, world.first));
    });
    if (world.pool)
        (void)TRY(world, binade_ipc_release_exports, (world.pool, 0));
    world.FreeAll(BINADE_STREAM_DONE);
}

// New threads have none.
void ImportWithoutAContext(World &world)
{
    std::thread([&] {
        for (const binade_ipc_handle &handle : world.handles) {
            binade_devptr address = 0;
            if (TRY(world, binade_ipc_import,
                    (&handle, sizeof handle, nullptr, &address)) &&
                !TRY(world, binade_ipc_close,
                     (address, BINADE_STREAM_DONE, nullptr)))
                world.imported.push_back(address);
        }
    }).join();
}

// Every second close returns at once.
void Import(World &world)
{
    unsigned turn = 0;
    for (const binade_ipc_handle &handle : world.handles)
        for (binade_stream stream :
             {static_cast<binade_stream>(world.first), BINADE_STREAM_DONE,
              BINADE_STREAM_LEGACY, BINADE_STREAM_ANY}) {
            binade_devptr address = 0;
            uint64_t closing = 0;
            if (!TRY(world, binade_ipc_import,
                     (&handle, sizeof handle, nullptr, &address)))
                continue;
            if (TRY(world, binade_ipc_close,
                    (address, stream, turn++ % 2 ? &closing : nullptr)))
                (void)TRY(world, binade_ipc_wait, (closing, 60000));
            else
                world.imported.push_back(address);
        }
    ImportWithoutAContext(world);
    uint32_t open_count = 0;
    (void)TRY(world, binade_ipc_trim, (0, &open_count));
}

void RetireStream(World &world)
{
    world.Alloc(4 * kKiB, world.second);
    world.FreeAll(world.second);
    if (world.pool)
        (void)TRY(world, binade_stream_retire, (world.pool, world.second));
    world.Alloc(4 * kKiB, world.first);
    world.FreeAll(world.first);
    if (world.pool)
        (void)TRY(world, binade_pool_synchronize, (world.pool, 1000));
}

// Everything is in caches or at the driver, and one call wants it all.
void AtTheLimit(World &world)
{
    for (int i = 0; i < 20; i++)
        world.Alloc(kMiB, world.first);
    world.FreeAll(world.first);
    world.Alloc(22 * kMiB, BINADE_STREAM_LEGACY);
    world.FreeAll(BINADE_STREAM_ANY);
}

int CallBack(binade_pool *pool, size_t, void *)
{
    binade_devptr address = 0;
    if (binade_alloc(pool, 512, BINADE_STREAM_DONE, &address) != BINADE_OK)
        return 0;
    EXPECT_EQ(BINADE_OK, binade_free(pool, address, BINADE_STREAM_DONE));
    return 1;
}

void OutOfMemory(World &world)
{
    binade_devptr address = 77;
    if (!world.pool)
        return;
    bool has_callback = TRY(world, binade_pool_add_oom_callback,
                            (world.pool, CallBack, nullptr));
    world.Alloc(14 * kMiB, world.first);
    EXPECT_NE(BINADE_OK,
              binade_alloc(world.pool, 20 * kMiB, world.first, &address));
    EXPECT_EQ(77u, address);
    binade_oom_report report = {};
    char text[4096];
    report.struct_size = sizeof(report);
    if (TRY(world, binade_last_oom, (world.pool, &report)))
        world.Note("binade_oom_text"),
            (void)binade_oom_text(&report, text, sizeof text);
    if (has_callback) {
        EXPECT_TRUE(TRY(world, binade_pool_remove_oom_callback,
                        (world.pool, CallBack, nullptr)));
    }
    world.FreeAll(BINADE_STREAM_ANY);
}

// The limit stays as it is.
void Settings(World &world)
{
    binade_devptr address = 0;
    binade_pool *pool = nullptr;
    binade_pool_options options = BINADE_POOL_OPTIONS_INIT;
    if (!world.pool)
        return;
    (void)TRY(world, binade_pool_set_limit, (world.pool, kLimitBytes));
    (void)TRY(world, binade_pool_reserve, (world.pool, 4 * kMiB));
    if (TRY(world, binade_pool_options_get, (world.pool, &options))) {
        EXPECT_EQ(kLimitBytes, options.limit_bytes);
    }
    if (TRY(world, binade_alloc_zeroed,
            (world.pool, 5 * kKiB, world.first, &address))) {
        world.Own(address, 5 * kKiB);
        EXPECT_TRUE(TRY(world, binade_pool_of, (address, &pool)));
        EXPECT_EQ(world.pool, pool);
    }
    world.FreeAll(world.first);
    EXPECT_TRUE(TRY(world, binade_pool_reset_peaks, (world.pool)));
}

void AskAndTrim(World &world)
{
    binade_stats stats = {};
    binade_driver_error error = {};
    uint64_t value = 0;
    stats.struct_size = sizeof(stats);
    error.struct_size = sizeof(error);
    if (!world.pool)
        return;
    (void)TRY(world, binade_pool_trim, (world.pool, 0, nullptr));
    if (TRY(world, binade_pool_stats, (world.pool, &stats))) {
        EXPECT_EQ(0u, stats.double_frees_found);
        EXPECT_EQ(stats.reserved_bytes_current - stats.unreleased_bytes,
                  stats.allocated_bytes_current + stats.cached_bytes +
                      stats.retiring_bytes + stats.free_bytes);
    }
    world.Note("binade_stats_entry"),
        (void)binade_stats_entry(&stats, 0, &value);
    (void)TRY(world, binade_last_driver_error, (&error));
    world.Note("binade_last_error_message");
    world.Note("binade_status_name"), (void)binade_status_name(BINADE_OK);
    world.Note("binade_status_text"), (void)binade_status_text(BINADE_OK);
}

// What was refused before is freed now, with one more try.
void Destroy(World &world)
{
    binade_leaks leaks = {};
    leaks.struct_size = sizeof(leaks);
    if (!world.pool)
        return;
    world.FreeAll(BINADE_STREAM_DONE);
    world.FreeAll(BINADE_STREAM_DONE);
    (void)TRY(world, binade_ipc_release_exports, (world.pool, 0));
    (void)TRY(world, binade_pool_destroy, (world.pool, &leaks));
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
