/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What differs between the releases of PyTorch that are served: older ones get
 * the methods of 2.11. Whoever compiles says which release it is.
 */
#ifndef MOIETY_EMM_TORCH_RELEASE_H_
#define MOIETY_EMM_TORCH_RELEASE_H_

#include <c10/cuda/CUDACachingAllocator.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#define MOIETY_TORCH_IS_BEFORE(major, minor)                                   \
    (MOIETY_TORCH_MAJOR < (major) ||                                           \
     (MOIETY_TORCH_MAJOR == (major) && MOIETY_TORCH_MINOR < (minor)))

#if MOIETY_TORCH_IS_BEFORE(2, 9)
#error "MOIETY_TORCH_MAJOR and _MINOR name the release: 2 and 9 at the least"
#endif

namespace moiety_torch
{

namespace caching = c10::cuda::CUDACachingAllocator;

#if MOIETY_TORCH_IS_BEFORE(2, 10)
using SegmentSizes = std::vector<std::pair<cudaStream_t, size_t>>;
#else
using SegmentSizes = std::vector<caching::StreamSegmentSize>;
#endif

using EntryStream = decltype(caching::TraceEntry::stream_);

inline void set_metadata(caching::TraceEntry &entry, const std::string &text)
{
#if !MOIETY_TORCH_IS_BEFORE(2, 10)
    entry.user_metadata_ = text;
#else
    (void)entry;
    (void)text;
#endif
}

using Annotation =
    decltype(caching::SnapshotInfo::external_annotations)::value_type;

#if MOIETY_TORCH_IS_BEFORE(2, 11)

class ReleaseAllocator : public caching::CUDAAllocator
{
  public:
    using Device = c10::DeviceIndex;
    using Shared = std::shared_ptr<caching::CUDAAllocator>;

    virtual caching::SnapshotInfo snapshot(c10::MempoolId_t pool,
                                           bool include_traces) = 0;
    caching::SnapshotInfo snapshot(c10::MempoolId_t pool) final
    {
        return snapshot(pool, true);
    }

    virtual void createOrIncrefPool(Device device, c10::MempoolId_t pool,
                                    Shared allocator) = 0;
    /* Whoever made the allocator keeps it as long as the pool. */
    void createOrIncrefPool(Device device, c10::MempoolId_t pool,
                            caching::CUDAAllocator *allocator) final
    {
        createOrIncrefPool(
            device, pool,
            allocator ? Shared(allocator, [](caching::CUDAAllocator *) {})
                      : Shared());
    }

    virtual void setUseOnOOM(Device device, c10::MempoolId_t pool,
                             bool use_on_oom) = 0;
    void setUseOnOOM(Device device, c10::MempoolId_t pool) final
    {
        setUseOnOOM(device, pool, true);
    }

    virtual void recordHistory(bool is_on, caching::CreateContextFn recorder,
                               size_t most, caching::RecordContext when,
                               bool clears,
                               const std::vector<std::string> &skipped) = 0;
    void recordHistory(bool is_on, caching::CreateContextFn recorder,
                       size_t most, caching::RecordContext when,
                       bool clears) final
    {
        recordHistory(is_on, recorder, most, when, clears, {});
    }

#if MOIETY_TORCH_IS_BEFORE(2, 10)
    virtual void setNoSplit(Device device, c10::MempoolId_t pool) = 0;
    virtual void setUserMetadata(const std::string &text) = 0;
    virtual std::string getUserMetadata() = 0;
    virtual SegmentSizes getExpandableSegmentSizes(Device device) = 0;
#endif
};

inline caching::TraceEntry::Action action_of(const std::string &)
{
    TORCH_CHECK(false, "this release of PyTorch skips no actions");
}

#else

using ReleaseAllocator = caching::CUDAAllocator;

inline caching::TraceEntry::Action action_of(const std::string &name)
{
    return c10::CachingDeviceAllocator::parseTraceEntryAction(name);
}

#endif

} // namespace moiety_torch

#endif
