// SPDX-License-Identifier: Apache-2.0
//
// The pool's resource is one, by CCCL's own concepts. With `main` linked to the
// library and the stand-in, memory is taken and given back by each way, also for a
// tenant.
#include "moiety/cxx/cuda_resource.hpp"

#include <cstdio>
#include <type_traits>

using cuda::mr::device_accessible;
using moiety::device_resource;

#if CCCL_VERSION >= 3001000
static_assert(cuda::mr::resource_with<device_resource, device_accessible>);
static_assert(
    cuda::mr::synchronous_resource_with<device_resource, device_accessible>);
#else
static_assert(
    cuda::mr::async_resource_with<device_resource, device_accessible>);
static_assert(cuda::mr::resource_with<device_resource, device_accessible>);
#endif
static_assert(std::is_copy_constructible_v<device_resource>);

// Whether the tenant is charged for blocks, and refused what its budget has no room
// for.
static bool is_right_for_tenant(const moiety::pool &pool)
{
    moiety_tenant_options options = MOIETY_TENANT_OPTIONS_INIT;
    options.budget_bytes = 1 << 20;
    moiety::tenant tenant(pool, options);
    device_resource resource(tenant), same(tenant), all(pool);
    cuda::stream_ref stream{cudaStream_t{nullptr}};
    void *memory = resource.allocate(stream, 5000, 4096);
    const bool is_charged = tenant.stats().live_bytes >= 5000;
    same.deallocate(stream, memory, 5000, 4096);
    try {
        resource.allocate_sync(2 << 20);
        return false;
    } catch (const moiety::out_of_memory &thrown) {
        return is_charged && thrown.status() == MOIETY_E_BUDGET &&
               tenant.stats().live_bytes == 0 && resource == same &&
               resource != all;
    }
}

int main()
{
    moiety::pool pool;
    device_resource resource(pool), same(pool);
    cuda::stream_ref stream{cudaStream_t{nullptr}};
    void *memory = resource.allocate(stream, 5000, 4096);
    resource.deallocate(stream, memory, 5000, 4096);
    memory = resource.allocate_async(5000, 256, stream);
    resource.deallocate_async(memory, 5000, 256, stream);
    memory = resource.allocate_sync(5000);
    same.deallocate_sync(memory, 5000);
    memory = resource.allocate(5000);
    resource.deallocate(memory, 5000);
    try {
        resource.allocate(stream, std::size_t{1} << 50);
        return 1;
    } catch (const std::bad_alloc &) {
    }
    moiety::pool other;
    bool is_right = pool.stats().allocation_freed == 4 &&
                    pool.stats().allocation_current == 0 && resource == same &&
                    resource != device_resource(other) &&
                    is_right_for_tenant(pool);
    std::puts(is_right ? "a resource" : "wrong");
    return is_right ? 0 : 1;
}
