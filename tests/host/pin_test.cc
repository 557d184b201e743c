// SPDX-License-Identifier: Apache-2.0
//
// The caller's own memory: each byte is pinned as long as a range has it.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>

#include "tests/host/child_under_test.h"
#include "tests/host/pages_under_test.h"

namespace host_test
{
namespace
{

class HostPin : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }
    void SetUp() override
    {
        before_ = pool_test::Live("host");
    }
    void TearDown() override
    {
        pool_test::SetFaults("");
        EXPECT_OK(moiety_host_pin_keep(0));
        EXPECT_EQ(before_, pool_test::Live("host"));
    }
    int64_t Count() const
    {
        return pool_test::Live("host") - before_;
    }

    Pages pages_{16};

  private:
    int64_t before_ = 0;
};

std::string Message()
{
    return moiety_last_error_message();
}

TEST_F(HostPin, PinsAndUnpins)
{
    EXPECT_OK(pages_.Pin(1, 2));
    EXPECT_FALSE(pages_.IsPinned(0));
    EXPECT_TRUE(pages_.IsPinned(1));
    EXPECT_TRUE(pages_.IsPinned(2));
    EXPECT_FALSE(pages_.IsPinned(3));
    EXPECT_OK(pages_.Unpin(1, 2));
    EXPECT_FALSE(pages_.IsPinned(1));
}

// What shares a page with it is somebody else's, who may copy it, or pin it.
TEST_F(HostPin, PinsNothingBesideTheRange)
{
    char *inside = pages_.At(3) - 1;
    EXPECT_OK(moiety_host_pin(inside, 2));
    EXPECT_FALSE(Pages::IsPinnedAt(inside - 1));
    EXPECT_TRUE(Pages::IsPinnedAt(inside));
    EXPECT_TRUE(Pages::IsPinnedAt(inside + 1));
    EXPECT_FALSE(Pages::IsPinnedAt(inside + 2));
    EXPECT_OK(moiety_host_pin(inside + 2, 100));
    EXPECT_OK(moiety_host_unpin(inside, 2));
    EXPECT_FALSE(Pages::IsPinnedAt(inside));
    EXPECT_TRUE(Pages::IsPinnedAt(inside + 2));
    EXPECT_OK(moiety_host_unpin(inside + 2, 100));
}

TEST_F(HostPin, CountsTheSameRange)
{
    EXPECT_OK(pages_.Pin(0, 4));
    EXPECT_OK(pages_.Pin(0, 4));
    EXPECT_EQ(1, Count());
    EXPECT_OK(pages_.Unpin(0, 4));
    EXPECT_TRUE(pages_.IsPinned(3));
    EXPECT_OK(pages_.Unpin(0, 4));
    EXPECT_EQ(MOIETY_E_FOREIGN, pages_.Unpin(0, 4));
}

TEST_F(HostPin, KeepsPagesThatAnotherRangeHas)
{
    EXPECT_OK(pages_.Pin(4, 4));
    EXPECT_OK(pages_.Pin(2, 10));
    EXPECT_EQ(3, Count()) << "what was pinned, and both sides of it";
    EXPECT_OK(pages_.Unpin(4, 4));
    for (size_t i = 0; i < 16; i++)
        EXPECT_EQ(i >= 2 && i < 12, pages_.IsPinned(i)) << i;
    EXPECT_OK(pages_.Unpin(2, 10));
}

TEST_F(HostPin, KeepsAdjacentRangesApart)
{
    EXPECT_OK(pages_.Pin(0, 2));
    EXPECT_OK(pages_.Pin(2, 2));
    EXPECT_OK(pages_.Unpin(0, 2));
    EXPECT_FALSE(pages_.IsPinned(1));
    EXPECT_TRUE(pages_.IsPinned(2));
    EXPECT_OK(pages_.Unpin(2, 2));
}

