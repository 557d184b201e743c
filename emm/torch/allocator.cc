/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Taking and giving: what every tensor passes.
 */
#include "allocator.h"

#include <moiety/oom.h>
#include <moiety/segment.h>

#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/CallOnce.h>
#include <c10/util/Exception.h>

#include <utility>

namespace moiety_torch
{

namespace
{

constexpr size_t kOneExabyte = size_t(1) << 60;
constexpr caching::RecordContext kWithStack = caching::RecordContext::STATE;

std::string size_text(uint64_t bytes)
{
    char text[32];
    if (bytes < (UINT64_C(1) << 20))
        (void)snprintf(text, sizeof(text), "%.2f KiB", double(bytes) / 1024);
    else if (bytes < (UINT64_C(1) << 30))
        (void)snprintf(text, sizeof(text), "%.2f MiB",
                       double(bytes) / (1 << 20));
    else
        (void)snprintf(text, sizeof(text), "%.2f GiB",
                       double(bytes) / (1 << 30));
    return text;
}

/* What others of the process registered to be asked for memory. */
int call_free_memory_callbacks(moiety_pool *, uint64_t, void *)
{
    bool has_freed = false;
    auto *registry = c10::FreeCudaMemoryCallbacksRegistry();
    for (const auto &name : registry->Keys())
        has_freed = registry->Create(name)->Execute() || has_freed;
    return has_freed;
}

void tell_of_allocation(void *block)
{
    if (const auto *interpreter = c10::impl::GPUTrace::get_trace())
        (*interpreter)
            ->trace_gpu_memory_allocation(c10::kCUDA,
                                          reinterpret_cast<uintptr_t>(block));
}

void tell_of_free(void *block)
{
    if (const auto *interpreter = c10::impl::GPUTrace::get_trace())
        (*interpreter)
            ->trace_gpu_memory_deallocation(c10::kCUDA,
                                            reinterpret_cast<uintptr_t>(block));
}

} // namespace

Allocator &Allocator::instance()
{
    static Allocator *const allocator = new Allocator;
    return *allocator;
}

void delete_block(void *block)
{
    Allocator::instance().raw_delete(block);
}

void Allocator::set(const PoolSettings &settings, bool has_exact_peaks)
{
    pools_.set(settings, [this](int device, moiety_pool *pool) {
        check(moiety_pool_add_oom_callback(pool, call_free_memory_callbacks,
                                           nullptr),
              "the pool takes no callback");
        history_.watch(device, pool);
    });
    settings_ = settings;
    for (int i = 0; i < kDevicesMax; i++) {
        fractions_[static_cast<size_t>(i)].store(1.0,
                                                 std::memory_order_relaxed);
        counters_of(i).set_exact(has_exact_peaks);
    }
}

void Allocator::init(int device_count)
{
    /* Relaxed: PyTorch starts CUDA under a lock. */
    device_count_.store(device_count, std::memory_order_relaxed);
}

bool Allocator::initialized()
{
    return device_count_.load(std::memory_order_relaxed) > 0;
}

void Allocator::enable(bool is_on)
{
    /* Relaxed: a setting; a thread that another waits for has it. */
    is_enabled_.store(is_on, std::memory_order_relaxed);
}

bool Allocator::isEnabled() const
{
    return is_enabled_.load(std::memory_order_relaxed);
}

std::string Allocator::name()
{
    return "moiety";
}

c10::DataPtr Allocator::allocate(size_t bytes)
{
    Device device = c10::cuda::current_device();
    c10::Device place(c10::kCUDA, device);
    if (bytes == 0)
        return {nullptr, nullptr, &delete_block, place};
    void *block =
        take(bytes, device, c10::cuda::getCurrentCUDAStream(device).stream());
    return {block, block, &delete_block, place};
}

c10::DeleterFnPtr Allocator::raw_deleter() const
{
    return &delete_block;
}

bool Allocator::is_simple_data_ptr(const c10::DataPtr &block) const
{
    return block.get() == block.get_context();
}

void Allocator::copy_data(void *to, const void *from, size_t bytes) const
{
    C10_CUDA_CHECK(
        cudaMemcpy(to, from, bytes, cudaMemcpyKind::cudaMemcpyDeviceToDevice));
}

void *Allocator::raw_alloc(size_t bytes)
{
    if (bytes == 0)
        return nullptr;
    Device device = c10::cuda::current_device();
    return take(bytes, device,
                c10::cuda::getCurrentCUDAStream(device).stream());
}

void *Allocator::raw_alloc_with_stream(size_t bytes, cudaStream_t stream)
{
    return bytes ? take(bytes, c10::cuda::current_device(), stream) : nullptr;
}

void *Allocator::take_uncached(size_t bytes, Device device)
{
    void *block = nullptr;
    cudaError_t error = C10_CUDA_ERROR_HANDLED(cudaMalloc(&block, bytes));
    if (error == cudaErrorMemoryAllocation)
        fail(MOIETY_E_NO_DEVICE_MEMORY, bytes, device);
    C10_CUDA_CHECK(error);
    return block;
}

void *Allocator::take(size_t bytes, Device device, cudaStream_t stream)
{
    TORCH_CHECK_WITH(OutOfMemoryError, bytes < kOneExabyte,
                     "CUDA out of memory. Tried to allocate more than 1EB "
                     "memory.");
    if (!isEnabled())
        return take_uncached(bytes, device);
    moiety_pool *pool = pools_.get(device);
    History::Call call(history_, kWithStack);
    Arenas::Taken taken;
    if (arenas_.is_any_recording())
        taken = arenas_.take(device, bytes, stream);
    if (!taken.is_routed) {
        moiety_devptr address = 0;
        taken.status = moiety_alloc(pool, bytes, stream_of(stream), &address);
        if (taken.status != MOIETY_OK && arenas_.trim_lenders(device))
            taken.status =
                moiety_alloc(pool, bytes, stream_of(stream), &address);
        taken.block = block_at(address);
    }
    if (taken.status != MOIETY_OK)
        fail(taken.status, bytes, device);
    size_t usable = bytes;
    ignore(moiety_usable_size(pool, address_of(taken.block), &usable));
    counters_of(device).note_allocation(static_cast<int64_t>(usable));
    if (history_.is_on())
        history_.note(History::Entry::ALLOC, device, address_of(taken.block),
                      bytes, stream, {0, 0});
    tell_profiler(taken.block, static_cast<int64_t>(usable), device);
    tell_of_allocation(taken.block);
    return taken.block;
}

void Allocator::raw_delete(void *block)
{
    if (!block)
        return;
    tell_of_free(block);
    Arenas::Block arena_block;
    bool is_arenas =
        arenas_.has_blocks() && arenas_.forget(block, &arena_block);
    if (is_arenas && arena_block.foreign) {
        counters_of(arena_block.key.first)
            .note_free(static_cast<int64_t>(arena_block.bytes));
        arena_block.foreign->raw_delete(block);
        return;
    }
    size_t bytes = 0;
    Device likely = 0;
    (void)C10_CUDA_ERROR_HANDLED(c10::cuda::GetDevice(&likely));
    int device = pools_.device_of(block, likely < 0 ? 0 : likely, &bytes);
    if (device < 0) {
        /* Taken while caching was off. */
        C10_CUDA_CHECK_WARN(cudaFree(block));
        return;
    }
    give(device, block, bytes, is_arenas ? &arena_block : nullptr);
}

void Allocator::give(int device, void *block, size_t bytes,
                     const Arenas::Block *arena_block)
{
    moiety_pool *pool = pools_.find(device);
    sharing_.end(pool, block);
    counters_of(device).note_free(static_cast<int64_t>(bytes));
    History::Call call(history_, caching::RecordContext::ALL);
    if (history_.is_on()) {
        void *stream = arena_block ? arena_block->stream : nullptr;
        c10::MempoolId_t key =
            arena_block ? arena_block->key.second : c10::MempoolId_t{0, 0};
        history_.note(History::Entry::FREE_REQUESTED, device, address_of(block),
                      bytes, stream, key);
        history_.note(History::Entry::FREE_COMPLETED, device, address_of(block),
                      bytes, stream, key);
    }
    tell_profiler(block, -static_cast<int64_t>(bytes),
                  static_cast<Device>(device));
    moiety_status status = moiety_free_on_alloc_stream(pool, address_of(block));
    if (status != MOIETY_OK && status != MOIETY_E_FORKED)
        TORCH_WARN("Moiety: a tensor's memory was not freed: ",
                   moiety_last_error_message());
}

void Allocator::tell_profiler(void *block, int64_t bytes, Device device)
{
    if (!c10::memoryProfilingEnabled())
        return;
    Sums sums = counters_of(device).read();
    moiety_pool_stats stats;
    ignore(read_stats(pools_.get(device), &stats));
    c10::reportMemoryUsageToProfiler(
        block, bytes, static_cast<size_t>(sums.bytes),
        stats.reserved_bytes_current, c10::Device(c10::kCUDA, device));
}

void Allocator::fail(moiety_status status, size_t bytes, Device device)
{
    bool is_memory = status == MOIETY_E_NO_DEVICE_MEMORY ||
                     status == MOIETY_E_TOO_LARGE || status == MOIETY_E_BUDGET;
    std::string reason = moiety_last_error_message();
    TORCH_CHECK(is_memory, "Moiety: ", reason);
    DeviceMemory memory = memory_of(device);
    moiety_pool_stats stats;
    ignore(read_stats(pools_.get(device), &stats));
    Sums sums = counters_of(device).read();
    if (history_.is_on())
        history_.note(History::Entry::OOM, device, memory.free_bytes, bytes,
                      nullptr, {0, 0});
    history_.tell_out_of_memory(device, bytes, memory.total_bytes,
                                memory.free_bytes);
    c10::reportOutOfMemoryToProfiler(
        static_cast<int64_t>(bytes), static_cast<size_t>(sums.bytes),
        stats.reserved_bytes_current, c10::Device(c10::kCUDA, device));
    TORCH_CHECK_WITH(
        OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ",
        size_text(bytes), ". GPU ", static_cast<int>(device),
        " has a total capacity of ", size_text(memory.total_bytes),
        " of which ", size_text(memory.free_bytes),
        " is free. Of the memory that Moiety has reserved, ",
        size_text(stats.reserved_bytes_current), " of a limit of ",
        size_text(stats.limit_bytes), ", tensors have ",
        size_text(static_cast<uint64_t>(sums.bytes)), ". ", reason);
}

void Allocator::recordStream(const c10::DataPtr &block,
                             c10::cuda::CUDAStream stream)
{
    /* Memory of others is not ours to keep: another process's, say. */
    if (!block.get() || block.get_deleter() != &delete_block)
        return;
    size_t bytes;
    int device = pools_.device_of(block.get(), block.device().index(), &bytes);
    if (device >= 0)
        check(moiety_record_use(pools_.find(device), address_of(block.get()),
                                stream_of(stream.stream())),
              "a use of the tensor's memory cannot be noted");
}

void *Allocator::getBaseAllocation(void *block, size_t *out_bytes)
{
    size_t bytes;
    int device = pools_.device_of(block, c10::cuda::current_device(), &bytes);
    TORCH_CHECK(device >= 0, "invalid device pointer: ", block);
    moiety_segment_info segment = {};
    segment.struct_size = sizeof(segment);
    check(moiety_segment_find(pools_.find(device), address_of(block), &segment),
          "the block's segment is not known");
    if (out_bytes)
        *out_bytes = segment.size_bytes;
    return block_at(segment.address);
}

} // namespace moiety_torch
