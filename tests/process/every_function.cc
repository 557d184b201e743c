// SPDX-License-Identifier: Apache-2.0
#include "tests/process/every_function.h"

#include <cstring>

namespace process_test
{
namespace
{

const binade_stream kStream = BINADE_STREAM_LEGACY;

int NeverCalled(binade_pool *, size_t, void *)
{
    return 0;
}

using Calls = std::map<std::string, std::function<bool()>>;

#define FORKED(name, call)                                                     \
    calls[#name] = [&a] {                                                      \
        (void)a;                                                               \
        return name call == BINADE_E_FORKED;                                   \
    }

void AddBlocks(const Arguments &a, Calls &calls)
{
    static binade_devptr out;
    static size_t bytes;
    FORKED(binade_alloc, (a.pool, 4096, kStream, &out));
    FORKED(binade_alloc_aligned, (a.pool, 9, 4096, kStream, &out));
    FORKED(binade_try_alloc, (a.pool, 4096, kStream, &out));
    FORKED(binade_alloc_zeroed, (a.pool, 4096, kStream, &out));
    FORKED(binade_alloc_batch, (a.pool, 4096, kStream, 1, &out));
    FORKED(binade_free, (a.pool, a.block, kStream));
    FORKED(binade_free_sized, (a.pool, a.block, 4096, kStream));
    FORKED(binade_free_own, (a.pool, a.block));
    FORKED(binade_free_batch, (a.pool, &a.block, 1, kStream, nullptr));
    FORKED(binade_free_after, (a.pool, a.block, a.event));
    FORKED(binade_record_use, (a.pool, a.block, a.stream));
    FORKED(binade_usable_size, (a.pool, a.block, &bytes));
    FORKED(binade_resize, (a.pool, a.block, 4096, kStream));
    static uint64_t freed;
    FORKED(binade_free_all, (a.pool, kStream, &freed));
    // They have nothing, and leave it to others to say why.
    calls["binade_alloc_cached"] = [&a] {
        return binade_alloc_cached(a.pool, 4096, kStream, &out) ==
               BINADE_E_BUSY;
    };
    calls["binade_free_cached"] = [&a] {
        return binade_free_cached(a.pool, a.block, kStream) == BINADE_E_BUSY;
    };
}

void AddPools(const Arguments &a, Calls &calls)
{
    static binade_pool *pool;
    static binade_stats stats;
    static binade_pool_options options = BINADE_POOL_OPTIONS_INIT;
    static binade_segment_info segment;
    static binade_oom_report report;
    stats.struct_size = sizeof(stats);
    segment.struct_size = sizeof(segment);
    report.struct_size = sizeof(report);
    FORKED(binade_pool_create, (nullptr, &pool));
    FORKED(binade_pool_of, (a.block, &pool));
    FORKED(binade_pool_options_get, (a.pool, &options));
    FORKED(binade_pool_reserve, (a.pool, 4096));
    FORKED(binade_pool_reset_peaks, (a.pool));
    FORKED(binade_pool_set_limit, (a.pool, 0));
    FORKED(binade_pool_destroy, (a.pool, nullptr));
    FORKED(binade_pool_trim, (a.pool, 0, nullptr));
    FORKED(binade_pool_stats, (a.pool, &stats));
    FORKED(binade_pool_synchronize, (a.pool, 0));
    FORKED(binade_pool_context_lost, (a.pool));
    FORKED(binade_pool_add_context, (a.pool, a.context));
    FORKED(binade_pool_add_peer, (a.pool, 1));
    FORKED(binade_segment_find, (a.pool, a.block, &segment));
    FORKED(binade_segment_hold, (a.pool, a.block, 1));
    FORKED(binade_segment_release, (a.pool, a.block, 1));
    static binade_segment_watcher watcher;
    static uint64_t watch;
    watcher.struct_size = sizeof(watcher);
    watcher.added = [](void *, const binade_segment_info *) {};
    FORKED(binade_segment_watch, (a.pool, &watcher, &watch));
    FORKED(binade_segment_unwatch, (a.pool, 1));
    FORKED(binade_pool_add_oom_callback, (a.pool, NeverCalled, nullptr));
    FORKED(binade_pool_remove_oom_callback, (a.pool, NeverCalled, nullptr));
    FORKED(binade_last_oom, (a.pool, &report));
    FORKED(binade_set_log, (0, nullptr, nullptr));
    FORKED(binade_stream_retire, (a.pool, a.stream));
    FORKED(binade_capture_guard_begin, ());
    FORKED(binade_capture_guard_end, ());
}

void AddSharing(const Arguments &a, Calls &calls)
{
    static binade_ipc_handle handle;
    static binade_devptr out;
    FORKED(binade_ipc_export, (a.pool, a.block, &handle));
    FORKED(binade_ipc_release_exports, (a.pool, 0));
    FORKED(binade_ipc_import, (&a.handle, sizeof a.handle, a.context, &out));
    FORKED(binade_ipc_close, (a.block, kStream, nullptr));
    FORKED(binade_ipc_ticket, (a.pool, a.block, &handle));
    FORKED(binade_ipc_send, (a.pool, a.block, 0));
    FORKED(binade_ipc_receive, (0, a.context, nullptr, &out));
    FORKED(binade_ipc_wait, (0, 0));
    FORKED(binade_ipc_trim, (0, nullptr));
}

void AddTenantsAndScopes(const Arguments &a, Calls &calls)
{
    static binade_devptr out;
    static binade_tenant tenant;
    static binade_tenant_info info;
    static binade_tenant_options options;
    static binade_private arena;
    options.struct_size = sizeof options;
    static binade_scope scope;
    info.struct_size = sizeof(info);
    FORKED(binade_tenant_create, (a.pool, "", 0, &tenant));
    FORKED(binade_tenant_alloc, (a.tenant, 9, kStream, &out));
    FORKED(binade_tenant_alloc_aligned, (a.tenant, 9, 512, kStream, &out));
    FORKED(binade_tenant_try_alloc, (a.tenant, 9, kStream, &out));
    FORKED(binade_tenant_set_budget, (a.tenant, 0));
    FORKED(binade_tenant_stats, (a.tenant, &info));
    FORKED(binade_tenant_create_with, (a.pool, &options, &tenant));
    FORKED(binade_tenant_private, (a.tenant, &arena));
    FORKED(binade_tenant_pause, (a.tenant, 0));
    FORKED(binade_tenant_resume, (a.tenant));
    FORKED(binade_tenant_destroy, (a.tenant));
    FORKED(binade_scope_begin, (a.pool, a.stream, &scope));
    FORKED(binade_scope_end, (1));
    FORKED(binade_scope_release, (1));
    FORKED(binade_scope_release_all, (a.pool));
}

void AddPrivateArenas(const Arguments &a, Calls &calls)
{
    static binade_devptr out;
    static binade_private arena;
    static binade_private_info info;
    static binade_private_options options;
    options.struct_size = sizeof options;
    static binade_scope scope;
    static uint64_t bytes;
    info.struct_size = sizeof(info);
    FORKED(binade_private_create, (a.pool, 0, &arena));
    FORKED(binade_private_alloc, (a.arena, 4096, kStream, &out));
    FORKED(binade_private_claim, (a.arena, a.block, 4096, kStream));
    FORKED(binade_private_trim, (a.arena, &bytes));
    FORKED(binade_private_stats, (a.arena, &info));
    FORKED(binade_private_scope_begin, (a.arena, a.stream, &scope));
    FORKED(binade_private_create_with, (a.pool, &options, &arena));
    FORKED(binade_private_pause, (a.arena, 0));
    FORKED(binade_private_resume, (a.arena));
    FORKED(binade_private_release, (a.arena));
}

void AddHostArenas(const Arguments &a, Calls &calls)
{
    static binade_host *host;
    static void *out;
    static binade_devptr device;
    static binade_host_stats stats;
    static char text[64];
    stats.struct_size = sizeof(stats);
    FORKED(binade_host_create, (nullptr, &host));
    FORKED(binade_host_destroy, (a.host, nullptr));
    FORKED(binade_host_alloc, (a.host, 4096, BINADE_HOST_CPU, &out));
    FORKED(binade_host_try_alloc, (a.host, 4096, kStream, &out));
    FORKED(binade_host_free, (a.host, a.host_block, kStream));
    FORKED(binade_host_free_sized, (a.host, a.host_block, 4096, kStream));
    FORKED(binade_host_resize, (a.host, a.host_block, 4096, kStream));
    FORKED(binade_host_free_all, (a.host, kStream, nullptr));
    FORKED(binade_host_device_address, (a.host, a.host_block, &device));
    FORKED(binade_host_reserve, (a.host, 1, 0, nullptr, nullptr));
    FORKED(binade_host_trim, (a.host, 0, nullptr));
    FORKED(binade_host_stats_get, (a.host, &stats));
    FORKED(binade_host_report, (a.host, text, sizeof text));
    FORKED(binade_host_topology, (0, text, sizeof text, nullptr));
    FORKED(binade_host_pin, (text, sizeof text));
    FORKED(binade_host_unpin, (text, sizeof text));
    FORKED(binade_host_pin_keep, (0));
    calls["binade_host_pool"] = [&a] {
        return binade_host_pool(a.host) != nullptr;
    };
}

void AddViews(const Arguments &a, Calls &calls)
{
    static binade_heap_snapshot *snapshot;
    static binade_history_summary history;
    static binade_checked_counts counts;
    history.struct_size = sizeof(history);
    counts.struct_size = sizeof(counts);
    FORKED(binade_heap_snapshot_create, (a.pool, &snapshot));
    FORKED(binade_history_read, (a.pool, nullptr, 0, &history));
    FORKED(binade_pool_check, (a.pool, &counts));
    FORKED(binade_record_start, (a.pool, "/dev/null"));
    FORKED(binade_record_flush, (a.pool, nullptr));
    FORKED(binade_record_stop, (a.pool, nullptr));
    FORKED(binade_expose_start, ("/tmp/binade-never"));
    FORKED(binade_expose_stop, ());
    calls["binade_heap_snapshot_destroy"] = [] {
        binade_heap_snapshot_destroy(nullptr);
        return true;
    };
    calls["binade_heap_snapshot_summary"] = [] {
        return binade_heap_snapshot_summary(nullptr, nullptr) ==
               BINADE_E_INVALID;
    };
    calls["binade_heap_snapshot_segments"] = [] {
        size_t count = 7;
        return !binade_heap_snapshot_segments(nullptr, &count) && count == 0;
    };
    calls["binade_heap_snapshot_intervals"] = [] {
        size_t count = 7;
        return !binade_heap_snapshot_intervals(nullptr, &count) && count == 0;
    };
    calls["binade_heap_kind_name"] = [] {
        return binade_heap_kind_name(BINADE_HEAP_USED) != nullptr;
    };
    calls["binade_history_kind_name"] = [] {
        return binade_history_kind_name(BINADE_HISTORY_ALLOC) != nullptr;
    };
}

// What says something of the library itself goes on saying it.
void AddTexts(const Arguments &a, Calls &calls)
{
    static binade_caps caps;
    caps.struct_size = sizeof(caps);
    FORKED(binade_probe, (0, &caps));
    calls["binade_version"] = [] {
        return std::strcmp(binade_version(), BINADE_VERSION_STRING) == 0;
    };
    calls["binade_status_name"] = [] {
        return std::strcmp(binade_status_name(BINADE_E_FORKED),
                           "BINADE_E_FORKED") == 0;
    };
    calls["binade_status_text"] = [] {
        return binade_status_text(BINADE_E_FORKED)[0] != '\0';
    };
    calls["binade_feature_name"] = [] {
        return binade_feature_name(1) && !binade_feature_name(3);
    };
    calls["binade_stats_entry"] = [] {
        binade_stats stats = {};
        uint64_t value = 7;
        stats.struct_size = sizeof(stats);
        return binade_stats_entry(&stats, 0, &value) && value == 0;
    };
    calls["binade_oom_text"] = [] {
        binade_oom_report report = {};
        char text[4096];
        report.struct_size = sizeof(report);
        return binade_oom_text(&report, text, sizeof text) > 0;
    };
    calls["binade_last_error_message"] = [] {
        return binade_last_error_message() != nullptr;
    };
    calls["binade_last_driver_error"] = [] {
        binade_driver_error error = {};
        error.struct_size = sizeof(error);
        return binade_last_driver_error(&error) == BINADE_OK;
    };
}

} // namespace

Calls EveryFunctionInAChild(const Arguments &arguments)
{
    Calls calls;
    AddBlocks(arguments, calls);
    AddPools(arguments, calls);
    AddSharing(arguments, calls);
    AddTenantsAndScopes(arguments, calls);
    AddPrivateArenas(arguments, calls);
    AddHostArenas(arguments, calls);
    AddViews(arguments, calls);
    AddTexts(arguments, calls);
    return calls;
}

} // namespace process_test