TEST_F(HostPin, RefusesToUnpinWhatWasNotPinned)
{
    EXPECT_OK(pages_.Pin(0, 4));
    EXPECT_EQ(MOIETY_E_FOREIGN, pages_.Unpin(0, 2));
    EXPECT_EQ(MOIETY_E_FOREIGN, pages_.Unpin(1, 3));
    EXPECT_EQ(MOIETY_E_FOREIGN, pages_.Unpin(8, 1));
    EXPECT_NE(std::string::npos, Message().find("not a range that was pinned"));
    EXPECT_TRUE(pages_.IsPinned(0));
    EXPECT_OK(pages_.Unpin(0, 4));
}

TEST_F(HostPin, NamesWhatIsWrong)
{
    EXPECT_EQ(MOIETY_E_INVALID, moiety_host_pin(nullptr, 1));
    EXPECT_NE(std::string::npos, Message().find("address is NULL"));
    EXPECT_EQ(MOIETY_E_INVALID, pages_.Pin(0, 0));
    EXPECT_NE(std::string::npos, Message().find("size_bytes is 0"));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_host_pin(pages_.At(0), SIZE_MAX));
    EXPECT_NE(std::string::npos, Message().find("past the end"));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_host_pin(reinterpret_cast<void *>(UINTPTR_MAX - 10), 5));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_host_unpin(nullptr, 1));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_host_unpin(pages_.At(0), SIZE_MAX));
}

TEST_F(HostPin, WantsMemoryThatIsThere)
{
    // The kernel maps nothing there unless it is told to.
    void *nowhere = reinterpret_cast<void *>(4096);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_host_pin(nowhere, 1));
    EXPECT_EQ(MOIETY_E_FOREIGN, moiety_host_unpin(nowhere, 1));
}

TEST_F(HostPin, WantsACurrentContext)
{
    pool_test::SetCurrent(nullptr);
    EXPECT_EQ(MOIETY_E_INVALID, pages_.Pin(0, 1));
    EXPECT_NE(std::string::npos, Message().find("no context is current"));
    pool_test::SetCurrent(pool_test::PrimaryContext());
}

TEST_F(HostPin, UnpinsWithoutACurrentContext)
{
    EXPECT_OK(pages_.Pin(0, 1));
    pool_test::SetCurrent(nullptr);
    EXPECT_OK(pages_.Unpin(0, 1));
    pool_test::SetCurrent(pool_test::PrimaryContext());
}

TEST_F(HostPin, LeavesWhatOthersRegisteredToThem)
{
    auto *enter = pool_test::Get<CUresult(void *, size_t, unsigned)>(
        "cuMemHostRegister_v2");
    auto *leave = pool_test::Get<CUresult(void *)>("cuMemHostUnregister");
    ASSERT_EQ(CUDA_SUCCESS, enter(pages_.At(2), pages_.Bytes(1), 0));
    EXPECT_EQ(MOIETY_E_IN_USE, pages_.Pin(0, 4));
    EXPECT_EQ(1, Count());
    EXPECT_EQ(MOIETY_E_FOREIGN, pages_.Unpin(0, 4));
    EXPECT_EQ(CUDA_SUCCESS, leave(pages_.At(2)));
}

TEST_F(HostPin, UnpinsWhatItHadPinnedUntilItFailed)
{
    EXPECT_OK(pages_.Pin(4, 2));
    // Of the two sides, the second fails.
    pool_test::SetFaults(
        "cuMemHostRegister:nth=2:code=CUDA_ERROR_OUT_OF_MEMORY");
    EXPECT_EQ(MOIETY_E_NO_PINNED_MEMORY, pages_.Pin(0, 10));
    EXPECT_NE(std::string::npos, Message().find("cuMemHostRegister"));
    EXPECT_EQ(1, Count());
    EXPECT_TRUE(pages_.IsPinned(4));
    EXPECT_OK(pages_.Unpin(4, 2));
}

