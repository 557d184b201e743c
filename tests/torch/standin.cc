// SPDX-License-Identifier: Apache-2.0
//
// PyTorch's allocator over the stand-in driver, with a release's own libc10 and
// libc10_cuda: what needs neither kernels nor copies. releases.py makes it.
#include "emm/torch/allocator.h"
#include "moiety/private.h"
#include "moiety/stacks/torch.h"
#include "moiety/tenant.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <cuda.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

/* By which libtorch tells libc10_cuda; no header has it. */
namespace c10::cuda::_internal
{
void setHasPrimaryContext(bool (*has)(c10::DeviceIndex));
}

namespace
{

using moiety_torch::Allocator;
namespace caching = moiety_torch::caching;
using Entry = caching::TraceEntry;

constexpr size_t kMiB = size_t(1) << 20;
int failures;

void expect(bool is_so, const char *what, int line)
{
    if (!is_so) {
        (void)printf("standin.cc:%d: not so: %s\n", line, what);
        failures++;
    }
}
#define EXPECT(what) expect((what), #what, __LINE__)

Allocator &device()
{
    return Allocator::instance();
}

std::string thrown_by(const std::function<void()> &call)
{
    try {
        call();
    } catch (const c10::Error &error) {
        return error.what_without_backtrace();
    }
    return "";
}

/* Why a function of the library's failed; "" if it did not. */
std::string said(moiety_status status)
{
    return status == MOIETY_OK ? "" : moiety_last_error_message();
}

bool has(const std::string &text, const char *words)
{
    return text.find(words) != std::string::npos;
}

// torch.cuda.MemPool and torch.cuda.use_mem_pool().
class Pool
{
  public:
    explicit Pool(uint64_t number) : id_(0, number)
    {
        device().createOrIncrefPool(0, id_, nullptr);
    }
    ~Pool()
    {
        device().releasePool(0, id_);
    }
    Pool(const Pool &) = delete;
    Pool &operator=(const Pool &) = delete;

    std::string set(const char *tenant, uint64_t limit_bytes = 0)
    {
        wanted_.struct_size = sizeof(wanted_);
        wanted_.id[1] = id_.second;
        wanted_.limit_bytes = limit_bytes;
        wanted_.tenant_name = tenant;
        return said(moiety_torch_mempool_set(&wanted_));
    }
    std::string pause(uint32_t flags)
    {
        last_status_ = moiety_torch_mempool_pause(&wanted_, flags);
        return said(last_status_);
    }
    std::string resume()
    {
        return said(moiety_torch_mempool_resume(&wanted_));
    }
    void *take(size_t bytes)
    {
        void *block = nullptr;
        device().beginAllocateToPool(0, id_, [](cudaStream_t) { return true; });
        std::string error =
            thrown_by([&] { block = device().raw_alloc(bytes); });
        device().endAllocateToPool(0, id_);
        device().releasePool(0, id_);
        last_error_ = error;
        return block;
    }
    moiety_status last_status() const
    {
        return last_status_;
    }
    const std::string &last_error() const
    {
        return last_error_;
    }
    c10::MempoolId_t id() const
    {
        return id_;
    }

