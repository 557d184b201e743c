/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include <moiety/stacks/torch.h>
#include <moiety/tenant.h>

#include "allocator.h"

#include <c10/util/Exception.h>

#include <exception>
#include <new>

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

/* Turns an exception of `call` into a status and the thread's message. */
template <typename Call> moiety_status told(Call call)
{
    try {
        call();
        return MOIETY_OK;
    } catch (const moiety_torch::StatusError &thrown) {
        return moiety_fail(thrown.status(), thrown.what_without_backtrace());
    } catch (const c10::Error &thrown) {
        return moiety_fail(MOIETY_E_INVALID, thrown.what_without_backtrace());
    } catch (const std::bad_alloc &) {
        return moiety_fail(MOIETY_E_NO_HOST_MEMORY, "no memory for PyTorch");
    } catch (const std::exception &thrown) {
        return moiety_fail(MOIETY_E_INVALID, thrown.what());
    }
}

/* The same for a call on the arenas, with a MemPool that the caller names. */
template <typename Call>
moiety_status told_of(const moiety_torch_mempool *pool, Call call)
{
    return told([&] {
        TORCH_CHECK(pool && pool->struct_size >= sizeof(*pool),
                    "the memory pool is of another version");
        call(Allocator::instance().arenas());
    });
}

} // namespace

moiety_status moiety_torch_enable(const moiety_torch_options *options)
{
    return told([&] {
        TORCH_CHECK(options, "moiety_torch_enable: options is NULL");
        enable(*options);
    });
}

moiety_status moiety_torch_mempool_set(const moiety_torch_mempool *wanted)
{
    return told_of(wanted, [&](moiety_torch::Arenas &arenas) {
        if (wanted->tenant_name)
            arenas.set_tenant(key_of(*wanted), wanted->tenant_name,
                              wanted->limit_bytes);
        else
            arenas.set_fixed(key_of(*wanted), wanted->limit_bytes);
    });
}

moiety_status moiety_torch_mempool_pause(const moiety_torch_mempool *pool,
                                         uint32_t flags)
{
    return told_of(pool, [&](moiety_torch::Arenas &arenas) {
        moiety_torch::check(
            moiety_tenant_pause(arenas.tenant_of(key_of(*pool)), flags),
            "the memory pool is not paused");
    });
}

moiety_status moiety_torch_mempool_resume(const moiety_torch_mempool *pool)
{
    return told_of(pool, [&](moiety_torch::Arenas &arenas) {
        moiety_torch::check(
            moiety_tenant_resume(arenas.tenant_of(key_of(*pool))),
            "the memory pool is not resumed");
    });
}

const char *moiety_torch_release(void)
{
    return MOIETY_TORCH_TEXT(MOIETY_TORCH_MAJOR) "." MOIETY_TORCH_TEXT(
        MOIETY_TORCH_MINOR);
}
