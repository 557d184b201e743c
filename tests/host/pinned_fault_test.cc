// SPDX-License-Identifier: Apache-2.0
//
// Every step by which memory is pinned fails, at each of its calls: it is done
// without and said so, or refused; and nothing is left behind.
#include "tests/host/pinned_under_test.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "pool/driver/cuda_abi.h"

namespace host_test
{
namespace
{

constexpr uint64_t kBytes = 34 * kMiB;
constexpr unsigned kForever = 1000;

// A step that fails, and what becomes of a source that may do without it.
struct Case {
    const char *name;
    failing_step step;
    unsigned first;
    unsigned count;
    uint32_t flags;
    uint32_t fallback;    // MOIETY_HOST_FELL_ bits; 0: none is needed
    moiety_status status; // of a source that may fall back
    moiety_status strict; // of one that may not
};

void PrintTo(const Case &step, std::ostream *out)
{
    *out << step.name;
}

const Case kCases[] = {
    {"Map", FAILING_MAP, 1, 1, 0, 0, MOIETY_E_NO_HOST_MEMORY,
     MOIETY_E_NO_HOST_MEMORY},
    {"Map2MiB", FAILING_MAP, 1, 1, MOIETY_HOST_HUGE_2MIB,
     MOIETY_HOST_FELL_TO_TRANSPARENT, MOIETY_OK, MOIETY_E_NO_PINNED_MEMORY},
    {"Map1GiB", FAILING_MAP, 1, 2, MOIETY_HOST_HUGE_1GIB,
     MOIETY_HOST_FELL_TO_2MIB | MOIETY_HOST_FELL_TO_TRANSPARENT, MOIETY_OK,
     MOIETY_E_NO_PINNED_MEMORY},
    {"MapAnything", FAILING_MAP, 1, kForever, MOIETY_HOST_HUGE_2MIB,
     MOIETY_HOST_FELL_TO_TRANSPARENT, MOIETY_E_NO_HOST_MEMORY,
     MOIETY_E_NO_PINNED_MEMORY},
    {"HugeWish", FAILING_HUGE_WISH, 1, 1, 0, 0, MOIETY_OK, MOIETY_OK},
    {"Bind", FAILING_BIND, 1, 1, 0, MOIETY_HOST_FELL_TO_UNBOUND, MOIETY_OK,
     MOIETY_E_UNSUPPORTED},
    {"BindThread", FAILING_BIND_THREAD, 1, 1, MOIETY_HOST_WRITE_COMBINED,
     MOIETY_HOST_FELL_TO_UNBOUND, MOIETY_OK, MOIETY_E_UNSUPPORTED},
    {"FirstThread", FAILING_START, 1, 1, 0, MOIETY_HOST_FELL_TO_FEWER_THREADS,
     MOIETY_OK, MOIETY_E_NO_HOST_MEMORY},
    {"SecondThread", FAILING_START, 2, 1, 0, MOIETY_HOST_FELL_TO_FEWER_THREADS,
     MOIETY_OK, MOIETY_E_NO_HOST_MEMORY},
    {"EveryThread", FAILING_START, 1, kForever, 0,
     MOIETY_HOST_FELL_TO_FEWER_THREADS, MOIETY_OK, MOIETY_E_NO_HOST_MEMORY},
    {"Touch", FAILING_POPULATE, 1, 1, 0, 0, MOIETY_E_NO_PINNED_MEMORY,
     MOIETY_E_NO_PINNED_MEMORY},
    {"LastTouch", FAILING_POPULATE, 3, 1, 0, 0, MOIETY_E_NO_PINNED_MEMORY,
     MOIETY_E_NO_PINNED_MEMORY},
    {"TouchThatIsForbidden", FAILING_FORBIDDEN_POPULATE, 1, kForever, 0, 0,
     MOIETY_OK, MOIETY_OK},
    {"TouchOnAnOldKernel", FAILING_OLD_POPULATE, 1, kForever, 0, 0, MOIETY_OK,
     MOIETY_OK},
    {"ReadBack", FAILING_READ_BACK, 1, 1, 0, MOIETY_HOST_FELL_TO_UNVERIFIED,
     MOIETY_OK, MOIETY_E_UNSUPPORTED},
    {"AnyReadBack", FAILING_READ_BACK, 1, kForever, 0,
     MOIETY_HOST_FELL_TO_UNVERIFIED, MOIETY_OK, MOIETY_E_UNSUPPORTED},
};

// Where the kernel gives huge pages unasked, it is not asked for them.
unsigned CallsOf(const Case &step)
{
    std::string words;
    std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled") >>
                     std::ws,
                 words);
    bool is_unasked = step.step == FAILING_HUGE_WISH &&
                      words.find("[always]") != std::string::npos;
    return is_unasked ? 0 : step.first;
}

class PinnedFault : public PinnedTest,
                    public ::testing::WithParamInterface<Case>
{
};

std::string NameOf(const ::testing::TestParamInfo<Case> &of)
{
    return of.param.name;
}

INSTANTIATE_TEST_SUITE_P(Steps, PinnedFault, ::testing::ValuesIn(kCases),
                         NameOf);

TEST_P(PinnedFault, IsDoneWithoutAndSaidOrRefused)
{
    const Case &step = GetParam();
    Pinned pinned(step.flags);
    moiety_devptr address = 0;
    failing_steps_arm(step.step, step.first, step.count);
    EXPECT_EQ(step.status, pinned.Reserve(kBytes, &address));
    EXPECT_GE(failing_steps_disarm(), CallsOf(step)) << "it never failed";
    EXPECT_EQ(step.fallback, pinned.Stats().fallbacks);
    EXPECT_EQ(step.fallback == 0, pinned.Reason().empty()) << pinned.Reason();
    EXPECT_EQ(step.status == MOIETY_OK, address != 0);
    EXPECT_EQ(address ? 1u : 0u, pinned.Stats().region_count);
    if (address) {
        EXPECT_OK(pinned.Release(address, kBytes));
    }
}

TEST_P(PinnedFault, IsAnErrorWhereStrict)
{
    const Case &step = GetParam();
    Pinned pinned(step.flags | MOIETY_HOST_STRICT);
    moiety_devptr address = 0;
    failing_steps_arm(step.step, step.first, step.count);
    EXPECT_EQ(step.strict, pinned.Reserve(kBytes, &address));
    EXPECT_GE(failing_steps_disarm(), CallsOf(step)) << "it never failed";
    EXPECT_EQ(step.strict == MOIETY_OK, address != 0);
    if (address) {
        EXPECT_OK(pinned.Release(address, kBytes));
    } else {
        EXPECT_STRNE("", moiety_last_error_message());
    }
}

class PinnedDriverFault : public PinnedTest
{
  protected:
    // Every call of the driver that a source makes fails once, each at its
    // turn, with each of these codes.
    void FailEach(uint32_t flags, const std::string &code)
    {
        for (unsigned n = 1;; n++) {
            Pinned pinned(flags);
            moiety_devptr address = 0;
            uint64_t before = pool_test::Calls();
            pool_test::SetFaults("*:nth=" + std::to_string(n) +
                                 ":code=" + code);
            moiety_status status = pinned.Reserve(2 * kMiB, &address);
            uint64_t calls = pool_test::Calls() - before;
            pool_test::SetFaults("");
            SCOPED_TRACE(std::to_string(n) + " " + code);
            EXPECT_EQ(status == MOIETY_OK, address != 0);
            if (address) {
                EXPECT_OK(pinned.Release(address, 2 * kMiB));
            }
            if (calls < n)
                return;
        }
    }
};

TEST_F(PinnedDriverFault, LeavesNothingBehind)
{
    for (uint32_t flags : {0u, unsigned{MOIETY_HOST_WRITE_COMBINED}})
        for (const char *code :
             {"CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_LAUNCH_FAILED"})
            FailEach(flags, code);
}

// The failure's own cleaning up is refused too: it is tried again later.
TEST_F(PinnedDriverFault, TriesAgainWhatWasNotTakenBack)
{
    Pinned pinned(MOIETY_HOST_STRICT);
    moiety_devptr address = 0;
    failing_steps_arm(FAILING_READ_BACK, 1, 1);
    pool_test::SetFaults(
        "cuMemHostUnregister:nth=1:code=CUDA_ERROR_LAUNCH_FAILED");
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, pinned.Reserve(2 * kMiB, &address));
    EXPECT_EQ(1u, pinned.Stats().unreleased_count);
    (void)failing_steps_disarm();
    address = pinned.Reserve(2 * kMiB);
    EXPECT_EQ(0u, pinned.Stats().unreleased_count);
    EXPECT_OK(pinned.Release(address, 2 * kMiB));
}

