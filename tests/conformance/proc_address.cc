// SPDX-License-Identifier: Apache-2.0
//
// cuGetProcAddress: by name, version and stream flavour, before cuInit.
#include <dlfcn.h>

#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/driver_under_test.h"
#include "tests/conformance/roles.h"

namespace conformance
{

namespace
{

constexpr int kVersion = 13000;
constexpr CUdriverProcAddressQueryResult kUnset =
    static_cast<CUdriverProcAddressQueryResult>(77);

struct Answer {
    CUresult code;
    void *address;
    CUdriverProcAddressQueryResult status;
};

Answer Ask(const char *name, int version, cuuint64_t flags = 0)
{
    Answer answer = {CUDA_ERROR_UNKNOWN, nullptr, kUnset};
    answer.code = cu.GetProcAddress_v2(name, &answer.address, version, flags,
                                       &answer.status);
    return answer;
}

void ExpectFound(const std::string &name, const Answer &answer)
{
    EXPECT_SUCCESS(name, answer.code);
    EXPECT_YES(name + ".is-not-null", answer.address != nullptr);
    EXPECT_SAME(name + ".status", int{answer.status},
                int{CU_GET_PROC_ADDRESS_SUCCESS});
}

void ExpectNotFound(const std::string &name, const Answer &answer,
                    CUdriverProcAddressQueryResult status)
{
    /* The status tells; the call itself succeeds where it is asked for. */
    EXPECT_SUCCESS(name, answer.code);
    EXPECT_SAME(name + ".is-null", answer.address,
                static_cast<void *>(nullptr));
    EXPECT_SAME(name + ".status", int{answer.status}, int{status});
}

void ExpectVersionsAreTold()
{
    ExpectFound("proc-address.plain", Ask("cuMemAlloc", kVersion));
    ExpectNotFound("proc-address.unknown-name", Ask("cuNoSuchEntry", kVersion),
                   CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    ExpectNotFound("proc-address.newer-than-asked",
                   Ask("cuCtxRecordEvent", 12000),
                   CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    ExpectNotFound("proc-address.versioned-name",
                   Ask("cuMemAlloc_v2", kVersion),
                   CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    EXPECT_YES("proc-address.version-chooses-the-entry",
               Ask("cuCtxCreate", 3020).address !=
                   Ask("cuCtxCreate", 12050).address);
    EXPECT_YES("proc-address.older-entry-serves-newer-version",
               Ask("cuCtxCreate", 11040).address ==
                   Ask("cuCtxCreate", 12000).address);
    EXPECT_YES("proc-address.elapsed-time-has-two",
               Ask("cuEventElapsedTime", 12000).address !=
                   Ask("cuEventElapsedTime", 12080).address);
}

void ExpectFlavours()
{
    const char *name = "cuMemsetD8Async";
    Answer per_thread =
        Ask(name, kVersion, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    Answer legacy = Ask(name, kVersion, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
    ExpectFound("proc-address.per-thread", per_thread);
    ExpectFound("proc-address.legacy", legacy);
    EXPECT_YES("proc-address.legacy-is-the-default",
               legacy.address == Ask(name, kVersion).address);
    EXPECT_YES("proc-address.per-thread-differs",
               legacy.address != per_thread.address);
    EXPECT_YES("proc-address.per-thread-of-entry-without-stream",
               Ask("cuMemAlloc", kVersion,
                   CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
                       .address == Ask("cuMemAlloc", kVersion).address);
}

void ExpectSymbolsAgree()
{
    const struct {
        const char *symbol;
        const char *base;
        cuuint64_t flags;
    } rows[] = {
        {"cuMemAlloc_v2", "cuMemAlloc", CU_GET_PROC_ADDRESS_DEFAULT},
        {"cuMemFree_v2", "cuMemFree", CU_GET_PROC_ADDRESS_DEFAULT},
        {"cuStreamDestroy_v2", "cuStreamDestroy", CU_GET_PROC_ADDRESS_DEFAULT},
        {"cuEventRecord", "cuEventRecord", CU_GET_PROC_ADDRESS_DEFAULT},
        {"cuEventRecord_ptsz", "cuEventRecord",
         CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM},
        {"cuIpcOpenMemHandle_v2", "cuIpcOpenMemHandle",
         CU_GET_PROC_ADDRESS_DEFAULT},
        {"cuGetProcAddress_v2", "cuGetProcAddress",
         CU_GET_PROC_ADDRESS_DEFAULT},
        {"cuInit", "cuInit", CU_GET_PROC_ADDRESS_DEFAULT},
    };
    for (const auto &row : rows) {
        std::string name = std::string("proc-address.symbol.") + row.symbol;
        void *symbol = dlsym(cu.library, row.symbol);
        EXPECT_YES(name + ".is-exported", symbol != nullptr);
        ExpectFound(name, Ask(row.base, kVersion, row.flags));
    }
}

/* Entries that the Toolkit declares for drivers of other platforms. */
bool IsOfAnotherPlatform(const std::string &base)
{
    return base == "cuWGLGetDevice" || base == "cuEventCreateFromEGLSync";
}

/* Every base name that bindings of today ask for at once; those that are
 * missing get a line of their own. */
void ExpectEveryEntryResolves()
{
    static const struct {
        const char *base;
    } entries[] = {
#define ENTRY(symbol, base, version, flavour) {#base},
#include "pool/standin/entries.inc"
#undef ENTRY
    };
    int unresolved = 0;
    for (const auto &entry : entries) {
        if (IsOfAnotherPlatform(entry.base) ||
            Ask(entry.base, kVersion).address != nullptr)
            continue;
        unresolved++;
        EXPECT_YES(std::string("proc-address.resolves.") + entry.base, false);
    }
    EXPECT_SAME("proc-address.unresolved-of-cuda-13.0", unresolved, 0);
}

/* Without a name or a place for the address the real driver crashes. */
void ExpectStatusIsOptionalAndFlagsAreChecked()
{
    void *address = nullptr;
    CUdriverProcAddressQueryResult status = kUnset;
    EXPECT_SUCCESS(
        "proc-address.null-status",
        cu.GetProcAddress_v2("cuInit", &address, kVersion, 0, nullptr));
    EXPECT_SUCCESS(
        "proc-address.null-status.unknown-name",
        cu.GetProcAddress_v2("cuNoSuchEntry", &address, kVersion, 0, nullptr));
    EXPECT_INVALID(
        "proc-address.unknown-flags",
        cu.GetProcAddress_v2("cuInit", &address, kVersion, 0x100, &status));
}

void ExpectFourArgumentsWorkToo()
{
    void *address = nullptr;
    EXPECT_SUCCESS("proc-address.v1",
                   cu.GetProcAddress("cuInit", &address, kVersion, 0));
    EXPECT_YES("proc-address.v1.is-not-null", address != nullptr);
    void *const found = address;
    EXPECT_CU("proc-address.v1.unknown-name",
              cu.GetProcAddress("cuNoSuchEntry", &address, kVersion, 0),
              CUDA_ERROR_NOT_FOUND);
    EXPECT_YES("proc-address.v1.unknown-name.writes-nothing", address == found);
}

} // namespace

/* In a fresh process: nothing has called cuInit there. */
ROLE(proc_address)
{
    ExpectVersionsAreTold();
    ExpectFlavours();
    ExpectSymbolsAgree();
    ExpectEveryEntryResolves();
    ExpectStatusIsOptionalAndFlagsAreChecked();
    ExpectFourArgumentsWorkToo();
    int count = 0;
    EXPECT_CU("proc-address.initialises-nothing", cu.DeviceGetCount(&count),
              CUDA_ERROR_NOT_INITIALIZED);
}

TEST(ProcAddress, BeforeInit)
{
    RunRole("proc_address");
}

} // namespace conformance
