// SPDX-License-Identifier: Apache-2.0
#include "tests/pool/pool_under_test.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "pool/driver/cuda_abi.h"
#include "tests/support/driver_probe.h"
#include "tests/support/tools/pool_maker.h"
#include "tests/support/tools/pools.h"

namespace pool_test
{
namespace
{

void EndUnless(bool condition, const char *what)
{
    if (condition)
        return;
    std::fprintf(stderr, "cannot use the stand-in: %s: %s\n", what,
                 moiety_last_error_message());
    std::abort();
}

template <typename... Parameters, typename... Arguments>
void MustCall(CUresult (*entry)(Parameters...), const char *what,
              Arguments... arguments)
{
    EndUnless(entry(arguments...) == CUDA_SUCCESS, what);
}

#define MUST(name, parameters, ...)                                            \
    MustCall(Get<CUresult parameters>(name), name, __VA_ARGS__)

} // namespace

void UseStandin()
{
    // Tests run in the root of their runfiles.
    char folder[4096];
    EndUnless(getcwd(folder, sizeof(folder)), "getcwd");
    std::string library = std::string(folder) + "/pool/standin/libcuda.so.1";
    setenv("MOIETY_DRIVER", library.c_str(), 1);
    const char *conf = getenv("MOIETY_TEST_CONF");
    conf ? setenv("MOIETY_CONF", conf, 1) : unsetenv("MOIETY_CONF");
    moiety_caps caps = {};
    caps.struct_size = sizeof(caps);
    EndUnless(moiety_probe(0, &caps) == MOIETY_OK, "the probe");
    SetCurrent(PrimaryContext());
}

void *Symbol(const char *name)
{
    void *found = driver_probe_symbol(name);
    EndUnless(found, name);
    return found;
}

void SetFaults(const std::string &plan)
{
    EndUnless(
        Get<int(const char *)>("moiety_standin_set_faults")(plan.c_str()) == 0,
        plan.c_str());
}

uint64_t Calls(const char *entry)
{
    return Get<uint64_t(const char *)>("moiety_standin_calls")(entry);
}

uint64_t Waits()
{
    return Get<uint64_t()>("moiety_standin_waits")();
}

int64_t Live(const char *kind)
{
    return Get<int64_t(const char *)>("moiety_standin_live")(kind);
}

void ResetContext()
{
    void *context = nullptr;
    EXPECT_EQ(0, Get<int(int)>("cuDevicePrimaryCtxReset_v2")(0));
    EXPECT_EQ(
        0, (Get<int(void **, int)>("cuDevicePrimaryCtxRetain")(&context, 0)));
}

moiety_context PrimaryContext()
{
    static moiety_context context = [] {
        CUcontext retained = nullptr;
        MUST("cuDevicePrimaryCtxRetain", (CUcontext *, CUdevice), &retained, 0);
        return retained;
    }();
    return context;
}

moiety_context NewContext()
{
    CUcontext context = nullptr, popped = nullptr;
    MUST("cuCtxCreate_v2", (CUcontext *, unsigned, CUdevice), &context, 0u, 0);
    MUST("cuCtxPopCurrent_v2", (CUcontext *), &popped);
    return context;
}

void DestroyContext(moiety_context context)
{
    MUST("cuCtxDestroy_v2", (CUcontext), context);
}

moiety_context Current()
{
    CUcontext context = nullptr;
    MUST("cuCtxGetCurrent", (CUcontext *), &context);
    return context;
}

void SetCurrent(moiety_context context)
{
    MUST("cuCtxSetCurrent", (CUcontext), context);
}

Stream::Stream()
{
    MUST("cuStreamCreate", (CUstream *, unsigned), &own_,
         static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
}

Stream::~Stream()
{
    while (hold_count_)
        Release();
    MUST("cuStreamDestroy_v2", (CUstream), own_);
}

void Stream::Hold()
{
    EndUnless(Get<int(void *)>("moiety_standin_hold")(own_) == 0, "hold");
    hold_count_++;
    // A stream with nothing to do is done, held or not.
    moiety_event event = NewEvent();
    MUST("cuEventRecord", (CUevent, CUstream), event, own_);
    DestroyEvent(event);
}

void Stream::Release()
{
    EndUnless(Get<int(void *)>("moiety_standin_release")(own_) == 0, "release");
    hold_count_--;
}

void Synchronize()
{
    moiety_context before = Current();
    SetCurrent(PrimaryContext());
    EndUnless(Get<CUresult()>("cuCtxSynchronize")() == CUDA_SUCCESS,
              "cuCtxSynchronize");
    SetCurrent(before);
}

moiety_event NewEvent()
{
    CUevent event = nullptr;
    MUST("cuEventCreate", (CUevent *, unsigned), &event,
         static_cast<unsigned>(CU_EVENT_DISABLE_TIMING));
    return event;
}

void DestroyEvent(moiety_event event)
{
    MUST("cuEventDestroy_v2", (CUevent), event);
}

void Fill(moiety_devptr address, size_t size_bytes, uint32_t word)
{
    MUST("cuMemsetD32_v2", (CUdeviceptr, unsigned, size_t), address, word,
         size_bytes / 4);
}

bool Holds(moiety_devptr address, size_t size_bytes, uint32_t word)
{
    const size_t count = size_bytes / 4;
    // Neither set nor compared word by word: sanitizers see each.
    std::unique_ptr<uint32_t[]> words(new uint32_t[count]);
    MUST("cuMemcpyDtoH_v2", (void *, CUdeviceptr, size_t),
         static_cast<void *>(words.get()), address, count * 4);
    return words[0] == word &&
           std::memcmp(&words[0], &words[1], (count - 1) * 4) == 0;
}

moiety_pool_options Defaults()
{
    moiety_pool_options options = driver_options();
    options.first_segment_bytes = 32 * kMiB;
    return options;
}

Pool::Pool(const moiety_pool_options &options)
{
    EndUnless(pool_maker.create(&options, &own_) == MOIETY_OK, "a pool");
}

Pool::~Pool()
{
    if (!own_)
        return;
    moiety_leaks leaks = End();
    EXPECT_EQ(0u, leaks.block_count);
    EXPECT_EQ(0u, leaks.bytes);
}

moiety_leaks Pool::End()
{
    moiety_leaks leaks = {};
    leaks.struct_size = sizeof(leaks);
    EXPECT_OK(pool_maker.destroy(own_, &leaks));
    own_ = nullptr;
    return leaks;
}

moiety_devptr Pool::Alloc(size_t size_bytes, moiety_stream stream)
{
    moiety_devptr address = 0;
    EXPECT_OK(moiety_alloc(own_, size_bytes, stream, &address));
    return address;
}

void Pool::Free(moiety_devptr address, moiety_stream stream)
{
    EXPECT_OK(moiety_free(own_, address, stream));
}

size_t Pool::UsableSize(moiety_devptr address)
{
    size_t size_bytes = 0;
    EXPECT_OK(moiety_usable_size(own_, address, &size_bytes));
    return size_bytes;
}

uint64_t Pool::Trim(uint64_t keep_bytes)
{
    uint64_t bytes = 0;
    EXPECT_OK(moiety_pool_trim(own_, keep_bytes, &bytes));
    return bytes;
}

uint64_t Pool::TrimAll()
{
    uint64_t bytes = Trim();
    Synchronize();
    return bytes + Trim();
}

moiety_pool_stats Pool::Stats()
{
    moiety_pool_stats stats = {};
    stats.struct_size = sizeof(stats);
    EXPECT_OK(moiety_pool_get_stats(own_, &stats));
    return stats;
}

bool Ranges::Add(uint64_t address, uint64_t size_bytes)
{
    auto next = end_of_.lower_bound(address);
    if (next != end_of_.end() && next->first < address + size_bytes)
        return false;
    if (next != end_of_.begin() && std::prev(next)->second > address)
        return false;
    end_of_.emplace(address, address + size_bytes);
    return true;
}

void Ranges::Remove(uint64_t address)
{
    end_of_.erase(address);
}

uint64_t Seed(uint64_t otherwise)
{
    const char *text = std::getenv("MOIETY_TEST_SEED");
    uint64_t seed = text ? std::strtoull(text, nullptr, 0) : otherwise;
    std::printf("seed %llu; MOIETY_TEST_SEED sets it\n",
                static_cast<unsigned long long>(seed));
    return seed;
}

} // namespace pool_test
