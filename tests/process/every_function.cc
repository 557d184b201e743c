// SPDX-License-Identifier: Apache-2.0
#include "tests/process/every_function.h"

#include "moiety/checked.h"
#include "moiety/expose.h"
#include "moiety/heap.h"
#include "moiety/history.h"
#include "moiety/ipc.h"
#include "moiety/oom.h"
#include "moiety/probe.h"
#include "moiety/segment.h"
#include "moiety/trace.h"
#include "tests/support/tools/pools.h"

#include <cstring>

namespace process_test
{
namespace
{

const moiety_stream kStream = MOIETY_STREAM_LEGACY;

int NeverCalled(moiety_pool *, size_t, void *)
{
    return 0;
}

using Calls = std::map<std::string, std::function<bool()>>;

#define FORKED(name, call)                                                     \
    calls[#name] = [&a] {                                                      \
        (void)a;                                                               \
        return name call == MOIETY_E_FORKED;                                   \
    }

void AddBlocks(const Arguments &a, Calls &calls)
{
    static moiety_devptr out;
    static size_t bytes;
    FORKED(moiety_alloc, (a.pool, 4096, kStream, &out));
    calls["moiety_alloc_with"] = [&a] {
        return alloc_aligned(a.pool, 9, 4096, kStream, &out) ==
                   MOIETY_E_FORKED &&
               alloc_no_wait(a.pool, 9, kStream, &out) == MOIETY_E_FORKED &&
               alloc_zeroed(a.pool, 9, kStream, &out) == MOIETY_E_FORKED &&
               alloc_for_tenant(a.tenant, 9, kStream, &out) ==
                   MOIETY_E_FORKED &&
               alloc_for_tenant_aligned(a.tenant, 9, 512, kStream, &out) ==
                   MOIETY_E_FORKED &&
               alloc_for_tenant_no_wait(a.tenant, 9, kStream, &out) ==
                   MOIETY_E_FORKED &&
               alloc_of_arena(a.arena, 4096, kStream, &out) ==
                   MOIETY_E_FORKED &&
               // It has nothing, and leaves it to others to say why.
               alloc_no_call(a.pool, 4096, kStream, &out) ==
                   MOIETY_E_WOULD_BLOCK;
    };
    FORKED(moiety_alloc_batch, (a.pool, 4096, kStream, 1, &out));
    FORKED(moiety_free, (a.pool, a.block, kStream));
    FORKED(moiety_free_sized, (a.pool, a.block, 4096, kStream));
    FORKED(moiety_free_on_alloc_stream, (a.pool, a.block));
    FORKED(moiety_free_batch, (a.pool, &a.block, 1, kStream, nullptr));
    FORKED(moiety_free_on_event, (a.pool, a.block, a.event));
    FORKED(moiety_record_use, (a.pool, a.block, a.stream));
    FORKED(moiety_usable_size, (a.pool, a.block, &bytes));
    FORKED(moiety_resize, (a.pool, a.block, 4096, kStream));
    static uint64_t freed;
    FORKED(moiety_free_all, (a.pool, kStream, &freed));
    // The same.
    calls["moiety_free_no_call"] = [&a] {
        return moiety_free_no_call(a.pool, a.block, kStream) ==
               MOIETY_E_WOULD_BLOCK;
    };
}

void AddPools(const Arguments &a, Calls &calls)
{
    static moiety_pool *pool;
    static moiety_pool_stats stats;
    static moiety_pool_options options = driver_options();
    static moiety_segment_info segment;
    static moiety_oom_report report;
    stats.struct_size = sizeof(stats);
    segment.struct_size = sizeof(segment);
    report.struct_size = sizeof(report);
    FORKED(moiety_pool_create, (nullptr, &pool));
    FORKED(moiety_default_pool, (0, &pool));
    FORKED(moiety_default_pool_set_options, (&options));
    FORKED(moiety_pool_of, (a.block, &pool));
    FORKED(moiety_pool_get_options, (a.pool, &options));
    // It looks at nothing that a fork could break.
    calls["moiety_pool_options_check"] = [] {
        return moiety_pool_options_check(nullptr) == MOIETY_OK;
    };
    FORKED(moiety_pool_reserve, (a.pool, 4096));
    FORKED(moiety_pool_reset_peaks, (a.pool));
    FORKED(moiety_pool_set_limit, (a.pool, 0));
    FORKED(moiety_pool_destroy, (a.pool, nullptr));
    FORKED(moiety_pool_destroy_later, (a.pool));
    FORKED(moiety_pool_trim, (a.pool, 0, nullptr));
    FORKED(moiety_pool_get_stats, (a.pool, &stats));
    FORKED(moiety_pool_synchronize, (a.pool, 0));
    FORKED(moiety_pool_context_lost, (a.pool));
    FORKED(moiety_pool_add_context, (a.pool, a.context));
    FORKED(moiety_pool_add_peer, (a.pool, 1));
    FORKED(moiety_segment_find, (a.pool, a.block, &segment));
    FORKED(moiety_segment_hold, (a.pool, a.block, 1));
    FORKED(moiety_segment_unhold, (a.pool, a.block, 1));
    static moiety_segment_watcher watcher;
    static moiety_watch watch;
    watcher.struct_size = sizeof(watcher);
    watcher.added = [](void *, const moiety_segment_info *) {};
    FORKED(moiety_segment_watch, (a.pool, &watcher, &watch));
    FORKED(moiety_segment_unwatch, (a.pool, reinterpret_cast<moiety_watch>(1)));
    FORKED(moiety_pool_add_oom_callback, (a.pool, NeverCalled, nullptr));
    FORKED(moiety_pool_remove_oom_callback, (a.pool, NeverCalled, nullptr));
    FORKED(moiety_pool_last_oom, (a.pool, &report));
    calls["moiety_capture_age_ns"] = [] {
        return moiety_capture_age_ns() == UINT64_MAX;
    };
    calls["moiety_set_interrupt"] = [] {
        moiety_set_interrupt(nullptr, nullptr);
        return true;
    };
    FORKED(moiety_set_log, (0, nullptr, nullptr));
    calls["moiety_fail"] = [] {
        return moiety_fail(MOIETY_E_FORKED, "in a child") == MOIETY_E_FORKED;
    };
    calls["moiety_log"] = [] {
        moiety_log(MOIETY_LOG_ERROR, "not in a child");
        return true;
    };
    FORKED(moiety_pool_retire_stream, (a.pool, a.stream));
    FORKED(moiety_retire_stream, (a.stream));
    FORKED(moiety_capture_guard_begin, ());
    FORKED(moiety_capture_guard_end, ());
}

void AddSharing(const Arguments &a, Calls &calls)
{
    static moiety_ipc_handle handle;
    static moiety_devptr out;
    FORKED(moiety_ipc_export, (a.pool, a.block, &handle));
    FORKED(moiety_ipc_release_exports, (a.pool, 0));
    FORKED(moiety_ipc_import, (&a.handle, sizeof a.handle, a.context, &out));
    FORKED(moiety_ipc_close, (a.block, kStream, nullptr));
    FORKED(moiety_ipc_ticket, (a.pool, a.block, &handle));
    FORKED(moiety_ipc_send, (a.pool, a.block, 0));
    FORKED(moiety_ipc_receive, (0, a.context, nullptr, &out));
    FORKED(moiety_ipc_wait, (0, 0));
    FORKED(moiety_ipc_trim, (0, nullptr));
}

void AddTenantsAndScopes(const Arguments &a, Calls &calls)
{
    static moiety_tenant tenant;
    static moiety_tenant_stats info;
    static moiety_tenant_options options;
    static moiety_private arena;
    options.struct_size = sizeof options;
    static moiety_scope scope;
    info.struct_size = sizeof(info);
    FORKED(moiety_tenant_set_budget, (a.tenant, 0));
    FORKED(moiety_tenant_get_stats, (a.tenant, &info));
    FORKED(moiety_tenant_create, (a.pool, &options, &tenant));
    FORKED(moiety_tenant_private, (a.tenant, &arena));
    FORKED(moiety_tenant_pause, (a.tenant, 0));
    FORKED(moiety_tenant_resume, (a.tenant));
    FORKED(moiety_tenant_destroy, (a.tenant));
    FORKED(moiety_scope_begin, (a.pool, a.stream, &scope));
    FORKED(moiety_scope_end, (reinterpret_cast<moiety_scope>(1)));
    FORKED(moiety_scope_release, (reinterpret_cast<moiety_scope>(1)));
    FORKED(moiety_scope_release_all, (a.pool));
}

void AddPrivateArenas(const Arguments &a, Calls &calls)
{
    static moiety_private arena;
    static moiety_private_stats info;
    static moiety_private_options options;
    options.struct_size = sizeof options;
    static moiety_scope scope;
    static uint64_t bytes;
    info.struct_size = sizeof(info);
    FORKED(moiety_private_claim, (a.arena, a.block, 4096, kStream));
    FORKED(moiety_private_trim, (a.arena, &bytes));
    FORKED(moiety_private_get_stats, (a.arena, &info));
    FORKED(moiety_private_scope_begin, (a.arena, a.stream, &scope));
    FORKED(moiety_private_create, (a.pool, &options, &arena));
    FORKED(moiety_private_pause, (a.arena, 0));
    FORKED(moiety_private_resume, (a.arena));
    FORKED(moiety_private_destroy, (a.arena));
}

void AddHostArenas(const Arguments &a, Calls &calls)
{
    static moiety_host *host;
    static void *out;
    static moiety_devptr device;
    static moiety_growth *growth;
    static moiety_host_stats stats;
    static char text[64];
    stats.struct_size = sizeof(stats);
    FORKED(moiety_host_create, (nullptr, &host));
    FORKED(moiety_host_destroy, (a.host, nullptr));
    FORKED(moiety_host_destroy_later, (a.host));
    FORKED(moiety_host_alloc, (a.host, 4096, MOIETY_HOST_CPU, &out));
    FORKED(moiety_host_alloc_with,
           (a.host, 4096, MOIETY_HOST_CPU, nullptr, &out));
    FORKED(moiety_host_free, (a.host, a.host_block, kStream));
    FORKED(moiety_host_free_sized, (a.host, a.host_block, 4096, kStream));
    FORKED(moiety_host_resize, (a.host, a.host_block, 4096, kStream));
    FORKED(moiety_host_free_all, (a.host, kStream, nullptr));
    FORKED(moiety_host_device_address, (a.host, a.host_block, &device));
    FORKED(moiety_host_reserve, (a.host, 1, 0, nullptr, nullptr));
    FORKED(moiety_host_reserve_async, (a.host, 1, 0, &growth));
    FORKED(moiety_growth_wait, (a.growth, 0));
    FORKED(moiety_growth_destroy, (a.growth));
    FORKED(moiety_host_copy_to_children, (a.host));
    FORKED(moiety_host_trim, (a.host, 0, nullptr));
    FORKED(moiety_host_get_stats, (a.host, &stats));
    FORKED(moiety_host_report, (a.host, text, sizeof text));
    FORKED(moiety_host_topology, (0, text, sizeof text, nullptr));
    FORKED(moiety_host_pin, (text, sizeof text));
    FORKED(moiety_host_unpin, (text, sizeof text));
    FORKED(moiety_host_pin_keep, (0));
    // Numbers go up, which nobody reads.
    calls["moiety_host_cancel"] = [&a] {
        moiety_host_cancel(a.host);
        return true;
    };
    calls["moiety_growth_cancel"] = [&a] {
        moiety_growth_cancel(a.growth);
        return true;
    };
    calls["moiety_growth_ready_bytes"] = [&a] {
        return moiety_growth_ready_bytes(a.growth) != 0;
    };
    calls["moiety_growth_descriptor"] = [&a] {
        return moiety_growth_descriptor(a.growth) >= 0;
    };
    calls["moiety_host_pool"] = [&a] {
        return moiety_host_pool(a.host) != nullptr;
    };
}

void AddViews(const Arguments &a, Calls &calls)
{
    static moiety_heap_snapshot *snapshot;
    static moiety_history_summary history;
    static moiety_checked_counts counts;
    history.struct_size = sizeof(history);
    counts.struct_size = sizeof(counts);
    FORKED(moiety_heap_snapshot_create, (a.pool, &snapshot));
    FORKED(moiety_history_read, (a.pool, nullptr, 0, &history));
    FORKED(moiety_pool_check, (a.pool, &counts));
    FORKED(moiety_trace_start, (a.pool, "/dev/null"));
    FORKED(moiety_trace_flush, (a.pool, nullptr));
    FORKED(moiety_trace_stop, (a.pool, nullptr));
    FORKED(moiety_expose_start, ("/tmp/moiety-never"));
    FORKED(moiety_expose_stop, ());
    calls["moiety_heap_snapshot_destroy"] = [] {
        moiety_heap_snapshot_destroy(nullptr);
        return true;
    };
    calls["moiety_heap_snapshot_summary"] = [] {
        return moiety_heap_snapshot_summary(nullptr, nullptr) ==
               MOIETY_E_INVALID;
    };
    calls["moiety_heap_snapshot_segments"] = [] {
        size_t count = 7;
        return !moiety_heap_snapshot_segments(nullptr, &count) && count == 0;
    };
    calls["moiety_heap_snapshot_intervals"] = [] {
        size_t count = 7;
        return !moiety_heap_snapshot_intervals(nullptr, &count) && count == 0;
    };
    calls["moiety_heap_kind_name"] = [] {
        return moiety_heap_kind_name(MOIETY_HEAP_USED) != nullptr;
    };
    calls["moiety_history_kind_name"] = [] {
        return moiety_history_kind_name(MOIETY_HISTORY_ALLOC) != nullptr;
    };
}

// What says something of the library itself goes on saying it.
void AddTexts(const Arguments &a, Calls &calls)
{
    static moiety_caps caps;
    caps.struct_size = sizeof(caps);
    FORKED(moiety_probe, (0, &caps));
    calls["moiety_version"] = [] {
        return std::strcmp(moiety_version(), MOIETY_VERSION_STRING) == 0;
    };
    calls["moiety_status_name"] = [] {
        return std::strcmp(moiety_status_name(MOIETY_E_FORKED),
                           "MOIETY_E_FORKED") == 0;
    };
    calls["moiety_status_text"] = [] {
        return moiety_status_text(MOIETY_E_FORKED)[0] != '\0';
    };
    calls["moiety_feature_name"] = [] {
        return moiety_feature_name(1) && !moiety_feature_name(3);
    };
    calls["moiety_pool_stats_entry"] = [] {
        moiety_pool_stats stats = {};
        uint64_t value = 7;
        stats.struct_size = sizeof(stats);
        return moiety_pool_stats_entry(&stats, 0, &value) && value == 0;
    };
    calls["moiety_oom_text"] = [] {
        moiety_oom_report report = {};
        char text[4096];
        report.struct_size = sizeof(report);
        return moiety_oom_text(&report, text, sizeof text) > 0;
    };
    calls["moiety_last_error_message"] = [] {
        return moiety_last_error_message() != nullptr;
    };
    calls["moiety_last_driver_error"] = [] {
        moiety_driver_error error = {};
        error.struct_size = sizeof(error);
        return moiety_last_driver_error(&error) == MOIETY_OK;
    };
}

void AddRegions(const Arguments &a, Calls &calls)
{
    static moiety_keeper_options at = MOIETY_KEEPER_OPTIONS_INIT;
    static moiety_region_part part = {nullptr, 0, 2 << 20, 0, 0};
    static moiety_region_options options = MOIETY_REGION_OPTIONS_INIT;
    static moiety_region_info info;
    static moiety_region_entry entry;
    static moiety_keeper *keeper;
    static moiety_region *region;
    at.path = "/nowhere";
    options.name = "region";
    options.parts = &part;
    options.part_count = 1;
    info.struct_size = sizeof(info);
    entry.struct_size = sizeof(entry);
    FORKED(moiety_keeper_connect, (&at, &keeper));
    FORKED(moiety_keeper_disconnect, (a.keeper));
    FORKED(moiety_keeper_drop, (a.keeper, "region"));
    FORKED(moiety_keeper_list, (a.keeper, 0, &entry));
    FORKED(moiety_region_create, (a.keeper, &options, &region));
    FORKED(moiety_region_open, (a.keeper, &options, &region));
    FORKED(moiety_region_commit, (a.region, nullptr, 0));
    FORKED(moiety_region_get_info, (a.region, 0, &info));
    FORKED(moiety_region_close, (a.region));
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
    AddRegions(arguments, calls);
    AddViews(arguments, calls);
    AddTexts(arguments, calls);
    return calls;
}

} // namespace process_test
