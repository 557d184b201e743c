// SPDX-License-Identifier: Apache-2.0
//
// Arenas of each kind on the driver that is there: the device's address leads to
// the CPU's bytes, both ways and from another context, and where they are is
// reported. Also on a GPU, where a report may say that something had to be done
// without; that it is right is seen in tests/numa_vm.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ostream>
#include <string>

#include "tests/host/arena_under_test.h"
#include "tests/streams/device.h"

namespace host_test
{
namespace
{

using namespace streams_test;

constexpr uint32_t kWord = 0x5eedb00fu;
constexpr uint32_t kBack = 0xbacb00cau;
constexpr size_t kWords = size_t{256} << 10;
constexpr size_t kBytes = kWords * sizeof(uint32_t);

struct Kind {
    const char *name;
    uint32_t flags;
};

void PrintTo(const Kind &kind, std::ostream *out)
{
    *out << kind.name;
}

moiety_host_options OptionsOf(const Kind &kind)
{
    moiety_host_options options = HostDefaults();
    options.flags = kind.flags;
    options.first_segment_bytes = uint64_t{2} << 20;
    return options;
}

class Placement : public ::testing::TestWithParam<Kind>
{
  protected:
    Placement() : arena_(OptionsOf(GetParam()))
    {
        EXPECT_EQ(MOIETY_OK, moiety_pool_create(nullptr, &pool_));
        EXPECT_EQ(MOIETY_OK, moiety_alloc(pool_, kBytes, stream_, &far_));
        words_ = static_cast<uint32_t *>(arena_.Alloc(kBytes));
        std::fill_n(words_, kWords, kWord);
        EXPECT_EQ(MOIETY_OK,
                  moiety_host_device_address(arena_, words_, &mapped_));
    }
    ~Placement() override
    {
        arena_.Free(words_);
        EXPECT_EQ(MOIETY_OK, moiety_free(pool_, far_, stream_));
        EXPECT_EQ(MOIETY_OK, moiety_pool_destroy(pool_, nullptr));
    }

    bool CpuSees(uint32_t word) const
    {
        return std::count(words_, words_ + kWords, word) ==
               static_cast<ptrdiff_t>(kWords);
    }

    Stream stream_;
    Arena arena_;
    moiety_pool *pool_ = nullptr;
    moiety_devptr far_ = 0;    // the device's own memory
    uint32_t *words_;          // the arena's, for the CPU
    moiety_devptr mapped_ = 0; // the same, for the device
};

INSTANTIATE_TEST_SUITE_P(
    Kinds, Placement,
    ::testing::Values(Kind{"Plain", 0},
                      Kind{"WriteCombined", MOIETY_HOST_WRITE_COMBINED},
                      Kind{"ByDriver", MOIETY_HOST_BY_DRIVER},
                      Kind{"HugePages", MOIETY_HOST_HUGE_2MIB}),
    [](const auto &of) { return std::string(of.param.name); });

TEST_P(Placement, TheDeviceReadsWhatTheCpuWrote)
{
    streams_test::Write(stream_, far_, kBytes, kBack);
    MUST(streams_test::cu.MemcpyDtoDAsync(far_, mapped_, kBytes, stream_));
    EXPECT_TRUE(Holds(stream_, far_, kBytes, kWord));
}

TEST_P(Placement, TheCpuReadsWhatTheDeviceCopied)
{
    streams_test::Write(stream_, far_, kBytes, kBack);
    MUST(streams_test::cu.MemcpyDtoDAsync(mapped_, far_, kBytes, stream_));
    MUST(streams_test::cu.StreamSynchronize(stream_));
    EXPECT_TRUE(CpuSees(kBack));
}

TEST_P(Placement, TheCpuReadsWhatTheDeviceWroteInPlace)
{
    streams_test::Write(stream_, mapped_, kBytes, kBack);
    MUST(streams_test::cu.StreamSynchronize(stream_));
    EXPECT_TRUE(CpuSees(kBack));
}

TEST_P(Placement, AnotherContextUsesIt)
{
    streams_test::Context context;
    streams_test::Current current(context);
    Stream stream;
    EXPECT_TRUE(Holds(stream, mapped_, kBytes, kWord));
    streams_test::Write(stream, mapped_, kBytes, kBack);
    MUST(streams_test::cu.StreamSynchronize(stream));
    EXPECT_TRUE(CpuSees(kBack));
}

TEST_P(Placement, IsReported)
{
    moiety_host_stats stats = arena_.Stats();
    auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    uint64_t known = stats.pages_near + stats.pages_elsewhere;
    EXPECT_GE(stats.pinned_bytes, kBytes);
    EXPECT_EQ(stats.pinned_bytes, stats.pages_asked * page_bytes);
    EXPECT_LE(known, stats.pages_asked);
    // What is not as it was asked for is said.
    EXPECT_EQ(known < stats.pages_asked,
              (stats.fallbacks & MOIETY_HOST_FELL_TO_UNVERIFIED) != 0);
    EXPECT_EQ(stats.pages_elsewhere > 0,
              (stats.fallbacks & MOIETY_HOST_FELL_ELSEWHERE) != 0);
    EXPECT_EQ(0u, arena_.Report().rfind("node ", 0)) << arena_.Report();
    std::printf("%s: %s; %llu of %llu pages near, %llu elsewhere\n",
                GetParam().name, arena_.Report().c_str(),
                static_cast<unsigned long long>(stats.pages_near),
                static_cast<unsigned long long>(stats.pages_asked),
                static_cast<unsigned long long>(stats.pages_elsewhere));
}

} // namespace
} // namespace host_test
