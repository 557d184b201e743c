/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Moiety as PyTorch's allocator for CUDA: every method of
 * c10::cuda::CUDACachingAllocator::CUDAAllocator, over the C library. A header of
 * one release of PyTorch is compiled in, and the object serves that release.
 */
#ifndef MOIETY_EMM_TORCH_ALLOCATOR_H_
#define MOIETY_EMM_TORCH_ALLOCATOR_H_

#include <c10/cuda/CUDACachingAllocator.h>
#include <moiety/moiety.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "arenas.h"
#include "counters.h"
#include "history.h"
#include "pools.h"
#include "release.h"
#include "sharing.h"

namespace moiety_torch
{

class Allocator final : public ReleaseAllocator
{
  public:
    using Device = c10::DeviceIndex;

    /** Never destroyed: tensors are freed while the process exits. */
    static Allocator &instance();

    void set(const PoolSettings &settings, bool has_exact_peaks);
    Pools &pools()
    {
        return pools_;
    }
    Arenas &arenas()
    {
        return arenas_;
    }

    /* c10::Allocator */
    c10::DataPtr allocate(size_t bytes) override;
    c10::DeleterFnPtr raw_deleter() const override;
    void copy_data(void *to, const void *from, size_t bytes) const override;
    bool is_simple_data_ptr(const c10::DataPtr &block) const override;

    /* allocation */
    void *raw_alloc(size_t bytes) override;
    void *raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override;
    void raw_delete(void *block) override;
    void init(int device_count) override;
    bool initialized() override;
    void enable(bool is_on) override;
    bool isEnabled() const override;
    void recordStream(const c10::DataPtr &block,
                      c10::cuda::CUDAStream stream) override;
    void *getBaseAllocation(void *block, size_t *out_bytes) override;

    /* limits and what there is */
    double getMemoryFraction(Device device) override;
    void setMemoryFraction(double fraction, Device device) override;
    void emptyCache(c10::MempoolId_t mempool) override;
    void cacheInfo(Device device, size_t *largest) override;
    SegmentSizes getExpandableSegmentSizes(Device device) override;
    caching::DeviceStats getDeviceStats(Device device) override;
    void resetAccumulatedStats(Device device) override;
    void resetPeakStats(Device device) override;

    /* memory pools, which graphs have */
    void beginAllocateToPool(Device device, c10::MempoolId_t pool,
                             std::function<bool(cudaStream_t)> filter) override;
    void endAllocateToPool(Device device, c10::MempoolId_t pool) override;
    void releasePool(Device device, c10::MempoolId_t pool) override;
    int getPoolUseCount(Device device, c10::MempoolId_t pool) override;
    void createOrIncrefPool(
        Device device, c10::MempoolId_t pool,
        std::shared_ptr<caching::CUDAAllocator> allocator) override;
    void setUseOnOOM(Device device, c10::MempoolId_t pool,
                     bool use_on_oom) override;
    void setNoSplit(Device device, c10::MempoolId_t pool) override;
    bool checkPoolLiveAllocations(
        Device device, c10::MempoolId_t pool,
        const std::unordered_set<void *> &expected) override;
    std::shared_ptr<caching::AllocatorState>
    getCheckpointState(Device device, c10::MempoolId_t pool) override;
    caching::CheckpointDelta setCheckpointPoolState(
        Device device, std::shared_ptr<caching::AllocatorState> state) override;

    /* what happened */
    caching::SnapshotInfo snapshot(c10::MempoolId_t pool,
                                   bool include_traces) override;
    bool isHistoryEnabled() override;
    void recordHistory(bool is_on, caching::CreateContextFn recorder,
                       size_t most, caching::RecordContext when, bool clears,
                       const std::vector<std::string> &skipped) override;
    void recordAnnotation(const std::vector<std::pair<std::string, std::string>>
                              &metadata) override;
    void pushCompileContext(std::string &text) override;
    void popCompileContext() override;
    void setUserMetadata(const std::string &text) override;
    std::string getUserMetadata() override;
    void
    attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer) override;
    void attachAllocatorTraceTracker(
        caching::AllocatorTraceTracker tracker) override;

    /* other processes and devices */
    caching::ShareableHandle shareIpcHandle(void *block) override;
    std::shared_ptr<void> getIpcDevPtr(std::string handle) override;
    void enablePeerAccess(Device device, Device of) override;
    cudaError_t memcpyAsync(void *to, int to_device, const void *from,
                            int from_device, size_t bytes, cudaStream_t stream,
                            bool is_peer_enabled) override;
    std::string name() override;

  private:
    void *take(size_t bytes, Device device, cudaStream_t stream);
    void *take_uncached(size_t bytes, Device device);
    [[noreturn]] void fail(moiety_status status, size_t bytes, Device device);
    void tell_profiler(void *block, int64_t bytes, Device device);
    void give(int device, void *block, size_t bytes,
              const Arenas::Block *arena_block);

    Pools pools_;
    Arenas arenas_;
    History history_;
    Sharing sharing_;
    PoolSettings settings_;
    std::atomic<int> device_count_{0};
    std::atomic<bool> is_enabled_{true};
    std::array<std::atomic<double>, kDevicesMax> fractions_;
};

/** Deletes what the instance gave. */
void delete_block(void *block);

/** Of a device, as the driver tells. */
struct DeviceMemory {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
};
DeviceMemory memory_of(c10::DeviceIndex device);

/** Segments and blocks of a device's pool as PyTorch describes them. */
void add_segments(moiety_pool *pool, int device, Arenas &arenas,
                  History &history, std::vector<caching::SegmentInfo> *out);

} // namespace moiety_torch

#endif
