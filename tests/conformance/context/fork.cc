// SPDX-License-Identifier: Apache-2.0
//
// The child of a fork has no driver.
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"
#include "tests/conformance/roles.h"

namespace conformance
{

namespace
{

/* What a child was told. It may have been forked while another thread held the
 * lock of malloc() or of the tally: it makes its calls, says their codes and
 * ends; its parent does the checks. */
struct ToldToChild {
    CUresult init;
    CUresult device_get_count;
    CUresult ctx_get_current;
    CUresult mem_alloc;
    CUresult mem_free;
    CUresult mem_get_info;
};

/* The calls that take no handle of the parent's, or a mere address: with a
 * stream or an event of the parent the real driver crashes in some calls. */
ToldToChild CallsAfterInit(CUdeviceptr block)
{
    CUdeviceptr address = 0;
    CUcontext context = nullptr;
    size_t size_bytes = 0;
    int number = 0;
    ToldToChild told = {};
    told.init = cu.Init(0);
    told.device_get_count = cu.DeviceGetCount(&number);
    told.ctx_get_current = cu.CtxGetCurrent(&context);
    told.mem_alloc = cu.MemAlloc(&address, 512);
    told.mem_free = cu.MemFree(block);
    told.mem_get_info = cu.MemGetInfo(&size_bytes, &size_bytes);
    return told;
}

template <typename Calls> ToldToChild InChild(const Calls &calls)
{
    int ends[2];
    MUST_BE(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        ToldToChild told = calls();
        bool is_said = write(ends[1], &told, sizeof told) == sizeof told;
        _exit(is_said ? 0 : 1);
    }
    close(ends[1]);
    ToldToChild told = {};
    bool is_heard = read(ends[0], &told, sizeof told) == sizeof told;
    close(ends[0]);
    int status = -1;
    MUST_BE(waitpid(child, &status, 0) == child);
    EXPECT_YES("fork.child.ends-by-itself",
               is_heard && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return told;
}

void ExpectNoDriver(const ToldToChild &told)
{
    const CUresult want = CUDA_ERROR_NOT_INITIALIZED;
    EXPECT_CU("fork.child.init", told.init, want);
    EXPECT_CU("fork.child.device-get-count", told.device_get_count, want);
    EXPECT_CU("fork.child.ctx-get-current", told.ctx_get_current, want);
    EXPECT_CU("fork.child.mem-alloc", told.mem_alloc, want);
    EXPECT_CU("fork.child.mem-free", told.mem_free, want);
    EXPECT_CU("fork.child.mem-get-info", told.mem_get_info, want);
}

} // namespace

ROLE(fork_after_init)
{
    MUST(cu.CtxSetCurrent(PrimaryContext()));
    DeviceBlock block(4096);
    ExpectNoDriver(InChild([&block] { return CallsAfterInit(block); }));
    EXPECT_SUCCESS("fork.parent.goes-on", cu.MemsetD8(block, 2, 4096));
    EXPECT_YES("fork.parent.memory-is-unharmed", AllBytesAre(block, 4096, 2));
}

ROLE(fork_before_init)
{
    ToldToChild told = InChild([] {
        ToldToChild only = {};
        only.init = cu.Init(0);
        return only;
    });
    EXPECT_SUCCESS("fork.before-init.child.init", told.init);
    EXPECT_SUCCESS("fork.before-init.parent.init", cu.Init(0));
}

TEST(Fork, AfterInitTheChildHasNoDriver)
{
    RunRole("fork_after_init");
}

TEST(Fork, BeforeInitBothHaveOne)
{
    RunRole("fork_before_init");
}

} // namespace conformance
