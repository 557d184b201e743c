/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * PyTorch's memory pools, which CUDA graphs and torch.cuda.MemPool have: each is
 * a private arena of the device's pool (moiety/private.h), perhaps a tenant's
 * (moiety/tenant.h), or a foreign allocator's.
 */
#ifndef MOIETY_EMM_TORCH_ARENAS_H_
#define MOIETY_EMM_TORCH_ARENAS_H_

#include <c10/cuda/CUDACachingAllocator.h>
#include <moiety/moiety.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace moiety_torch
{

/** A pool of PyTorch's on a device. */
using ArenaKey = std::pair<int, c10::MempoolId_t>;

class Arenas
{
  public:
    using Filter = std::function<bool(cudaStream_t)>;
    using Foreign =
        std::shared_ptr<c10::cuda::CUDACachingAllocator::CUDAAllocator>;

    struct Block {
        ArenaKey key;
        size_t bytes;
        cudaStream_t stream;
        Foreign foreign; /* null: a block of the device's pool */
    };

    /** What became of a request. */
    struct Taken {
        bool is_routed = false; /* no arena wants it: false */
        moiety_status status = MOIETY_OK;
        void *block = nullptr;
    };

    void add_use(moiety_pool *pool, const ArenaKey &key, Foreign foreign);
    int use_count(const ArenaKey &key);
    void drop_use(const ArenaKey &key);

    /** Where a pool without blocks has its memory from now on: fixed memory, or
     *  that of a tenant of its own, which can be paused. */
    void set_fixed(const ArenaKey &key, uint64_t limit_bytes);
    void set_tenant(const ArenaKey &key, const char *name,
                    uint64_t limit_bytes);
    /** Of a pool that has one. */
    moiety_tenant tenant_of(const ArenaKey &key);

    void begin(moiety_pool *pool, const ArenaKey &key, Filter filter,
               cudaStream_t stream);
    void end(const ArenaKey &key);

    bool is_any_recording() const
    {
        /* Relaxed: the thread that begins is the one whose allocations are
         * routed, or hands them to others by other means. */
        return recording_count_.load(std::memory_order_relaxed) != 0;
    }

    Taken take(int device, size_t bytes, cudaStream_t stream);

    /** Whether a block was an arena's, and what it was; it no longer is. */
    bool forget(void *block, Block *out);

    bool has_blocks() const
    {
        /* Relaxed: whoever frees a block knows of its allocation. */
        return block_count_.load(std::memory_order_relaxed) != 0;
    }

    std::unordered_map<void *, Block> blocks_of(const ArenaKey *key);

    /** Takes the very bytes again that were in use. */
    void claim(moiety_pool *pool, void *block, const Block &was);

    void trim(const ArenaKey *key);
    void lend_on_out_of_memory(const ArenaKey &key, bool lends);
    /** Gives back what those have that lend. Whether there was any. */
    bool trim_lenders(int device);

  private:
    struct Arena {
        moiety_private handle = nullptr;
        moiety_tenant tenant = nullptr; /* null, or whose the arena is */
        moiety_pool *pool = nullptr;
        int uses = 0;
        bool lends = false;
        Foreign foreign;
    };
    struct Recording {
        ArenaKey key;
        Filter filter;
        moiety_scope scope; /* null: no capture */
    };

    Arena &ensure(moiety_pool *pool, const ArenaKey &key);
    Arena &find_unused(const ArenaKey &key);
    static bool release(Arena &arena);
    void release_unused();
    void replace(Arena &arena, const Arena &made);

    std::mutex lock_; /* of all below */
    std::map<ArenaKey, Arena> arenas_;
    /* Those whose last capture is open, and tenants that have blocks. */
    std::vector<Arena> unreleased_;
    std::vector<Recording> recordings_;
    std::unordered_map<void *, Block> blocks_;
    std::atomic<uint32_t> recording_count_{0};
    std::atomic<uint64_t> block_count_{0};
};

} // namespace moiety_torch

#endif
