// SPDX-License-Identifier: Apache-2.0
//
// Which tables ask for huge pages: those of pools with large limits and the flag,
// as /proc/self/smaps tells. Whether there are any is the system's to say.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>

#include "tests/pool/pool_under_test.h"

namespace
{

using pool_test::Pool;

constexpr uint64_t kMiB = 1 << 20;

// Whether the kernel knows huge pages at all.
bool HasHugePages()
{
    void *map = mmap(nullptr, 4 * kMiB, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int status = madvise(map, 4 * kMiB, MADV_HUGEPAGE);
    munmap(map, 4 * kMiB);
    return status == 0;
}

// Mappings of this process that ask for them: bytes by address.
std::map<uint64_t, uint64_t> Asking()
{
    std::map<uint64_t, uint64_t> found;
    std::ifstream smaps("/proc/self/smaps");
    std::string line;
    unsigned long long begin = 0;
    unsigned long long end = 0;
    while (std::getline(smaps, line)) {
        unsigned long long from, to;
        if (std::sscanf(line.c_str(), "%llx-%llx ", &from, &to) == 2) {
            begin = from;
            end = to;
        }
        if (line.rfind("VmFlags:", 0) == 0 &&
            (line + " ").find(" hg ") != std::string::npos)
            found[begin] = end - begin;
    }
    return found;
}

uint64_t BytesThatAskMore(const std::map<uint64_t, uint64_t> &before)
{
    uint64_t bytes = 0;
    for (const auto &mapping : Asking())
        if (before.count(mapping.first) == 0)
            bytes += mapping.second;
    return bytes;
}

uint64_t BytesThatAskFor(uint64_t limit_bytes, uint32_t flags)
{
    pool_test::UseStandin();
    moiety_pool_options options = pool_test::Defaults();
    options.limit_bytes = limit_bytes;
    options.flags |= flags;
    const auto before = Asking();
    Pool pool(options);
    return BytesThatAskMore(before);
}

TEST(Tables, OfLargePoolsAskForHugePagesWhereTheyAreWanted)
{
    const uint64_t bytes =
        BytesThatAskFor(4096 * kMiB, MOIETY_POOL_HUGE_TABLES);
    if (HasHugePages())
        EXPECT_GE(bytes, 256 * kMiB);
    else
        EXPECT_EQ(0u, bytes);
}

TEST(Tables, OfSmallPoolsDoNot)
{
    EXPECT_EQ(0u, BytesThatAskFor(512 * kMiB, MOIETY_POOL_HUGE_TABLES));
}

TEST(Tables, OfOtherPoolsDoNot)
{
    EXPECT_EQ(0u, BytesThatAskFor(4096 * kMiB, 0));
}

TEST(Tables, EndWithTheirPool)
{
    const auto before = Asking();
    BytesThatAskFor(4096 * kMiB, MOIETY_POOL_HUGE_TABLES);
    EXPECT_EQ(0u, BytesThatAskMore(before));
}

} // namespace