// As with confidential computing: then the driver allocates, now and later.
TEST_F(PinnedDriverFault, LetsTheDriverAllocateWhatItDoesNotRegister)
{
    for (uint32_t flags : {0u, unsigned{MOIETY_HOST_READ_ONLY},
                           unsigned{MOIETY_HOST_HUGE_2MIB}}) {
        Pinned pinned(flags);
        pool_test::SetFaults(
            "cuMemHostRegister:every=1:code=CUDA_ERROR_NOT_SUPPORTED");
        uint64_t asked = pool_test::Calls("cuMemHostRegister");
        moiety_devptr first = pinned.Reserve(kBytes);
        moiety_devptr second = pinned.Reserve(kBytes);
        EXPECT_EQ(asked + 1, pool_test::Calls("cuMemHostRegister"));
        EXPECT_FALSE(FlagsOf(first) & CU_MEMHOSTALLOC_WRITECOMBINED);
        EXPECT_TRUE(FlagsOf(first) & CU_MEMHOSTALLOC_PORTABLE);
        EXPECT_TRUE(pinned.Stats().fallbacks & MOIETY_HOST_FELL_TO_DRIVER);
        EXPECT_EQ(2 * kBytes,
                  pinned.Stats().page_kind_bytes[MOIETY_HOST_PAGES_DRIVER]);
        EXPECT_NE(std::string::npos, pinned.Reason().find("cuMemHostRegister"));
        EXPECT_OK(pinned.Release(first, kBytes));
        EXPECT_OK(pinned.Release(second, kBytes));
        pool_test::SetFaults("");
    }
    Pinned strict(MOIETY_HOST_STRICT);
    moiety_devptr address = 0;
    pool_test::SetFaults(
        "cuMemHostRegister:every=1:code=CUDA_ERROR_NOT_SUPPORTED");
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, strict.Reserve(kBytes, &address));
}

