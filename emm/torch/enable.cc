/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "enable.h"

#include "allocator.h"

#include <c10/util/Exception.h>

#include <cstdio>
#include <exception>

#define MOIETY_TORCH_TEXT_OF(name) #name
#define MOIETY_TORCH_TEXT(name) MOIETY_TORCH_TEXT_OF(name)

namespace
{

using moiety_torch::Allocator;
namespace caching = moiety_torch::caching;

void enable(const moiety_torch_options &options)
{
    TORCH_CHECK(options.struct_size >= sizeof(options),
                "the options are of another version");
    caching::CUDAAllocator *before = caching::allocator.load();
    Allocator &ours = Allocator::instance();
    TORCH_CHECK(before != &ours, "Moiety is PyTorch's allocator already");
    TORCH_CHECK(!before || !before->initialized(),
                "CUDA has started in this process, and tensors may have "
                "memory of the allocator \"",
                before ? before->name() : "",
                "\": Moiety must be enabled before");
    moiety_torch::PoolSettings settings;
    settings.flags =
        options.pool_flags | MOIETY_POOL_NOTE_STREAMS | MOIETY_POOL_HUGE_TABLES;
    settings.memory = static_cast<moiety_memory>(options.memory);
    settings.limit_bytes = options.limit_bytes;
    ours.set(settings, options.has_exact_peaks != 0);
    /* torch.accelerator looks at the one, all else at the other. */
    caching::allocator.store(&ours);
    c10::SetAllocator(c10::kCUDA, &ours);
}

moiety_torch::ArenaKey key_of(const moiety_torch_mempool &pool)
{
    return {pool.device, {pool.id[0], pool.id[1]}};
}

template <typename Call> int told(char *error, size_t error_bytes, Call call)
{
    error[0] = 0;
    try {
        call();
        return 0;
    } catch (const c10::Error &thrown) {
        (void)snprintf(error, error_bytes, "%s",
                       thrown.what_without_backtrace());
    } catch (const std::exception &thrown) {
        (void)snprintf(error, error_bytes, "%s", thrown.what());
    }
    return -1;
}

} // namespace

int moiety_torch_enable(const moiety_torch_options *options, char *error,
                        size_t error_bytes)
{
    return told(error, error_bytes, [&] { enable(*options); });
}

void *moiety_torch_pool(int device, char *error, size_t error_bytes)
{
    void *pool = nullptr;
    (void)told(error, error_bytes, [&] {
        TORCH_CHECK(device >= 0 && device < moiety_torch::kDevicesMax,
                    "there is no device ", device);
        pool = Allocator::instance().pools().get(device);
    });
    return pool;
}

int moiety_torch_mempool_set(const moiety_torch_mempool *wanted, char *error,
                             size_t error_bytes)
{
    return told(error, error_bytes, [&] {
        TORCH_CHECK(wanted->struct_size >= sizeof(*wanted),
                    "the memory pool is of another version");
        auto &arenas = Allocator::instance().arenas();
        if (wanted->tenant_name)
            arenas.set_tenant(key_of(*wanted), wanted->tenant_name,
                              wanted->limit_bytes);
        else
            arenas.set_fixed(key_of(*wanted), wanted->limit_bytes);
    });
}

int moiety_torch_mempool_pause(const moiety_torch_mempool *pool, uint32_t flags,
                               char *error, size_t error_bytes)
{
    return told(error, error_bytes, [&] {
        moiety_torch::check(
            moiety_tenant_pause(
                Allocator::instance().arenas().tenant_of(key_of(*pool)), flags),
            "the memory pool is not paused");
    });
}

int moiety_torch_mempool_resume(const moiety_torch_mempool *pool, char *error,
                                size_t error_bytes)
{
    return told(error, error_bytes, [&] {
        moiety_torch::check(
            moiety_tenant_resume(
                Allocator::instance().arenas().tenant_of(key_of(*pool))),
            "the memory pool is not resumed");
    });
}

const char *moiety_torch_release(void)
{
    return MOIETY_TORCH_TEXT(MOIETY_TORCH_MAJOR) "." MOIETY_TORCH_TEXT(
        MOIETY_TORCH_MINOR);
}