  private:
    c10::MempoolId_t id_;
    moiety_torch_mempool wanted_ = {};
    std::string last_error_;
    moiety_status last_status_ = MOIETY_OK;
};

moiety_pool *pool()
{
    return device().pools().get(0);
}

moiety_tenant_stats tenant_info(moiety_tenant tenant)
{
    moiety_tenant_stats info = {};
    info.struct_size = sizeof(info);
    if (moiety_tenant_get_stats(tenant, &info) != MOIETY_OK)
        info.struct_size = 0;
    return info;
}

moiety_tenant tenant_of(const Pool &pool)
{
    return device().arenas().tenant_of({0, pool.id()});
}

int64_t live_bytes()
{
    return device().getDeviceStats(0).allocated_bytes[0].current;
}

void try_tensors()
{
    void *first = device().raw_alloc(kMiB);
    EXPECT(live_bytes() == kMiB);
    EXPECT(device().pools().find(0) == pool());
    device().raw_delete(first);
    EXPECT(device().raw_alloc(kMiB) == first);
    device().raw_delete(first);
    EXPECT(live_bytes() == 0);
    EXPECT(has(thrown_by([] { device().raw_alloc(size_t(1) << 50); }),
               "CUDA out of memory. Tried to allocate"));
    EXPECT(!device().snapshot({0, 0}, true).segments.empty());
    device().emptyCache({0, 0});
}

// What PyTorch's own tests compare.
void expect_agreement()
{
    caching::DeviceStats stats = device().getDeviceStats(0);
    size_t reserved = 0, blocks = 0, active = 0;
    size_t bytes = 0, active_bytes = 0, requested_bytes = 0;
    for (const auto &segment : device().snapshot({0, 0}, false).segments) {
        EXPECT(segment.is_expandable);
        reserved += segment.total_size;
        bytes += segment.allocated_size;
        active_bytes += segment.active_size;
        requested_bytes += segment.requested_size;
        for (const auto &block : segment.blocks) {
            blocks += block.allocated;
            active += block.active;
        }
    }
    EXPECT(size_t(stats.reserved_bytes[0].current) == reserved);
    EXPECT(size_t(stats.allocated_bytes[0].current) == bytes);
    EXPECT(size_t(stats.active_bytes[0].current) == active_bytes);
    EXPECT(size_t(stats.requested_bytes[0].current) == requested_bytes);
    EXPECT(size_t(stats.allocation[0].current) == blocks);
    EXPECT(size_t(stats.active[0].current) == active);
}

// Freed on a stream that is behind too.
void try_statistics()
{
    std::vector<void *> blocks;
    CUstream stream = nullptr;
    EXPECT(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    for (size_t i = 1; i <= 40; i++) {
        blocks.push_back(device().raw_alloc_with_stream(
            i * i * i * 400, reinterpret_cast<cudaStream_t>(stream)));
        expect_agreement();
    }
    for (void *block : blocks) {
        device().raw_delete(block);
        expect_agreement();
    }
    device().emptyCache({0, 0});
    expect_agreement();
}

size_t bytes_of(Entry::Action one, Entry::Action other)
{
    size_t bytes = 0;
    const auto traces = device().snapshot({0, 0}, true).device_traces;
    for (const auto &entry : traces[0]) {
        if (entry.action_ == one || entry.action_ == other)
            bytes += static_cast<size_t>(entry.size_);
    }
    return bytes;
}

// Segments that come and go while it is on; none that were there before.
void try_history()
{
    constexpr auto kNever = caching::RecordContext::NEVER;
    void *before = device().raw_alloc(kMiB);
    int64_t count = device().getDeviceStats(0).num_sync_all_streams;
    for (int i = 0; i < 2; i++) {
        device().recordHistory(true, nullptr, 1000, kNever, true, {});
        EXPECT(bytes_of(Entry::SEGMENT_ALLOC, Entry::SEGMENT_MAP) == 0);
        device().raw_delete(device().raw_alloc(100 * kMiB));
        EXPECT(bytes_of(Entry::SEGMENT_ALLOC, Entry::SEGMENT_MAP) >=
               100 * kMiB);
        device().emptyCache({0, 0});
        EXPECT(bytes_of(Entry::SEGMENT_FREE, Entry::SEGMENT_UNMAP) >=
               100 * kMiB);
        device().recordHistory(false, nullptr, 1, kNever, true, {});
        device().raw_delete(device().raw_alloc(100 * kMiB));
        device().emptyCache({0, 0});
        EXPECT(device().snapshot({0, 0}, true).device_traces[0].empty());
    }
    EXPECT(device().getDeviceStats(0).num_sync_all_streams == count + 4);
    device().resetAccumulatedStats(0);
    EXPECT(device().getDeviceStats(0).num_sync_all_streams == 0);
    device().emptyCache({0, 0});
    EXPECT(device().getDeviceStats(1).num_sync_all_streams == count + 5);
    device().raw_delete(before);
}

void try_flags()
{
    void *block = device().raw_alloc(kMiB);
    moiety_pool *pool = nullptr;
    moiety_pool_options options = {};
    options.struct_size = sizeof(options);
    EXPECT(!moiety_pool_of(reinterpret_cast<moiety_devptr>(block), &pool));
    EXPECT(!moiety_pool_get_options(pool, &options));
    EXPECT(options.flags & MOIETY_POOL_NOTE_STREAMS);
    EXPECT(options.flags & MOIETY_POOL_HUGE_TABLES);
    device().raw_delete(block);
}

void try_limits()
{
    size_t largest = 0;
    device().setMemoryFraction(0.25, 0);
    EXPECT(device().getMemoryFraction(0) == 0.25);
    device().cacheInfo(0, &largest);
    EXPECT(largest > 0 && largest <= 256 * kMiB);
    EXPECT(has(thrown_by([] { device().raw_alloc(300 * kMiB); }),
               "of a limit of 256.00 MiB"));
    device().setMemoryFraction(0, 0);
    EXPECT(device().getMemoryFraction(0) == 0);
    EXPECT(!thrown_by([] { device().raw_alloc(3 * kMiB); }).empty());
    device().setMemoryFraction(1, 0);
    device().raw_delete(device().raw_alloc(300 * kMiB));
}

void try_a_tenant()
{
    void *late = nullptr;
    moiety_tenant tenant = 0;
    {
        Pool sleeper(1);
        EXPECT(sleeper.set("sleeper", 16 * kMiB).empty());
        tenant = tenant_of(sleeper);
        void *block = sleeper.take(4 * kMiB);
        EXPECT(block && tenant_info(tenant).live_bytes == 4 * kMiB);
        EXPECT(has(sleeper.set("other"), "has blocks"));
        EXPECT(!sleeper.take(13 * kMiB) &&
               has(sleeper.last_error(), "CUDA out of memory"));
        EXPECT(sleeper.pause(MOIETY_PAUSE_KEEP_CONTENTS).empty());
        EXPECT(!sleeper.pause(0).empty());
        /* The library's own status, not that of PyTorch's refusals. */
        EXPECT(sleeper.last_status() != MOIETY_OK &&
               sleeper.last_status() != MOIETY_E_INVALID);
        EXPECT(!sleeper.take(kMiB) && has(sleeper.last_error(), "Moiety: "));
        EXPECT(sleeper.resume().empty());
        EXPECT(!sleeper.resume().empty());
        device().raw_delete(block);
        EXPECT(tenant_info(tenant).live_bytes == 0);
        EXPECT(tenant_info(tenant).name == std::string("sleeper"));
        late = sleeper.take(2 * kMiB);
    }
    /* It ends with its last block. */
    EXPECT(tenant_info(tenant).live_bytes == 2 * kMiB);
    device().raw_delete(late);
    device().emptyCache({0, 0});
    EXPECT(tenant_info(tenant).struct_size == 0);
}

/* The statuses of the library's functions, with the messages. */
void try_statuses()
{
    moiety_torch_mempool none = {};
    moiety_pool *found = nullptr;
    EXPECT(moiety_default_pool(0, &found) == MOIETY_OK && found == pool());
    EXPECT(moiety_torch_mempool_set(nullptr) == MOIETY_E_INVALID);
    EXPECT(moiety_torch_mempool_set(&none) == MOIETY_E_INVALID);
    EXPECT(has(moiety_last_error_message(), "another version"));
    none.struct_size = sizeof(none);
    none.id[1] = 12345;
    EXPECT(moiety_torch_mempool_set(&none) == MOIETY_E_INVALID);
    EXPECT(moiety_torch_mempool_pause(&none, 0) == MOIETY_E_INVALID);
    EXPECT(moiety_torch_mempool_resume(&none) == MOIETY_E_INVALID);
}

void try_fixed_memory()
{
    Pool windows(2);
    EXPECT(windows.set(nullptr, 32 * kMiB).empty());
    void *block = windows.take(8 * kMiB);
    EXPECT(block != nullptr);
    EXPECT(!windows.take(64 * kMiB));
    EXPECT(has(windows.pause(0), "cannot be paused"));
    size_t bytes = 0;
    EXPECT(device().getBaseAllocation(block, &bytes) && bytes >= 8 * kMiB);
    device().raw_delete(block);
}

void *capture(const c10::MempoolId_t &id, CUstream stream, size_t bytes)
{
    CUgraph graph = nullptr;
    device().beginAllocateToPool(
        0, id, [is_first = true](cudaStream_t) mutable {
            bool was_first = is_first;
            is_first = false;
            return !was_first; /* the capture has not begun yet */
        });
    EXPECT(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) ==
           CUDA_SUCCESS);
    void *block = device().raw_alloc(bytes);
    EXPECT(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
    device().endAllocateToPool(0, id);
    return block;
}

void try_captures(const char *tenant)
{
    Pool graphs(3);
    EXPECT(graphs.set(tenant).empty());
    CUstream stream = nullptr;
    EXPECT(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    auto before = c10::cuda::getCurrentCUDAStream(0);
    c10::cuda::setCurrentCUDAStream(
        c10::cuda::getStreamFromExternal(stream, 0));
    void *block = capture(graphs.id(), stream, 3 * kMiB);
    EXPECT(device().checkPoolLiveAllocations(0, graphs.id(), {block}));
    device().raw_delete(block);
    EXPECT(capture(graphs.id(), stream, 3 * kMiB) == block);
    device().raw_delete(block);
    device().releasePool(0, graphs.id());
    device().releasePool(0, graphs.id());
    c10::cuda::setCurrentCUDAStream(before);
}

void try_a_checkpoint()
{
    Pool graphs(4);
    void *kept = graphs.take(kMiB);
    auto state = device().getCheckpointState(0, graphs.id());
    device().raw_delete(kept);
    auto delta = device().setCheckpointPoolState(0, state);
    EXPECT(delta.ptrs_freed.empty() && delta.dataptrs_allocd.size() == 1);
    EXPECT(delta.dataptrs_allocd[0].get() == kept);
}

bool start_cuda()
{
    CUcontext context = nullptr;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) ||
        cuCtxSetCurrent(context))
        return false;
    c10::cuda::_internal::setHasPrimaryContext(
        [](c10::DeviceIndex) { return true; });
    device().init(1);
    return true;
}

bool enable()
{
    moiety_torch_options options = {};
    options.struct_size = sizeof(options);
    const std::string error = said(moiety_torch_enable(&options));
    (void)printf("%s", error.c_str());
    return error.empty() && moiety_torch_enable(&options) == MOIETY_E_INVALID &&
           moiety_torch_enable(nullptr) == MOIETY_E_INVALID;
}

/* A program that enables Moiety may fork, and use CUDA in the child. */
void try_a_child()
{
    pid_t child = fork();
    if (child == 0) {
        if (!start_cuda())
            _exit(2);
        void *block = device().raw_alloc(kMiB);
        device().raw_delete(block);
        _exit(block ? 0 : 1);
    }
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

} // namespace

int main()
{
    if (!enable())
        return 2;
    try_a_child();
    if (!start_cuda())
        return 2;
    EXPECT(moiety_torch::caching::allocator.load() == &device());
    try_tensors();
    try_statistics();
    try_history();
    try_flags();
    try_limits();
    try_a_tenant();
    try_statuses();
    try_fixed_memory();
    try_captures(nullptr);
    try_captures("graphs");
    try_a_checkpoint();
    EXPECT(live_bytes() == 0);
    return failures ? 1 : 0;
}
