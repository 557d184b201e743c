/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Blocks for other processes (torch.multiprocessing), by moiety/ipc.h.
 */
#ifndef MOIETY_EMM_TORCH_SHARING_H_
#define MOIETY_EMM_TORCH_SHARING_H_

#include <c10/cuda/CUDACachingAllocator.h>
#include <moiety/ipc.h>
#include <moiety/moiety.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace moiety_torch
{

class Sharing
{
  public:
    /** The handle, and the offset from what it opens to `inside`. */
    c10::cuda::CUDACachingAllocator::ShareableHandle share(moiety_pool *pool,
                                                           void *inside);
    /** The memory of a handle, closed with the last reference. */
    std::shared_ptr<void> open(const std::string &handle);

    /** To be called before a block is freed: nobody has it any more. */
    void end(moiety_pool *pool, void *block)
    {
        /* Relaxed: whoever frees a block knows of its export. */
        if (exported_count_.load(std::memory_order_relaxed))
            end_export(pool, block);
    }

  private:
    void end_export(moiety_pool *pool, void *block);

    std::mutex lock_; /* of all below */
    std::unordered_map<void *, moiety_ipc_handle> exported_;
    std::unordered_map<std::string, std::weak_ptr<void>> opened_;
    std::atomic<uint64_t> exported_count_{0};
};

} // namespace moiety_torch

#endif
