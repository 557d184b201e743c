/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "arenas.h"

#include <moiety/private.h>
#include <moiety/scope.h>
#include <moiety/tenant.h>

#include "pools.h"

#include <algorithm>

namespace moiety_torch
{

Arenas::Arena &Arenas::ensure(moiety_pool *pool, const ArenaKey &key)
{
    Arena &arena = arenas_[key];
    if (!arena.handle && !arena.foreign) {
        moiety_status status =
            moiety_private_create(pool, nullptr, &arena.handle);
        if (status != MOIETY_OK) {
            arenas_.erase(key);
            check(status, "no memory pool");
        }
        arena.pool = pool;
    }
    return arena;
}

void Arenas::add_use(moiety_pool *pool, const ArenaKey &key, Foreign foreign)
{
    std::lock_guard<std::mutex> guard(lock_);
    if (foreign && !arenas_.count(key))
        arenas_[key].foreign = std::move(foreign);
    ensure(pool, key).uses++;
}

int Arenas::use_count(const ArenaKey &key)
{
    std::lock_guard<std::mutex> guard(lock_);
    auto found = arenas_.find(key);
    return found == arenas_.end() ? 0 : found->second.uses;
}

/* Whether a call that destroys has left the object as it was. */
static bool is_kept(moiety_status status)
{
    return status == MOIETY_E_IN_USE || status == MOIETY_E_PAUSED ||
           status == MOIETY_E_REENTRANT;
}

/* Whether it is gone. An arena with an open capture is not released before that
 * has ended, nor a tenant before its last block is freed. */
bool Arenas::release(Arena &arena)
{
    if (arena.tenant) {
        moiety_status status = moiety_tenant_destroy(arena.tenant);
        if (status == MOIETY_OK || is_kept(status))
            return status == MOIETY_OK;
        /* It is gone, and its arena was left. */
        arena.tenant = nullptr;
    }
    return !is_kept(moiety_private_destroy(arena.handle));
}

void Arenas::release_unused()
{
    unreleased_.erase(
        std::remove_if(unreleased_.begin(), unreleased_.end(), release),
        unreleased_.end());
}

void Arenas::drop_use(const ArenaKey &key)
{
    std::lock_guard<std::mutex> guard(lock_);
    auto found = arenas_.find(key);
    TORCH_CHECK(found != arenas_.end() && found->second.uses > 0,
                "releasePool: there is no such memory pool");
    if (--found->second.uses)
        return;
    if (found->second.handle)
        unreleased_.push_back(found->second);
    arenas_.erase(found);
    release_unused();
}

Arenas::Arena &Arenas::find_unused(const ArenaKey &key)
{
    auto found = arenas_.find(key);
    TORCH_CHECK(found != arenas_.end() && found->second.handle,
                "Moiety has no such memory pool");
    for (const Recording &recording : recordings_)
        TORCH_CHECK(recording.key != key, "the memory pool is in use");
    for (const auto &entry : blocks_)
        TORCH_CHECK(entry.second.key != key, "the memory pool has blocks");
    return found->second;
}

void Arenas::replace(Arena &arena, const Arena &made)
{
    unreleased_.push_back(arena);
    arena = made;
    release_unused();
}

void Arenas::set_fixed(const ArenaKey &key, uint64_t limit_bytes)
{
    std::lock_guard<std::mutex> guard(lock_);
    Arena &arena = find_unused(key);
    Arena made = arena;
    made.tenant = nullptr;
    moiety_private_options options = {};
    options.struct_size = sizeof(options);
    options.flags = MOIETY_PRIVATE_FIXED;
    options.limit_bytes = limit_bytes;
    check(moiety_private_create(made.pool, &options, &made.handle),
          "no fixed memory pool");
    replace(arena, made);
}

void Arenas::set_tenant(const ArenaKey &key, const char *name,
                        uint64_t limit_bytes)
{
    std::lock_guard<std::mutex> guard(lock_);
    Arena &arena = find_unused(key);
    Arena made = arena;
    moiety_tenant_options options = {};
    options.struct_size = sizeof(options);
    options.flags = MOIETY_TENANT_PAUSABLE;
    options.name = name;
    options.budget_bytes = limit_bytes;
    check(moiety_tenant_create(made.pool, &options, &made.tenant),
          "no tenant for the memory pool");
    moiety_status status = moiety_tenant_private(made.tenant, &made.handle);
    if (status != MOIETY_OK && moiety_tenant_destroy(made.tenant) != MOIETY_OK)
        TORCH_WARN("Moiety: a tenant without blocks was not ended");
    check(status, "the tenant has no arena");
    replace(arena, made);
}

moiety_tenant Arenas::tenant_of(const ArenaKey &key)
{
    std::lock_guard<std::mutex> guard(lock_);
    auto found = arenas_.find(key);
    TORCH_CHECK(found != arenas_.end() && found->second.tenant,
                "the memory pool has no tenant, and cannot be paused");
    return found->second.tenant;
}

void Arenas::begin(moiety_pool *pool, const ArenaKey &key, Filter filter,
                   cudaStream_t stream)
{
    std::lock_guard<std::mutex> guard(lock_);
    for (const Recording &recording : recordings_)
        TORCH_CHECK(recording.key != key,
                    "beginAllocateToPool: already recording to mempool_id");
    Arena &arena = ensure(pool, key);
    moiety_scope scope = nullptr;
    /* A filter that does not take the stream yet waits for its capture. */
    if (arena.handle && !filter(stream))
        check(
            moiety_private_scope_begin(arena.handle, stream_of(stream), &scope),
            "no capture into the memory pool");
    arena.uses++;
    recordings_.push_back({key, std::move(filter), scope});
    recording_count_.fetch_add(1, std::memory_order_relaxed);
}

void Arenas::end(const ArenaKey &key)
{
    std::lock_guard<std::mutex> guard(lock_);
    auto found = std::find_if(
        recordings_.begin(), recordings_.end(),
        [&](const Recording &recording) { return recording.key == key; });
    TORCH_CHECK(found != recordings_.end(),
                "endAllocatePool: not currently recording to mempool_id");
    moiety_scope scope = found->scope;
    recordings_.erase(found);
    recording_count_.fetch_sub(1, std::memory_order_relaxed);
    if (scope)
        check(moiety_scope_end(scope), "the capture's end");
    release_unused();
}

Arenas::Taken Arenas::take(int device, size_t bytes, cudaStream_t stream)
{
    Taken taken;
    std::unique_lock<std::mutex> guard(lock_);
    auto recording = std::find_if(
        recordings_.rbegin(), recordings_.rend(), [&](const Recording &one) {
            return one.key.first == device && one.filter(stream);
        });
    if (recording == recordings_.rend())
        return taken;
    taken.is_routed = true;
    ArenaKey key = recording->key;
    Arena arena = arenas_[key];
    /* What waits for memory waits without the lock. */
    guard.unlock();
    moiety_devptr address = 0;
    if (arena.foreign) {
        taken.block = arena.foreign->raw_alloc_with_stream(bytes, stream);
    } else {
        moiety_alloc_options options = MOIETY_ALLOC_OPTIONS_INIT;
        options.tenant = arena.tenant;
        options.private_arena = arena.tenant ? nullptr : arena.handle;
        taken.status = moiety_alloc_with(arena.pool, bytes, stream_of(stream),
                                         &options, &address);
        taken.block = block_at(address);
    }
    if (taken.status == MOIETY_OK && taken.block) {
        size_t usable = bytes;
        if (!arena.foreign)
            ignore(moiety_usable_size(arena.pool, address, &usable));
        guard.lock();
        blocks_[taken.block] = {key, usable, stream, arena.foreign};
        block_count_.fetch_add(1, std::memory_order_relaxed);
    }
    return taken;
}

bool Arenas::forget(void *block, Block *out)
{
    std::lock_guard<std::mutex> guard(lock_);
    auto found = blocks_.find(block);
    if (found == blocks_.end())
        return false;
    *out = std::move(found->second);
    blocks_.erase(found);
    block_count_.fetch_sub(1, std::memory_order_relaxed);
    return true;
}

std::unordered_map<void *, Arenas::Block> Arenas::blocks_of(const ArenaKey *key)
{
    std::lock_guard<std::mutex> guard(lock_);
    if (!key)
        return blocks_;
    std::unordered_map<void *, Block> out;
    for (const auto &entry : blocks_) {
        if (entry.second.key == *key)
            out.insert(entry);
    }
    return out;
}

void Arenas::claim(moiety_pool *pool, void *block, const Block &was)
{
    std::lock_guard<std::mutex> guard(lock_);
    Arena &arena = ensure(pool, was.key);
    TORCH_CHECK(!arena.tenant,
                "a memory pool with a tenant has no checkpoints");
    check(moiety_private_claim(arena.handle, address_of(block), was.bytes,
                               stream_of(was.stream)),
          "a block of the checkpoint cannot be had again");
    blocks_[block] = was;
    block_count_.fetch_add(1, std::memory_order_relaxed);
}

void Arenas::trim(const ArenaKey *key)
{
    std::lock_guard<std::mutex> guard(lock_);
    release_unused();
    for (const auto &entry : arenas_) {
        if (entry.second.handle && (!key || entry.first == *key))
            ignore(moiety_private_trim(entry.second.handle, nullptr));
    }
}

void Arenas::lend_on_out_of_memory(const ArenaKey &key, bool lends)
{
    std::lock_guard<std::mutex> guard(lock_);
    auto found = arenas_.find(key);
    TORCH_CHECK(found != arenas_.end(), "there is no such memory pool");
    found->second.lends = lends;
}

bool Arenas::trim_lenders(int device)
{
    std::lock_guard<std::mutex> guard(lock_);
    uint64_t all = 0;
    for (const auto &entry : arenas_) {
        uint64_t bytes = 0;
        if (entry.first.first == device && entry.second.lends &&
            entry.second.handle &&
            moiety_private_trim(entry.second.handle, &bytes) == MOIETY_OK)
            all += bytes;
    }
    return all != 0;
}

} // namespace moiety_torch
