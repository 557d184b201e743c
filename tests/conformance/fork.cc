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

/* The calls that take no handle of the parent's, or a mere address: with a
 * stream or an event of the parent the real driver crashes in some calls. */
void ExpectNoDriverInChild(CUdeviceptr block)
{
    CUdeviceptr address = 0;
    CUcontext context = nullptr;
    size_t size_bytes = 0;
    int number = 0;
    const CUresult want = CUDA_ERROR_NOT_INITIALIZED;
    EXPECT_CU("fork.child.init", cu.Init(0), want);
    EXPECT_CU("fork.child.device-get-count", cu.DeviceGetCount(&number), want);
    EXPECT_CU("fork.child.ctx-get-current", cu.CtxGetCurrent(&context), want);
    EXPECT_CU("fork.child.mem-alloc", cu.MemAlloc(&address, 512), want);
    EXPECT_CU("fork.child.mem-free", cu.MemFree(block), want);
    EXPECT_CU("fork.child.mem-get-info",
              cu.MemGetInfo(&size_bytes, &size_bytes), want);
}

} // namespace

ROLE(fork_after_init)
{
    MUST(cu.CtxSetCurrent(PrimaryContext()));
    DeviceBlock block(4096);
    pid_t child = fork();
    if (child == 0) {
        ExpectNoDriverInChild(block);
        _exit(0);
    }
    int status = -1;
    MUST_BE(waitpid(child, &status, 0) == child);
    EXPECT_YES("fork.child.ends-by-itself",
               WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT_CU("fork.parent.goes-on", cu.MemsetD8(block, 2, 4096), CUDA_SUCCESS);
    EXPECT_YES("fork.parent.memory-is-unharmed", AllBytesAre(block, 4096, 2));
}

ROLE(fork_before_init)
{
    pid_t child = fork();
    if (child == 0) {
        EXPECT_CU("fork.before-init.child.init", cu.Init(0), CUDA_SUCCESS);
        _exit(0);
    }
    int status = -1;
    MUST_BE(waitpid(child, &status, 0) == child);
    EXPECT_CU("fork.before-init.parent.init", cu.Init(0), CUDA_SUCCESS);
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
