/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Memory pools of graphs and of torch.cuda.MemPool, and their checkpoints.
 */
#include "allocator.h"

#include <c10/cuda/CUDAStream.h>

namespace moiety_torch
{

namespace
{

/* The blocks that were in use. */
struct Checkpoint final : caching::AllocatorState {
    ArenaKey key;
    std::unordered_map<void *, Arenas::Block> blocks;
};

} // namespace

void Allocator::beginAllocateToPool(Device device, c10::MempoolId_t pool,
                                    std::function<bool(cudaStream_t)> filter)
{
    arenas_.begin(pools_.get(device), {device, pool}, std::move(filter),
                  c10::cuda::getCurrentCUDAStream(device).stream());
}

void Allocator::endAllocateToPool(Device device, c10::MempoolId_t pool)
{
    arenas_.end({device, pool});
}

void Allocator::releasePool(Device device, c10::MempoolId_t pool)
{
    arenas_.drop_use({device, pool});
}

int Allocator::getPoolUseCount(Device device, c10::MempoolId_t pool)
{
    return arenas_.use_count({device, pool});
}

void Allocator::createOrIncrefPool(
    Device device, c10::MempoolId_t pool,
    std::shared_ptr<caching::CUDAAllocator> allocator)
{
    arenas_.add_use(pools_.get(device), {device, pool}, std::move(allocator));
}

void Allocator::setUseOnOOM(Device device, c10::MempoolId_t pool,
                            bool use_on_oom)
{
    arenas_.lend_on_out_of_memory({device, pool}, use_on_oom);
}

/* Blocks are never cut out of larger ones that belong together. */
void Allocator::setNoSplit(Device, c10::MempoolId_t) {}

bool Allocator::checkPoolLiveAllocations(
    Device device, c10::MempoolId_t pool,
    const std::unordered_set<void *> &expected)
{
    const ArenaKey key(device, pool);
    auto blocks = arenas_.blocks_of(&key);
    if (blocks.size() != expected.size())
        return false;
    for (void *block : expected) {
        if (!blocks.count(block))
            return false;
    }
    return true;
}

std::shared_ptr<caching::AllocatorState>
Allocator::getCheckpointState(Device device, c10::MempoolId_t pool)
{
    auto state = std::make_shared<Checkpoint>();
    state->key = {device, pool};
    state->blocks = arenas_.blocks_of(&state->key);
    return state;
}

caching::CheckpointDelta Allocator::setCheckpointPoolState(
    Device device, std::shared_ptr<caching::AllocatorState> state)
{
    auto *checkpoint = dynamic_cast<Checkpoint *>(state.get());
    TORCH_CHECK(checkpoint, "the state is another allocator's");
    TORCH_CHECK(checkpoint->key.first == device,
                "the state is another device's");
    caching::CheckpointDelta delta;
    for (const auto &entry : arenas_.blocks_of(&checkpoint->key)) {
        raw_delete(entry.first);
        delta.ptrs_freed.push_back(entry.first);
    }
    for (const auto &entry : checkpoint->blocks) {
        arenas_.claim(pools_.get(device), entry.first, entry.second);
        counters_of(device).note_allocation(
            static_cast<int64_t>(entry.second.bytes));
        delta.dataptrs_allocd.emplace_back(entry.first, entry.first,
                                           &delete_block,
                                           c10::Device(c10::kCUDA, device));
    }
    return delta;
}

} // namespace moiety_torch