// Whichever call fails, what the driver has registered is still known: also what
// is asked after because a part of the range was pinned before.
TEST_F(HostPin, ForgetsNothingWhenACallFails)
{
    uint64_t calls = 0;
    unsigned n = 0;
    do {
        SCOPED_TRACE("call " + std::to_string(++n));
        EXPECT_OK(pages_.Pin(0, 1));
        uint64_t before = pool_test::Calls();
        pool_test::SetFaults("*:nth=" + std::to_string(n) +
                             ":code=CUDA_ERROR_UNKNOWN");
        moiety_status status = pages_.Pin(0, 2);
        calls = pool_test::Calls() - before;
        pool_test::SetFaults("");
        if (status == MOIETY_OK) {
            EXPECT_OK(pages_.Unpin(0, 2));
        }
        EXPECT_OK(pages_.Unpin(0, 1));
        EXPECT_OK(moiety_host_pin_keep(0));
        EXPECT_EQ(0, Count());
    } while (calls >= n);
    EXPECT_LT(5u, n) << "each of more than four calls failed once";
}

TEST_F(HostPin, TriesAgainWhatTheDriverDidNotTakeBack)
{
    EXPECT_OK(pages_.Pin(0, 1));
    pool_test::SetFaults(
        "cuMemHostUnregister:nth=1:code=CUDA_ERROR_LAUNCH_FAILED");
    EXPECT_EQ(MOIETY_E_DRIVER, pages_.Unpin(0, 1));
    EXPECT_EQ(1, Count());
    EXPECT_OK(moiety_host_pin_keep(0));
    EXPECT_EQ(0, Count());
}

TEST_F(HostPin, KeepsWhatItMayAndLetsTheOldestGo)
{
    EXPECT_OK(moiety_host_pin_keep(pages_.Bytes(2)));
    for (size_t i : {0u, 4u, 8u})
        EXPECT_OK(pages_.Pin(i, 1));
    EXPECT_OK(pages_.Unpin(4, 1));
    EXPECT_OK(pages_.Unpin(0, 1));
    EXPECT_EQ(3, Count());
    EXPECT_OK(pages_.Unpin(8, 1));
    EXPECT_FALSE(pages_.IsPinned(4)) << "the first that was unpinned";
    EXPECT_TRUE(pages_.IsPinned(0));
    EXPECT_TRUE(pages_.IsPinned(8));
    uint64_t calls = pool_test::Calls("cuMemHostRegister");
    EXPECT_OK(pages_.Pin(8, 1));
    EXPECT_EQ(calls, pool_test::Calls("cuMemHostRegister")) << "it is pinned";
    EXPECT_OK(pages_.Unpin(8, 1));
    EXPECT_OK(moiety_host_pin_keep(0));
    EXPECT_EQ(0, Count());
}

// A copy of what is pinned may not cross from one registration to another.
TEST_F(HostPin, LetsGoWhatItKeptWhereARangeWouldBeCutInTwo)
{
    EXPECT_OK(moiety_host_pin_keep(pages_.Bytes(16)));
    EXPECT_OK(pages_.Pin(0, 2));
    EXPECT_OK(pages_.Unpin(0, 2));
    EXPECT_OK(pages_.Pin(1, 4));
    EXPECT_EQ(1, Count()) << "one range, one registration";
    EXPECT_FALSE(pages_.IsPinned(0));
    EXPECT_OK(pages_.Unpin(1, 4));
    EXPECT_OK(pages_.Pin(2, 2));
    EXPECT_TRUE(pages_.IsPinned(1)) << "kept, and not in the way";
    EXPECT_OK(pages_.Pin(0, 4));
    EXPECT_EQ(2, Count()) << "in the way, but somebody has it";
    EXPECT_OK(pages_.Unpin(0, 4));
    EXPECT_OK(pages_.Unpin(2, 2));
}

