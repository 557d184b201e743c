/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Makes Moiety the allocator of pinned memory: the function for Python.
 */
#include <moiety/status.h>
#include <moiety/types.h>

#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <exception>

#include "pinned.h"

extern "C" MOIETY_API moiety_status
moiety_torch_enable_pinned(uint32_t only_checks);

namespace
{

using moiety_torch::PinnedAllocator;
using Set = void (*)(c10::DeviceType, at::HostAllocator *, uint8_t);
using Get = at::HostAllocator *(*)(c10::DeviceType);

/* PyTorch's own registers with 0. */
constexpr uint8_t kPriority = 1;

/* The library is not linked with libtorch_cpu, which has both functions: a program
 * without pinned=True needs neither. Python loads libtorch_cpu for itself alone, so
 * it is opened by name. */
void *find(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    void *library =
        found ? nullptr : dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
    if (library) {
        found = dlsym(library, name);
        (void)dlclose(library);
    }
    TORCH_CHECK(found, "this PyTorch has no ", name,
                ": it takes no other allocator of pinned memory");
    return found;
}

/* at::getHostAllocator(c10::DeviceType) */
Get getter()
{
    return reinterpret_cast<Get>(
        find("_ZN2at16getHostAllocatorEN3c1010DeviceTypeE"));
}

/* at::setHostAllocator(c10::DeviceType, at::HostAllocator *, uint8_t) */
Set setter()
{
    return reinterpret_cast<Set>(find(
        "_ZN2at16setHostAllocatorEN3c1010DeviceTypeEPNS_13HostAllocatorEh"));
}

void enable(bool only_checks)
{
    const Get get = getter();
    const Set set = setter();
    PinnedAllocator &ours = PinnedAllocator::instance();
    at::HostAllocator *before = get(c10::kCUDA);
    TORCH_CHECK(before != &ours,
                "Moiety is PyTorch's allocator of pinned memory already");
    if (only_checks)
        return;
    ours.wrap(before);
    set(c10::kCUDA, &ours, kPriority);
    TORCH_CHECK(get(c10::kCUDA) == &ours,
                "another allocator of pinned memory has a higher priority");
}

} // namespace

/* Makes Moiety PyTorch's allocator of pinned memory, for good, in one thread. If
 * `only_checks` is not 0, it only finds out whether that is possible. */
moiety_status moiety_torch_enable_pinned(uint32_t only_checks)
{
    try {
        enable(only_checks != 0);
        return MOIETY_OK;
    } catch (const c10::Error &thrown) {
        return moiety_fail(MOIETY_E_INVALID, thrown.what_without_backtrace());
    } catch (const std::exception &thrown) {
        return moiety_fail(MOIETY_E_INVALID, thrown.what());
    }
}
