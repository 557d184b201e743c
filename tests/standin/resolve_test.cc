// SPDX-License-Identifier: Apache-2.0
//
// Every entry that CUDA 13.0 declares resolves, by base name, version and
// stream flavour, to the symbol that the library exports.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/standin/standin_under_test.h"

namespace
{

using GetProcAddress = CUresult(const char *, void **, int, cuuint64_t,
                                CUdriverProcAddressQueryResult *);

constexpr bool LEGACY = false;
constexpr bool PER_THREAD = true;

struct Entry {
    const char *symbol;
    const char *base;
    int version;
    bool is_per_thread;
};

constexpr Entry kEntries[] = {
#define ENTRY(symbol, base, version, flavour)                                  \
    {#symbol, #base, version, flavour},
#include "pool/standin/entries.inc"
};

void *Resolve(const Entry &entry, CUdriverProcAddressQueryResult *status)
{
    void *found = nullptr;
    cuuint64_t flags = entry.is_per_thread
                           ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                           : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    auto *get = standin::Get<GetProcAddress>("cuGetProcAddress_v2");
    get(entry.base, &found, entry.version, flags, status);
    return found;
}

TEST(Resolve, FindsEveryDeclaredEntryBeforeInit)
{
    int checked = 0;
    for (const Entry &entry : kEntries) {
        CUdriverProcAddressQueryResult status =
            CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        EXPECT_EQ(Resolve(entry, &status),
                  dlsym(standin::Handle(), entry.symbol))
            << entry.symbol;
        EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS) << entry.symbol;
        checked++;
    }
    EXPECT_GT(checked, 600);
}

TEST(Resolve, TellsAnUnknownNameFromATooLowVersion)
{
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    EXPECT_EQ(Resolve({"", "cuNoSuchEntry", 13000, LEGACY}, &status), nullptr);
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    EXPECT_EQ(Resolve({"", "cuCtxRecordEvent", 12000, LEGACY}, &status),
              nullptr);
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
}

TEST(Resolve, GivesTheLegacyEntryWhereThereIsNoPerThreadOne)
{
    CUdriverProcAddressQueryResult status;
    EXPECT_EQ(Resolve({"", "cuMemAlloc", 13000, PER_THREAD}, &status),
              dlsym(standin::Handle(), "cuMemAlloc_v2"));
}

TEST(Resolve, StubsAnswerNotSupportedAndAreCounted)
{
    auto *is_implemented = standin::Get<moiety_standin_is_implemented_fn>(
        "moiety_standin_is_implemented");
    auto *unimplemented_calls =
        standin::Get<moiety_standin_unimplemented_calls_fn>(
            "moiety_standin_unimplemented_calls");
    ASSERT_EQ(is_implemented("cuLaunchKernel"), 0);
    ASSERT_EQ(is_implemented("cuMemAlloc"), 1);
    ASSERT_EQ(is_implemented("cuNoSuchEntry"), -1);
    uint64_t before = unimplemented_calls();
    EXPECT_EQ(standin::Get<CUresult()>("cuLaunchKernel")(),
              CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(unimplemented_calls(), before + 1);
}

} // namespace
