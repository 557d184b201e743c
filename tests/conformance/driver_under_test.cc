// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/driver_under_test.h"

#include <dlfcn.h>

#include <cstdlib>

namespace conformance
{

Driver cu;

namespace
{

/* What a missing entry becomes, so that a hole is a failed check and not a
 * crash. */
template <typename Entry> struct Missing;
template <typename... Arguments> struct Missing<CUresult (*)(Arguments...)> {
    static CUresult Call(Arguments...)
    {
        return CUDA_ERROR_NOT_FOUND;
    }
};

using GetProcAddress = decltype(Driver::GetProcAddress_v2);

template <typename Entry>
void Fill(GetProcAddress get, const char *base, int version, cuuint64_t flags,
          const char *member, Entry *entry)
{
    void *address = nullptr;
    CUdriverProcAddressQueryResult found;
    if (get(base, &address, version, flags, &found) == CUDA_SUCCESS &&
        address != nullptr) {
        *entry = reinterpret_cast<Entry>(address);
        return;
    }
    cu.missing.push_back(member);
    *entry = Missing<Entry>::Call;
}

std::string DriverFile()
{
    const char *setting = std::getenv("MOIETY_DRIVER");
    std::string file = setting == nullptr ? "" : setting;
    return file.find('/') == std::string::npos ? "libcuda.so.1" : file;
}

struct Named {
    const char *name;
    int code;
};

#define ENUM(tag) [[maybe_unused]] constexpr Named k_##tag[] = {
#define VALUE(name, value) {#name, value},
#define ENUM_END(tag)                                                          \
    }                                                                          \
    ;
#include "pool/driver/cuda_constants.inc"

} // namespace

bool OpenDriver(std::string *why)
{
    cu.library = dlopen(DriverFile().c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (cu.library == nullptr) {
        *why = dlerror();
        return false;
    }
    auto get = reinterpret_cast<GetProcAddress>(
        dlsym(cu.library, "cuGetProcAddress_v2"));
    if (get == nullptr) {
        *why = DriverFile() + " has no cuGetProcAddress_v2";
        return false;
    }
    cu.is_standin = dlsym(cu.library, "moiety_standin_version") != nullptr;
#define X(member, base, version, flags, parameters)                            \
    Fill(get, #base, version, flags, #member, &cu.member);
#include "tests/conformance/driver_entries.inc"
#undef X
    return true;
}

int CountDevices(std::string *why)
{
    int count = 0;
    CUresult code = cu.Init(0);
    if (code == CUDA_SUCCESS)
        code = cu.DeviceGetCount(&count);
    if (code != CUDA_SUCCESS)
        *why = "no device: " + NameOf(code);
    else if (count == 0)
        *why = "no device: the driver counts 0";
    return count;
}

std::string NameOf(CUresult code)
{
    for (const Named &named : k_CUresult) {
        if (named.code == static_cast<int>(code))
            return named.name;
    }
    return std::to_string(static_cast<int>(code));
}

} // namespace conformance