TEST_F(HostPin, SaysWhatTheDriverSaidOfWhatIsInTheWay)
{
    EXPECT_OK(moiety_host_pin_keep(pages_.Bytes(16)));
    EXPECT_OK(pages_.Pin(0, 2));
    EXPECT_OK(pages_.Unpin(0, 2));
    pool_test::SetFaults(
        "cuMemHostUnregister:nth=1:code=CUDA_ERROR_LAUNCH_FAILED");
    EXPECT_EQ(MOIETY_E_DRIVER, pages_.Pin(1, 4));
    EXPECT_NE(std::string::npos, Message().find("cuMemHostUnregister"));
    EXPECT_EQ(1, Count());
    EXPECT_OK(pages_.Pin(1, 4));
    EXPECT_EQ(1, Count());
    EXPECT_OK(pages_.Unpin(1, 4));
}

TEST_F(HostPin, PinsAgainWhatWentWithItsContext)
{
    moiety_context context = pool_test::NewContext();
    pool_test::SetCurrent(context);
    EXPECT_OK(pages_.Pin(0, 4));
    pool_test::SetCurrent(pool_test::PrimaryContext());
    pool_test::DestroyContext(context);
    EXPECT_FALSE(pages_.IsPinned(1));
    EXPECT_OK(pages_.Pin(1, 2));
    EXPECT_TRUE(pages_.IsPinned(1));
    // What is not pinned again is its owner's own.
    EXPECT_TRUE(IsKeptFromChildren(pages_.At(1)));
    EXPECT_FALSE(IsKeptFromChildren(pages_.At(0)));
    EXPECT_FALSE(IsKeptFromChildren(pages_.At(3)));
    EXPECT_OK(pages_.Unpin(1, 2));
    EXPECT_OK(pages_.Unpin(0, 4));
}

// But for what shares a page with other memory.
TEST_F(HostPin, KeepsWholePagesFromChildrenMeanwhile)
{
    *pages_.At(1) = 'x';
    EXPECT_OK(moiety_host_pin(pages_.At(0) + 8, pages_.Bytes(2)));
    EXPECT_TRUE(pages_.IsPinned(1));
    EXPECT_TRUE(IsKeptFromChildren(pages_.At(1)));
    EXPECT_FALSE(IsKeptFromChildren(pages_.At(0)));
    EXPECT_FALSE(IsKeptFromChildren(pages_.At(2)));
    EXPECT_FALSE(ChildHas(pages_.At(1), 'x'));
    EXPECT_OK(moiety_host_unpin(pages_.At(0) + 8, pages_.Bytes(2)));
    EXPECT_FALSE(IsKeptFromChildren(pages_.At(1)));
    EXPECT_TRUE(ChildHas(pages_.At(1), 'x'));
}

TEST_F(HostPin, ThatIsRefusedKeepsNothingFromChildren)
{
    pool_test::SetFaults("cuMemHostRegister:nth=1:code=CUDA_ERROR_UNKNOWN");
    EXPECT_EQ(MOIETY_E_DRIVER, pages_.Pin(0, 2));
    pool_test::SetFaults("");
    EXPECT_FALSE(IsKeptFromChildren(pages_.At(0)));
}

// How the library learns which memory is private.
enum class Kernel { kThis, kOlder, kWithoutProc };

