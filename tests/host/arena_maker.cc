// SPDX-License-Identifier: Apache-2.0
//
// Linked into a test of the pool, it makes the test's pools host arenas. Nothing
// refers to it by name.
#include <cstddef>
#include <map>
#include <mutex>

#include "moiety/host.h"
#include "tests/support/tools/pool_maker.h"
#include "tests/support/tools/pools.h"

namespace
{

std::mutex g_lock;
std::map<moiety_pool *, moiety_host *> g_arenas; // under the lock

// What is no option of arenas must be at its default.
bool HasOnlyOptionsOfArenas(const moiety_pool_options &options)
{
    const moiety_pool_options defaults = driver_options();
    return options.flags == defaults.flags &&
           options.memory == defaults.memory && options.mode == defaults.mode &&
           !options.source && options.cache_bytes == defaults.cache_bytes &&
           options.watermark_bytes == defaults.watermark_bytes &&
           options.quarantine_bytes == defaults.quarantine_bytes &&
           options.history_entries == defaults.history_entries;
}

moiety_host_options OptionsOf(const moiety_pool_options &pool)
{
    moiety_host_options options = MOIETY_HOST_OPTIONS_INIT;
    options.device = pool.device;
    options.context = pool.context;
    options.limit_bytes = pool.limit_bytes;
    // Unless a test wants a size: all of an arena's memory is there, and a test
    // may make hundreds.
    options.first_segment_bytes =
        pool.first_segment_bytes ? pool.first_segment_bytes : uint64_t{2} << 20;
    options.largest_segment_bytes = pool.largest_segment_bytes;
    options.thread_cache_bytes = pool.thread_cache_bytes;
    options.wait_ms = pool.wait_ms;
    return options;
}

moiety_status Create(const moiety_pool_options *wanted, moiety_pool **out)
{
    const moiety_pool_options defaults = driver_options();
    const moiety_pool_options &pool = wanted ? *wanted : defaults;
    moiety_host *arena = nullptr;
    if (!HasOnlyOptionsOfArenas(pool))
        return MOIETY_E_UNSUPPORTED;
    const moiety_host_options options = OptionsOf(pool);
    moiety_status status = moiety_host_create(&options, &arena);
    if (status != MOIETY_OK)
        return status;
    *out = moiety_host_pool(arena);
    std::lock_guard<std::mutex> guard(g_lock);
    g_arenas[*out] = arena;
    return MOIETY_OK;
}

moiety_status Destroy(moiety_pool *pool, moiety_leaks *out_leaks)
{
    std::lock_guard<std::mutex> guard(g_lock);
    auto found = g_arenas.find(pool);
    if (found == g_arenas.end())
        return MOIETY_E_INVALID;
    moiety_status status = moiety_host_destroy(found->second, out_leaks);
    if (status != MOIETY_E_IN_USE && status != MOIETY_E_CAPTURING &&
        status != MOIETY_E_INTERRUPTED && status != MOIETY_E_REENTRANT)
        g_arenas.erase(found);
    return status;
}

[[maybe_unused]] const bool g_is_set = [] {
    pool_maker = {Create, Destroy, MOIETY_E_NO_PINNED_MEMORY};
    return true;
}();

} // namespace
