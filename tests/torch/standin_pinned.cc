// SPDX-License-Identifier: Apache-2.0
//
// PyTorch's pinned memory over the stand-in driver, with a release's own libc10 and
// libc10_cuda. The two functions of libtorch_cpu and PyTorch's own allocator are
// this program's. releases.py makes it.
#include "emm/torch_pinned/pinned.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <cuda.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

extern "C" moiety_status moiety_torch_enable_pinned(uint32_t only_checks);

/* By which libtorch tells libc10_cuda; no header has it. */
namespace c10::cuda::_internal
{
void setHasPrimaryContext(bool (*has)(c10::DeviceIndex));
}

namespace
{

using moiety_torch::PinnedAllocator;

constexpr size_t kMiB = size_t(1) << 20;
constexpr int kOtherDevice = 1;
int failures;

void expect(bool is_so, const char *what, int line)
{
    if (!is_so) {
        (void)printf("standin_pinned.cc:%d: not so: %s\n", line, what);
        failures++;
    }
}
#define EXPECT(what) expect((what), #what, __LINE__)

/* PyTorch's own, which counts what reaches it. */
class Before final : public at::HostAllocator
{
  public:
    c10::DataPtr allocate(size_t bytes) override
    {
        allocated++;
        void *block = malloc(bytes);
        return {block, block, &give, c10::Device(c10::kCPU)};
    }
    void copy_data(void *, const void *, size_t) const override {}
    bool record_event(void *, void *, c10::Stream) override
    {
        recorded++;
        return true;
    }
    void empty_cache() override
    {
        emptied++;
    }
    at::HostStats get_stats() override
    {
        at::HostStats stats;
        stats.num_host_alloc = 1000;
        return stats;
    }
    void reset_accumulated_stats() override
    {
        resets++;
    }
    void reset_peak_stats() override
    {
        resets++;
    }
#if !MOIETY_TORCH_IS_BEFORE(2, 11)
    void begin_allocate_to_pool(c10::MempoolId_t,
                                std::function<bool(c10::Stream)>) override
    {
        captures++;
    }
    void end_allocate_to_pool(c10::MempoolId_t) override
    {
        captures--;
    }
    void release_pool(c10::MempoolId_t) override
    {
        released++;
    }
#endif
    int allocated = 0, freed = 0, recorded = 0, emptied = 0, resets = 0;
    int captures = 0, released = 0;