TEST_F(PinnedDriverFault, GoesElsewhereFromStaleRegistrations)
{
    Pinned pinned;
    pool_test::SetFaults("cuMemHostRegister:nth=1:code="
                         "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED");
    moiety_devptr address = pinned.Reserve(2 * kMiB);
    EXPECT_OK(pinned.Release(address, 2 * kMiB));
}

TEST_F(PinnedDriverFault, GivesUpWhereAllIsTakenForRegistered)
{
    Pinned pinned;
    moiety_devptr address = 0;
    pool_test::SetFaults("cuMemHostRegister:every=1:code="
                         "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED");
    EXPECT_EQ(MOIETY_E_DRIVER, pinned.Reserve(2 * kMiB, &address));
    EXPECT_NE(std::string::npos, std::string(moiety_last_error_message())
                                     .find("unmapped before it was"));
}

// Whether the limit binds this process.
bool IsLockRefused(size_t size_bytes)
{
    void *memory = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(MAP_FAILED, memory);
    const bool is_refused = mlock(memory, size_bytes) != 0;
    munmap(memory, size_bytes);
    return is_refused;
}

// And only then: a privileged process may lock more.
TEST_F(PinnedDriverFault, NamesALimitThatIsInTheWay)
{
    rlimit before = {}, tight = {};
    ASSERT_EQ(0, getrlimit(RLIMIT_MEMLOCK, &before));
    tight.rlim_cur = 4096;
    tight.rlim_max = before.rlim_max;
    ASSERT_EQ(0, setrlimit(RLIMIT_MEMLOCK, &tight));
    Pinned pinned;
    moiety_devptr address = 0;
    pool_test::SetFaults(
        "cuMemHostRegister:nth=1:code=CUDA_ERROR_OUT_OF_MEMORY");
    EXPECT_EQ(MOIETY_E_NO_PINNED_MEMORY, pinned.Reserve(2 * kMiB, &address));
    EXPECT_EQ(IsLockRefused(2 * kMiB),
              std::string(moiety_last_error_message())
                      .find("RLIMIT_MEMLOCK is 4096") != std::string::npos);
    EXPECT_EQ(0, setrlimit(RLIMIT_MEMLOCK, &before));
}

TEST_F(PinnedDriverFault, DoesNotTouchWhatTheNodeHasNoRoomFor)
{
    Pinned pinned(MOIETY_HOST_STRICT);
    moiety_devptr address = 0;
    uint64_t all_bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                         static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    failing_steps_arm(FAILING_POPULATE, 1, kForever);
    EXPECT_EQ(MOIETY_E_NO_PINNED_MEMORY,
              pinned.Reserve((all_bytes / kMiB + 2) * 2 * kMiB, &address));
    EXPECT_EQ(0u, failing_steps_disarm());
    EXPECT_NE(std::string::npos,
              std::string(moiety_last_error_message()).find("has room for"));
}

} // namespace
} // namespace host_test