// No ioctl() of this thread succeeds any more: the kernel knows none of /proc.
void RefuseIoctl()
{
    sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
    ASSERT_EQ(0, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    ASSERT_EQ(0, prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
    ASSERT_EQ(-1, ioctl(0, 0));
}

// Pages of three kinds: some private, some shared, some of a file.
class HostPinChildren : public HostPin,
                        public ::testing::WithParamInterface<Kernel>
{
  protected:
    // Maps the pages from `first` on anew, out of a file.
    void MapFile(size_t first, size_t count, int flags)
    {
        int file = memfd_create("pages", MFD_CLOEXEC);
        ASSERT_EQ(0, ftruncate(file, static_cast<off_t>(pages_.Bytes(count))));
        ASSERT_EQ(pages_.At(first),
                  mmap(pages_.At(first), pages_.Bytes(count),
                       PROT_READ | PROT_WRITE, flags | MAP_FIXED, file, 0));
        close(file);
    }

    // Pins these pages, asks whether children have `page`, and unpins them.
    bool IsKept(size_t first, size_t count, size_t page)
    {
        moiety_status status = MOIETY_OK;
        rlimit before{};
        EXPECT_EQ(0, getrlimit(RLIMIT_NOFILE, &before));
        std::thread thread([&] {
            pool_test::SetCurrent(pool_test::PrimaryContext());
            if (GetParam() == Kernel::kOlder)
                RefuseIoctl();
            rlimit none = {0, before.rlim_max};
            if (GetParam() == Kernel::kWithoutProc) {
                EXPECT_EQ(0, setrlimit(RLIMIT_NOFILE, &none));
            }
            status = pages_.Pin(first, count);
        });
        thread.join();
        EXPECT_EQ(0, setrlimit(RLIMIT_NOFILE, &before));
        EXPECT_OK(status);
        bool is_kept = IsKeptFromChildren(pages_.At(page));
        EXPECT_OK(pages_.Unpin(first, count));
        EXPECT_FALSE(IsKeptFromChildren(pages_.At(page)));
        return is_kept;
    }
};

bool IsKnown(Kernel kernel)
{
    return kernel != Kernel::kWithoutProc;
}

TEST_P(HostPinChildren, DoNotHavePrivateMemory)
{
    EXPECT_EQ(IsKnown(GetParam()), IsKept(0, 4, 0));
    MapFile(1, 2, MAP_PRIVATE);
    EXPECT_EQ(IsKnown(GetParam()), IsKept(0, 4, 0)) << "several mappings";
    EXPECT_EQ(IsKnown(GetParam()), IsKept(1, 2, 2)) << "of a file";
}

// A fork does not copy it, and processes share it.
TEST_P(HostPinChildren, HaveSharedMemory)
{
    MapFile(0, 4, MAP_SHARED);
    EXPECT_FALSE(IsKept(0, 4, 0));
    EXPECT_FALSE(IsKept(3, 2, 3)) << "behind it, a private page";
    EXPECT_FALSE(IsKept(3, 2, 4));
    MapFile(8, 1, MAP_SHARED);
    EXPECT_FALSE(IsKept(6, 4, 6)) << "before it, two private pages";
}

INSTANTIATE_TEST_SUITE_P(Kernels, HostPinChildren,
                         ::testing::Values(Kernel::kThis, Kernel::kOlder,
                                           Kernel::kWithoutProc));

// What was looked at stays as it was.
TEST_F(HostPin, LeavesTheCallersAdvice)
{
    *pages_.At(0) = 'x';
    ASSERT_EQ(0, madvise(pages_.At(0), pages_.Bytes(2), MADV_WIPEONFORK));
    EXPECT_OK(pages_.Pin(0, 2));
    EXPECT_OK(pages_.Unpin(0, 2));
    EXPECT_TRUE(ChildHas(pages_.At(0), '\0'));
}

TEST_F(HostPin, IsNotForAChild)
{
    EXPECT_OK(pages_.Pin(0, 1));
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0)
        _exit(pages_.Pin(2, 1) == MOIETY_E_FORKED &&
                      pages_.Unpin(0, 1) == MOIETY_E_FORKED &&
                      moiety_host_pin_keep(0) == MOIETY_E_FORKED
                  ? 0
                  : 1);
    int result = -1;
    ASSERT_EQ(child, waitpid(child, &result, 0));
    EXPECT_EQ(0, result);
    EXPECT_OK(pages_.Unpin(0, 1));
}

} // namespace
} // namespace host_test