  private:
    static void give(void *block);
};

Before before;
at::HostAllocator *current = &before;

void Before::give(void *block)
{
    before.freed++;
    free(block);
}

template <typename Function> Function control(const char *name)
{
    return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

void set_faults(const char *plan)
{
    EXPECT(control<int (*)(const char *)>("moiety_standin_set_faults")(plan) ==
           0);
}

/* Work that is queued on it waits until release(). */
class Held
{
  public:
    explicit Held(CUstream stream) : stream_(stream)
    {
        EXPECT(control<int (*)(void *)>("moiety_standin_hold")(stream) == 0);
    }
    void release()
    {
        EXPECT(control<int (*)(void *)>("moiety_standin_release")(stream_) ==
               0);
        EXPECT(cuStreamSynchronize(stream_) == CUDA_SUCCESS);
    }

  private:
    CUstream stream_;
};

std::string thrown_by(const std::function<void()> &call)
{
    try {
        call();
    } catch (const c10::Error &error) {
        return error.what_without_backtrace();
    }
    return "";
}

bool has(const std::string &text, const char *words)
{
    return text.find(words) != std::string::npos;
}

CUstream new_stream()
{
    CUstream stream = nullptr;
    EXPECT(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    return stream;
}

c10::Stream of_torch(CUstream stream, int device = 0)
{
    return c10::cuda::getStreamFromExternal(
               stream, static_cast<c10::DeviceIndex>(device))
        .unwrap();
}

void copy_from(const void *block, size_t bytes, CUstream stream)
{
    static CUdeviceptr target;
    if (!target)
        EXPECT(cuMemAlloc(&target, 8 * kMiB) == CUDA_SUCCESS);
    EXPECT(cuMemcpyHtoDAsync(target, block, bytes, stream) == CUDA_SUCCESS);
}

moiety_pool *pool_of(const void *block)
{
    moiety_pool *pool = nullptr;
    EXPECT(moiety_pool_of(moiety_torch::address_of(block), &pool) == MOIETY_OK);
    return pool;
}

struct Numbers {
    int64_t blocks, bytes, segments, reserved;
};

Numbers numbers()
{
    at::HostStats stats = current->get_stats();
#if MOIETY_TORCH_IS_BEFORE(2, 10)
    return {stats.allocation.current, stats.allocated_bytes.current,
            stats.segment.current, stats.reserved_bytes.current};
#else
    return {stats.active_requests.current, stats.active_bytes.current,
            stats.allocations.current, stats.allocated_bytes.current};
#endif
}

/* Whether one of more new blocks than the arena has room for lies where `block` did;
 * it frees them all. */
bool comes_again(const void *block, size_t bytes)
{
    std::vector<c10::DataPtr> all;
    bool does = false;
    const size_t room = static_cast<size_t>(numbers().reserved) / bytes;
    for (size_t i = 0; i <= room; i++) {
        all.push_back(current->allocate(bytes));
        auto *from = static_cast<char *>(all.back().get());
        does = does || (block >= from && block < from + bytes);
    }
    return does;
}

void try_blocks()
{
    const int allocated = before.allocated;
    c10::DataPtr none = current->allocate(0);
    c10::DataPtr block = current->allocate(kMiB);
    c10::DataPtr copy = current->clone(block.get(), 100);
    EXPECT(!none.get() && block.get() == block.get_context());
    EXPECT(block.device().is_cpu());
    EXPECT(pool_of(block.get()));
    EXPECT(!memcmp(block.get(), copy.get(), 100));
    EXPECT(before.allocated == allocated);
    void *was = block.get();
    block.clear();
    EXPECT(comes_again(was, kMiB));
}

/* A use that names a place within a block, by the memory of another tensor. */
void try_a_use(size_t bytes)
{
    CUstream stream = new_stream();
    int foreign = 0;
    Held held(stream);
    c10::DataPtr block = current->allocate(bytes);
    auto *data = static_cast<char *>(block.get());
    copy_from(data + bytes / 2, bytes / 2, stream);
    EXPECT(current->record_event(data + bytes / 2, &foreign, of_torch(stream)));
    block.clear();
    EXPECT(!comes_again(data, bytes));
    held.release();
    EXPECT(comes_again(data, bytes));
}

/* The one that is held back is recorded first, or last. */
void try_two_streams(bool is_first)
{
    CUstream held_back = new_stream(), other = new_stream();
    Held held(held_back);
    c10::DataPtr block = current->allocate(kMiB);
    void *data = block.get();
    for (bool is_held : {is_first, !is_first}) {
        CUstream stream = is_held ? held_back : other;
        copy_from(data, kMiB, stream);
        EXPECT(current->record_event(data, data, of_torch(stream)));
    }
    EXPECT(cuStreamSynchronize(other) == CUDA_SUCCESS);
    block.clear();
    EXPECT(!comes_again(data, kMiB));
    held.release();
    EXPECT(comes_again(data, kMiB));
}

/* A copy's buffer does not wait for work of another stream, which goes on. */
void try_a_busy_device()
{
    CUstream copies = new_stream(), busy = new_stream();
    Held held(busy);
    c10::DataPtr kept = current->allocate(kMiB);
    copy_from(kept.get(), kMiB, busy);
    EXPECT(current->record_event(kept.get(), kept.get(), of_torch(busy)));
    kept.clear();
    const Numbers first = numbers();
    for (int i = 0; i < 200; i++) {
        c10::DataPtr block = current->allocate(kMiB);
        copy_from(block.get(), kMiB, copies);
        EXPECT(
            current->record_event(block.get(), block.get(), of_torch(copies)));
        block.clear();
        EXPECT(cuStreamSynchronize(copies) == CUDA_SUCCESS);
    }
    EXPECT(numbers().reserved <= first.reserved + int64_t(8 * kMiB));
    held.release();
}

/* A stream that is gone leaves a block to all work of the device. */
void try_a_stream_that_is_gone()
{
    CUstream stream = new_stream();
    c10::DataPtr block = current->allocate(kMiB);
    void *data = block.get();
    EXPECT(current->record_event(data, data, of_torch(stream)));
    EXPECT(cuStreamDestroy(stream) == CUDA_SUCCESS);
    moiety_pool *pool = pool_of(data);
    block.clear();
    EXPECT(moiety_pool_synchronize(pool, 10000) == MOIETY_OK);
    EXPECT(comes_again(data, kMiB));
}

/* The driver makes no event. */
void try_no_events()
{
    CUstream stream = new_stream();
    std::vector<c10::DataPtr> blocks;
    for (int i = 0; i < 50; i++) {
        blocks.push_back(current->allocate(kMiB));
        EXPECT(current->record_event(blocks.back().get(), nullptr,
                                     of_torch(stream)));
    }
    void *data = blocks.back().get();
    moiety_pool *pool = pool_of(data);
    Held held(stream);
    copy_from(data, kMiB, stream);
    set_faults("cuEventCreate:from=1:code=2,cuEventRecord:from=1:code=999");
    blocks.clear();
    set_faults(nullptr);
    EXPECT(!comes_again(data, kMiB));
    held.release();
    EXPECT(moiety_pool_synchronize(pool, 10000) == MOIETY_OK);
    EXPECT(comes_again(data, kMiB));
}

void try_another_device()
{
    CUcontext own = nullptr, other = nullptr;
    EXPECT(cuCtxGetCurrent(&own) == CUDA_SUCCESS);
    EXPECT(cuDevicePrimaryCtxRetain(&other, kOtherDevice) == CUDA_SUCCESS);
    EXPECT(cuCtxSetCurrent(other) == CUDA_SUCCESS);
    CUstream stream = new_stream();
    CUdeviceptr target = 0;
    EXPECT(cuMemAlloc(&target, kMiB) == CUDA_SUCCESS);
    for (CUstream used : {stream, static_cast<CUstream>(nullptr)}) {
        c10::DataPtr block = current->allocate(kMiB);
        void *data = block.get();
        EXPECT(cuCtxSetCurrent(other) == CUDA_SUCCESS);
        Held held(used);
        EXPECT(cuMemcpyHtoDAsync(target, data, kMiB, used) == CUDA_SUCCESS);
        c10::Stream torch =
            used ? of_torch(used, kOtherDevice)
                 : c10::Stream(c10::Stream::DEFAULT,
                               c10::Device(c10::kCUDA, kOtherDevice));
        EXPECT(cuCtxSetCurrent(own) == CUDA_SUCCESS);
        EXPECT(current->record_event(data, data, torch));
        block.clear();
        EXPECT(!comes_again(data, kMiB));
        EXPECT(cuCtxSetCurrent(other) == CUDA_SUCCESS);
        held.release();
        EXPECT(cuCtxSetCurrent(own) == CUDA_SUCCESS);
        EXPECT(comes_again(data, kMiB));
    }
}

/* Its nodes are those of the first, so that one arena has the memory of both. */
void try_two_devices()
{
    c10::DataPtr first = current->allocate(kMiB);
    c10::cuda::set_device(kOtherDevice);
    c10::DataPtr second = current->allocate(kMiB);
    c10::cuda::set_device(0);
    EXPECT(pool_of(first.get()) == pool_of(second.get()));
}

/* A graph copies from the block at each launch: it never comes again. PyTorch's
 * allocator of device memory holds the guard. */
void try_a_capture()
{
    CUstream stream = new_stream();
    CUgraph graph = nullptr;
    c10::DataPtr block = current->allocate(3 * kMiB);
    void *data = block.get();
    const int allocated = before.allocated;
#if !MOIETY_TORCH_IS_BEFORE(2, 11)
    bool is_on = true;
    current->begin_allocate_to_pool({0, 7}, [&](c10::Stream) { return is_on; });
    EXPECT(before.captures == 1);
    current->allocate(kMiB);
    EXPECT(before.allocated == allocated + 1);
    is_on = false;
#endif
    EXPECT(moiety_capture_guard_begin() == MOIETY_OK);
    EXPECT(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED) ==
           CUDA_SUCCESS);
    copy_from(data, kMiB, stream);
    EXPECT(current->record_event(data, data, of_torch(stream)));
    block.clear();
    EXPECT(!comes_again(data, 3 * kMiB));
    EXPECT(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
    EXPECT(moiety_capture_guard_end() == MOIETY_OK);
#if !MOIETY_TORCH_IS_BEFORE(2, 11)
    current->end_allocate_to_pool({0, 7});
    current->release_pool({0, 7});
    EXPECT(before.captures == 0 && before.released == 1);
    EXPECT(before.allocated == allocated + 1);
#endif
    EXPECT(!comes_again(data, 3 * kMiB));
    EXPECT(allocated == before.allocated || allocated + 1 == before.allocated);
}

/* Used first, and freed while the stream captures; and one of another stream, which
 * the allocator asks about meanwhile. */
void try_frees_in_a_capture()
{
    CUstream stream = new_stream(), other = new_stream();
    CUgraph graph = nullptr;
    Held held(other);
    c10::DataPtr block = current->allocate(kMiB);
    c10::DataPtr pending = current->allocate(kMiB);
    void *data = block.get();
    copy_from(data, kMiB, stream);
    copy_from(pending.get(), kMiB, other);
    EXPECT(current->record_event(data, data, of_torch(stream)));
    EXPECT(current->record_event(pending.get(), nullptr, of_torch(other)));
    EXPECT(moiety_capture_guard_begin() == MOIETY_OK);
    EXPECT(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) ==
           CUDA_SUCCESS);
    pending.clear();
    block.clear();
    EXPECT(!comes_again(data, kMiB));
    EXPECT(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
    EXPECT(moiety_capture_guard_end() == MOIETY_OK);
    held.release();
    (void)comes_again(data, kMiB); /* It records the event. */
    EXPECT(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    EXPECT(comes_again(data, kMiB));
}

void try_statistics()
{
    current->empty_cache();
    const Numbers first = numbers();
    c10::DataPtr block = current->allocate(40 * kMiB);
    const Numbers with = numbers();
    EXPECT(with.blocks == first.blocks + 1);
    EXPECT(with.bytes == first.bytes + int64_t(40 * kMiB));
    EXPECT(with.segments > first.segments);
    EXPECT(with.reserved >= first.reserved + int64_t(40 * kMiB));
    EXPECT(current->get_stats().host_alloc_time.total > 0);
    EXPECT(current->get_stats().num_host_alloc > 1000);
    block.clear();
    EXPECT(numbers().reserved == with.reserved);
    const int64_t freed = current->get_stats().num_host_free;
    const int emptied = before.emptied;
    current->empty_cache();
    EXPECT(before.emptied == emptied + 1);
    EXPECT(numbers().reserved <= first.reserved);
    EXPECT(current->get_stats().num_host_free > freed);
    EXPECT(current->get_stats().host_free_time.count > 0);
    const int resets = before.resets;
    current->reset_accumulated_stats();
    current->reset_peak_stats();
    EXPECT(before.resets == resets + 2);
    EXPECT(current->get_stats().num_host_free == 0);
}

/* Pinned bytes for each that is asked for, by blocks of random lengths. */
void try_random_lengths(size_t most, int count)
{
    std::mt19937_64 random(7);
    std::vector<c10::DataPtr> all;
    double asked = 0;
    current->empty_cache();
    const Numbers first = numbers();
    for (int i = 0; i < count; i++) {
        size_t bytes = 1 + random() % most;
        all.push_back(current->allocate(bytes));
        asked += double(bytes);
    }
    EXPECT(double(numbers().reserved - first.reserved) < 1.1 * asked);
}

void try_threads()
{
    CUcontext context = nullptr;
    EXPECT(cuCtxGetCurrent(&context) == CUDA_SUCCESS);
    const Numbers first = numbers();
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; i++) {
        threads.emplace_back([i, context] {
            (void)cuCtxSetCurrent(context);
            CUstream stream = new_stream();
            std::vector<c10::DataPtr> live;
            std::mt19937_64 random(i);
            for (int turn = 0; turn < 500; turn++) {
                live.push_back(current->allocate(1 + random() % kMiB));
                (void)current->record_event(live.back().get(), nullptr,
                                            of_torch(stream));
                if (live.size() > 8)
                    live.erase(live.begin() + long(random() % 8));
            }
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    EXPECT(numbers().blocks == first.blocks);
    EXPECT(numbers().bytes == first.bytes);
}

/* The driver refuses: PyTorch's own has it, and gives it back. */
void try_a_refusal()
{
    current->empty_cache();
    const int allocated = before.allocated, freed = before.freed;
    set_faults("cuMemHostRegister:from=1:code=2,cuMemHostAlloc:from=1:code=2");
    c10::DataPtr block = current->allocate(700 * kMiB);
    set_faults(nullptr);
    EXPECT(before.allocated == allocated + 1 && block.get());
    const int recorded = before.recorded;
    EXPECT(current->record_event(block.get(), block.get_context(),
                                 of_torch(new_stream())));
    EXPECT(before.recorded == recorded + 1);
    block.clear();
    EXPECT(before.freed == freed + 1);
    current->allocate(kMiB);
    EXPECT(before.allocated == allocated + 1);
}

/* A child may free what its parent has, and gets nothing new. */
bool is_a_child_well(c10::DataPtr &block)
{
    pid_t child = fork();
    if (child == 0) {
        block.clear();
        bool is_refused = has(thrown_by([] { current->allocate(kMiB); }),
                              "a child of a fork has no pinned memory");
        _exit(is_refused ? 0 : 1);
    }
    int status = -1;
    return waitpid(child, &status, 0) == child && status == 0;
}

/* While another thread is in the allocator. */
void try_children()
{
    c10::DataPtr block = current->allocate(kMiB);
    EXPECT(current->record_event(block.get(), block.get_context(),
                                 of_torch(new_stream())));
    std::atomic<bool> is_over{false};
    std::thread other([&] {
        while (!is_over)
            current->allocate(1000);
    });
    for (int i = 0; i < 100; i++)
        EXPECT(is_a_child_well(block));
    is_over = true;
    other.join();
}

bool start_cuda()
{
    CUcontext context = nullptr;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) ||
        cuCtxSetCurrent(context))
        return false;
    c10::cuda::_internal::setHasPrimaryContext(
        [](c10::DeviceIndex) { return true; });
    return true;
}

/* Before its parent has used any, a child is as good as another process. */
void try_an_early_child()
{
    pid_t child = fork();
    if (child == 0) {
        if (!start_cuda())
            _exit(2);
        c10::DataPtr block = current->allocate(kMiB);
        _exit(before.allocated == 1 && block.get() ? 0 : 1);
    }
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

bool enable(c10::DataPtr *out_old)
{
    *out_old = before.allocate(100);
    EXPECT(moiety_torch_enable_pinned(1) == MOIETY_OK && current == &before);
    EXPECT(moiety_torch_enable_pinned(0) == MOIETY_OK && current != &before);
    EXPECT(moiety_torch_enable_pinned(0) == MOIETY_E_INVALID);
    EXPECT(has(moiety_last_error_message(), "already"));
    return current == &PinnedAllocator::instance();
}

void try_the_old(c10::DataPtr &old)
{
    const int recorded = before.recorded;
    EXPECT(current->record_event(old.get(), old.get_context(),
                                 of_torch(new_stream())));
    EXPECT(before.recorded == recorded + 1);
    const int freed = before.freed;
    old.clear();
    EXPECT(before.freed == freed + 1);
}

} // namespace

namespace at
{

__attribute__((visibility("default"))) void
setHostAllocator(c10::DeviceType, HostAllocator *allocator, uint8_t)
{
    current = allocator;
}

__attribute__((visibility("default"))) HostAllocator *
getHostAllocator(c10::DeviceType)
{
    return current;
}

} // namespace at

int main()
{
    c10::DataPtr old;
    (void)setenv("MOIETY_STANDIN_DEVICES", "2", 1);
    if (!enable(&old))
        return 2;
    try_an_early_child();
    if (!start_cuda())
        return 2;
    try_the_old(old);
    try_blocks();
    for (size_t bytes : {size_t(4096), kMiB, 5 * kMiB})
        try_a_use(bytes);
    try_two_streams(true);
    try_two_streams(false);
    try_a_busy_device();
    try_a_stream_that_is_gone();
    try_no_events();
    try_another_device();
    try_two_devices();
    try_a_capture();
    try_frees_in_a_capture();
    try_statistics();
    try_threads();
    try_random_lengths(64 * size_t(1024), 2000);
    try_random_lengths(4 * kMiB, 300);
    try_random_lengths(40 * kMiB, 60);
    try_a_refusal();
    try_children();
    return failures ? 1 : 0;
}
