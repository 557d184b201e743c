// SPDX-License-Identifier: Apache-2.0
//
// Host arenas: made, used, grown beforehand, trimmed, reported on; and what is
// refused, by name.
#include "tests/host/arena_under_test.h"
#include "tests/host/child_under_test.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "tests/host/pinned_under_test.h"
#include "tests/support/tools/pools.h"

namespace host_test
{
namespace
{

class HostArena : public PinnedTest
{
  protected:
    static void SetUpTestSuite()
    {
        PinnedTest::SetUpTestSuite();
        Arena once(Tight());
        void *all = once.Alloc(2 * kMiB), *more = nullptr;
        EXPECT_EQ(MOIETY_E_NO_PINNED_MEMORY,
                  moiety_host_alloc(once, 1, MOIETY_HOST_CPU, &more));
        once.Free(all);
        failing_steps_arm(FAILING_POPULATE, 1, 1);
        EXPECT_OK(moiety_host_trim(once, 0, nullptr));
        EXPECT_EQ(MOIETY_E_NO_PINNED_MEMORY,
                  moiety_host_alloc(once, 1, MOIETY_HOST_CPU, &more));
        (void)failing_steps_disarm();
    }
};

std::string Message()
{
    return moiety_last_error_message();
}

void ExpectRefused(const moiety_host_options &options, const char *word)
{
    moiety_host *host = nullptr;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_host_create(&options, &host));
    EXPECT_EQ(nullptr, host);
    EXPECT_NE(std::string::npos, Message().find(word)) << Message();
}

TEST_F(HostArena, ServesMemoryThatTheCpuCanWrite)
{
    Arena arena;
    auto *bytes = static_cast<char *>(arena.Alloc(100000));
    ASSERT_NE(nullptr, bytes);
    bytes[0] = bytes[99999] = 1;
    EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(bytes) % 512);
    arena.Free(bytes);
}

TEST_F(HostArena, ServesTheSameAgainWithoutGrowing)
{
    Arena arena;
    void *first = arena.Alloc(1 * kMiB);
    arena.Free(first);
    moiety_host_stats before = arena.Stats();
    void *second = arena.Alloc(1 * kMiB);
    EXPECT_EQ(first, second);
    EXPECT_EQ(before.pinned_bytes, arena.Stats().pinned_bytes);
    EXPECT_OK(
        moiety_host_free_sized(arena, second, 1 * kMiB, MOIETY_STREAM_DONE));
}

TEST_F(HostArena, SaysWhereItIs)
{
    Arena arena;
    arena.Free(arena.Alloc(1));
    moiety_host_stats stats = arena.Stats();
    EXPECT_EQ(2 * kMiB, stats.pinned_bytes);
    EXPECT_EQ(stats.pages_asked, stats.pages_near);
    EXPECT_GE(stats.touch_threads, 1u);
    EXPECT_EQ(0u, arena.Report().find("node "));
}

TEST_F(HostArena, SaysWhatItHadToDoWithout)
{
    moiety_host_options options = HostDefaults();
    options.policy = MOIETY_HOST_EXPLICIT;
    options.nodes[pinned_probe_node() / 64] = UINT64_C(1)
                                              << pinned_probe_node() % 64;
    Arena arena(options);
    failing_steps_arm(FAILING_BIND, 1, 1);
    arena.Free(arena.Alloc(1));
    EXPECT_EQ(1u, failing_steps_disarm());
    EXPECT_EQ(MOIETY_HOST_FELL_TO_UNBOUND, arena.Stats().fallbacks);
    EXPECT_NE(std::string::npos, arena.Report().find("not bound"));
    EXPECT_NE(std::string::npos, arena.Report().find("container"));
}

TEST_F(HostArena, CutsAReportForWhichThereIsNoRoom)
{
    Arena arena;
    char text[5] = "xxxx";
    EXPECT_OK(moiety_host_report(arena, text, sizeof(text)));
    EXPECT_STREQ("node", text);
}

TEST_F(HostArena, IsExhaustedAsPinnedMemory)
{
    Arena arena(Tight());
    void *all = arena.Alloc(2 * kMiB), *more = nullptr;
    EXPECT_EQ(MOIETY_E_NO_PINNED_MEMORY,
              moiety_host_alloc(arena, 1, MOIETY_HOST_CPU, &more));
    EXPECT_EQ(MOIETY_E_WOULD_BLOCK,
              host_alloc_no_wait(arena, 1, MOIETY_HOST_CPU, &more));
    EXPECT_EQ(MOIETY_E_TOO_LARGE,
              moiety_host_alloc(arena, 3 * kMiB, MOIETY_HOST_CPU, &more));
    EXPECT_EQ(nullptr, more);
    arena.Free(all);
}

TEST_F(HostArena, PassesOnWhyItCannotGrow)
{
    Arena arena(Tight());
    void *address = nullptr;
    failing_steps_arm(FAILING_POPULATE, 1, 1000);
    EXPECT_EQ(MOIETY_E_NO_PINNED_MEMORY,
              moiety_host_alloc(arena, 1, MOIETY_HOST_CPU, &address));
    (void)failing_steps_disarm();
    EXPECT_OK(moiety_host_reserve(arena, 2 * kMiB, 0, nullptr, nullptr));
    arena.Free(arena.Alloc(1));
}

TEST_F(HostArena, GrowsBeforehandByWhatIsAskedForAndNoMore)
{
    struct Seen {
        std::vector<uint64_t> done;
        uint64_t total = 0;
    } seen;
    moiety_host_options options = HostDefaults();
    options.first_segment_bytes = 2 * kMiB;
    options.largest_segment_bytes = 32 * kMiB;
    options.stall_ms = 60000; // the size of a piece is not the clock's
    Arena arena(options);
    ASSERT_OK(moiety_host_reserve(
        arena, 75 * kMiB - 1, 2,
        [](void *data, uint64_t done, uint64_t total) {
            auto *to = static_cast<Seen *>(data);
            to->done.push_back(done);
            to->total = total;
        },
        &seen))
        << Message();
    // 2, 4, 8, 16, 32, and of the rest whole pages of 2 MiB.
    EXPECT_EQ(76 * kMiB, arena.Stats().pinned_bytes);
    EXPECT_EQ(6u, arena.Stats().region_count);
    EXPECT_EQ(2u, arena.Stats().touch_threads);
    EXPECT_EQ(76 * kMiB, seen.total);
    ASSERT_FALSE(seen.done.empty());
    EXPECT_EQ(76 * kMiB, seen.done.back());
    EXPECT_TRUE(std::is_sorted(seen.done.begin(), seen.done.end()));
    // It is there already.
    EXPECT_OK(moiety_host_reserve(arena, 10 * kMiB, 0, nullptr, nullptr));
    void *block = arena.Alloc(32 * kMiB);
    EXPECT_EQ(76 * kMiB, arena.Stats().pinned_bytes);
    arena.Free(block);
}

TEST_F(HostArena, KeepsWhatItHadGrownByUntilItFailed)
{
    moiety_host_options options = HostDefaults();
    options.first_segment_bytes = options.largest_segment_bytes = 16 * kMiB;
    options.touch_threads = 1;
    Arena arena(options);
    // The first touches of a reserve are of 2 MiB.
    failing_steps_arm(FAILING_POPULATE, 9, 1000);
    EXPECT_EQ(MOIETY_E_NO_PINNED_MEMORY,
              moiety_host_reserve(arena, 48 * kMiB, 0, nullptr, nullptr));
    (void)failing_steps_disarm();
    EXPECT_EQ(16 * kMiB, arena.Stats().pinned_bytes);
}

TEST_F(HostArena, RefusesToGrowBeyondWhatItMayHave)
{
    Arena arena(Tight());
    EXPECT_EQ(MOIETY_E_TOO_LARGE,
              moiety_host_reserve(arena, 4 * kMiB, 0, nullptr, nullptr));
    EXPECT_NE(std::string::npos, Message().find("node ")) << Message();
    EXPECT_EQ(MOIETY_E_TOO_LARGE,
              moiety_host_reserve(arena, UINT64_MAX, 0, nullptr, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_host_reserve(arena, 1, 65, nullptr, nullptr));
    EXPECT_EQ(0u, arena.Stats().pinned_bytes);
}

TEST_F(HostArena, UnpinsOnRequestWhatIsDone)
{
    Arena arena;
    pool_test::Stream stream;
    stream.Hold();
    arena.Free(arena.Alloc(1 * kMiB, stream), stream);
    uint64_t trimmed = 1;
    EXPECT_OK(moiety_host_trim(arena, 0, &trimmed));
    EXPECT_EQ(0u, trimmed) << "the stream may be reading it";
    EXPECT_EQ(2 * kMiB, arena.Stats().pinned_bytes);
    stream.Release();
    pool_test::Synchronize();
    EXPECT_OK(moiety_host_trim(arena, 0, &trimmed));
    EXPECT_EQ(2 * kMiB, trimmed);
    EXPECT_EQ(0u, arena.Stats().pinned_bytes);
}

TEST_F(HostArena, KnowsItsDeviceAddresses)
{
    Arena arena, other;
    auto *bytes = static_cast<char *>(arena.Alloc(5000));
    moiety_devptr device = 0;
    EXPECT_OK(moiety_host_device_address(arena, bytes + 7, &device));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes) + 7, device);
    EXPECT_EQ(MOIETY_E_FOREIGN,
              moiety_host_device_address(other, bytes, &device));
    arena.Free(bytes);
}

TEST_F(HostArena, DoesNotTakeOthersBlocks)
{
    Arena arena, other;
    void *block = arena.Alloc(5000);
    other.Free(other.Alloc(1));
    EXPECT_EQ(MOIETY_E_FOREIGN,
              moiety_host_free(other, block, MOIETY_STREAM_DONE));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_host_free_sized(arena, block, 100000, MOIETY_STREAM_DONE));
    arena.Free(block);
}

TEST_F(HostArena, MakesEachKind)
{
    for (uint32_t flags :
         {unsigned{MOIETY_HOST_WRITE_COMBINED}, unsigned{MOIETY_HOST_READ_ONLY},
          unsigned{MOIETY_HOST_HUGE_2MIB}, unsigned{MOIETY_HOST_BY_DRIVER},
          unsigned{MOIETY_HOST_BY_DRIVER | MOIETY_HOST_WRITE_COMBINED}}) {
        moiety_host_options options = Tight();
        options.flags = flags;
        Arena arena(options);
        arena.Free(arena.Alloc(5000));
        EXPECT_EQ(2 * kMiB, arena.Stats().pinned_bytes) << flags;
    }
}

TEST_F(HostArena, CountsWhatWasNotFreed)
{
    moiety_host_options options = Tight();
    moiety_host *host = nullptr;
    ASSERT_OK(moiety_host_create(&options, &host));
    void *block = nullptr;
    ASSERT_OK(moiety_host_alloc(host, 5000, MOIETY_HOST_CPU, &block));
    moiety_leaks leaks = {};
    EXPECT_EQ(MOIETY_E_INVALID, moiety_host_destroy(host, &leaks));
    leaks.struct_size = sizeof(leaks);
    EXPECT_OK(moiety_host_destroy(host, &leaks));
    EXPECT_EQ(1u, leaks.block_count);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block), leaks.addresses[0]);
}

TEST_F(HostArena, UsesAContextOfTheCallers)
{
    moiety_context context = pool_test::NewContext();
    {
        moiety_host_options options = Tight();
        options.context = context;
        Arena arena(options);
        arena.Free(arena.Alloc(5000));
    }
    pool_test::DestroyContext(context);
}

TEST_F(HostArena, OutlivesItsContextWithoutALeak)
{
    moiety_context context = pool_test::NewContext();
    moiety_host_options options = Tight();
    options.context = context;
    moiety_host *host = nullptr;
    void *block = nullptr;
    ASSERT_OK(moiety_host_create(&options, &host));
    ASSERT_OK(moiety_host_alloc(host, 5000, MOIETY_HOST_CPU, &block));
    EXPECT_OK(moiety_pool_context_lost(moiety_host_pool(host)));
    pool_test::DestroyContext(context);
    EXPECT_OK(moiety_host_free(host, block, MOIETY_STREAM_DONE));
    EXPECT_OK(moiety_host_destroy(host, nullptr));
}

TEST_F(HostArena, NamesWhatIsWrongWithItsOptions)
{
    moiety_host_options options = HostDefaults();
    options.struct_size = 8;
    ExpectRefused(options, "struct_size");
    options = HostDefaults();
    options.flags = MOIETY_HOST_HUGE_2MIB | MOIETY_HOST_HUGE_1GIB;
    ExpectRefused(options, "HUGE_2MIB and HUGE_1GIB");
    options.flags = MOIETY_HOST_WRITE_COMBINED | MOIETY_HOST_HUGE_1GIB;
    ExpectRefused(options, "WRITE_COMBINED and HUGE_1GIB");
    options.flags = MOIETY_HOST_WRITE_COMBINED | MOIETY_HOST_HUGE_2MIB;
    ExpectRefused(options, "WRITE_COMBINED and HUGE_2MIB");
    options.flags = MOIETY_HOST_WRITE_COMBINED | MOIETY_HOST_READ_ONLY;
    ExpectRefused(options, "WRITE_COMBINED and READ_ONLY");
    options.flags = MOIETY_HOST_BY_DRIVER | MOIETY_HOST_HUGE_1GIB;
    ExpectRefused(options, "BY_DRIVER and HUGE_1GIB");
    options.flags = MOIETY_HOST_BY_DRIVER | MOIETY_HOST_HUGE_2MIB;
    ExpectRefused(options, "BY_DRIVER and HUGE_2MIB");
    options.flags = MOIETY_HOST_BY_DRIVER | MOIETY_HOST_READ_ONLY;
    ExpectRefused(options, "BY_DRIVER and READ_ONLY");
    options.flags = UINT32_C(1) << 31;
    ExpectRefused(options, "0x80000000");
    options = HostDefaults();
    options.policy = 4;
    ExpectRefused(options, "policy");
    options = HostDefaults();
    options.touch_threads = 65;
    ExpectRefused(options, "touch_threads");
    options = HostDefaults();
    options.device = 99;
    ExpectRefused(options, "device 99 does not exist");
    options = HostDefaults();
    options.first_segment_bytes = 3;
    ExpectRefused(options, "first_segment");
    options = HostDefaults();
    options.largest_segment_bytes = 3;
    ExpectRefused(options, "segment");
    options = HostDefaults();
    options.unused = 1;
    ExpectRefused(options, "unused");
}

TEST_F(HostArena, NamesWhatIsWrongWithPieces)
{
    moiety_host_options options = HostDefaults();
    options.stall_ms = 60001;
    ExpectRefused(options, "stall_ms: 60001; accepted are 0 to 60000");
    options = HostDefaults();
    options.max_block_bytes = UINT64_MAX;
    ExpectRefused(options, "max_block_bytes");
    options.max_block_bytes = 8 * kMiB + 1;
    options.limit_bytes = 8 * kMiB;
    ExpectRefused(options, "max_block_bytes: 8388609; accepted is no more than "
                           "the arena may have, 8388608");
    options = HostDefaults();
    options.largest_segment_bytes = 16 * kMiB;
    options.max_block_bytes = 2 * kMiB + 1;
    ExpectRefused(options, "max_block_bytes: 2097153; accepted is at most an "
                           "eighth of largest_segment_bytes, 16777216");
    options.max_block_bytes = 2 * kMiB;
    Arena arena(options);
    for (const char *wrong : {"host_stall_ms:60001", "host_max_block:2G"}) {
        setenv("MOIETY_CONF", wrong, 1);
        ExpectRefused(options, wrong[5] == 's' ? "stall_ms" : "max_block");
        unsetenv("MOIETY_CONF");
    }
}

// A block of a few bytes is one, too.
TEST_F(HostArena, TakesAnyLengthAsTheLongestBlocks)
{
    for (uint64_t bytes : {uint64_t{1}, uint64_t{3}, 2 * kMiB + 1}) {
        moiety_host_options options = HostDefaults();
        options.max_block_bytes = bytes;
        options.stall_ms = 1;
        Arena arena(options);
        EXPECT_OK(moiety_host_reserve(arena, 6 * kMiB, 0, nullptr, nullptr));
        EXPECT_EQ(6 * kMiB, arena.Stats().pinned_bytes);
    }
}

// Eight of the longest blocks fit a piece, and a longer one has its own.
TEST_F(HostArena, MakesPiecesForItsLongestBlocks)
{
    moiety_host_options options = HostDefaults();
    options.max_block_bytes = 9 * kMiB;
    options.first_segment_bytes = 72 * kMiB;
    Arena arena(options);
    ASSERT_OK(moiety_host_reserve(arena, 72 * kMiB, 0, nullptr, nullptr));
    EXPECT_EQ(1u, arena.Stats().region_count);
    std::vector<void *> blocks;
    for (int i = 0; i < 8; i++)
        blocks.push_back(arena.Alloc(9 * kMiB));
    EXPECT_EQ(72 * kMiB, arena.Stats().pinned_bytes);
    blocks.push_back(arena.Alloc(80 * kMiB));
    EXPECT_EQ(152 * kMiB, arena.Stats().pinned_bytes);
    for (void *block : blocks)
        arena.Free(block);
}

// Each registration stalls others, so misses share them.
TEST_F(HostArena, GrowsBySegmentsThatMissesShare)
{
    Arena arena;
    std::vector<void *> blocks;
    for (int i = 0; i < 24; i++)
        blocks.push_back(arena.Alloc(8 * kMiB));
    EXPECT_LT(arena.Stats().region_count, 12u);
    for (void *block : blocks)
        arena.Free(block);
}

TEST_F(HostArena, NamesNodesThatAreNotThere)
{
    moiety_host_options options = HostDefaults();
    options.policy = MOIETY_HOST_EXPLICIT;
    options.nodes[3] = UINT64_C(1) << 63;
    ExpectRefused(options, "255");
    options.nodes[3] = 0;
    ExpectRefused(options, "node");
    options.policy = MOIETY_HOST_NEAREST;
    options.nodes[0] = 1;
    ExpectRefused(options, "node");
}

TEST_F(HostArena, RefusesALimitThatItsNodeDoesNotHave)
{
    moiety_host_options options = HostDefaults();
    options.policy = MOIETY_HOST_EXPLICIT;
    options.flags = MOIETY_HOST_STRICT;
    options.nodes[pinned_probe_node() / 64] = UINT64_C(1)
                                              << pinned_probe_node() % 64;
    options.limit_bytes = UINT64_C(1) << 40;
    ExpectRefused(options, "limit_bytes");
}

// Rounded down it would be none.
TEST_F(HostArena, RefusesALimitBelowItsSmallestSegment)
{
    moiety_host_options options = HostDefaults();
    for (uint64_t bytes : {uint64_t{1}, 2 * kMiB - 1}) {
        options.limit_bytes = bytes;
        ExpectRefused(options, "limit_bytes");
    }
}

// For a scope.
struct Conf {
    explicit Conf(const char *text)
    {
        setenv("MOIETY_CONF", text, 1);
    }
    ~Conf()
    {
        unsetenv("MOIETY_CONF");
    }
};

TEST_F(HostArena, IsToldByTheEnvironment)
{
    std::string node = std::to_string(pinned_probe_node());
    Conf conf(
        ("limit:2M,host_limit:4M,host_strict:1,host_threads:1,host_place:" +
         node)
            .c_str());
    Arena arena;
    EXPECT_EQ(MOIETY_E_TOO_LARGE,
              moiety_host_reserve(arena, 6 * kMiB, 0, nullptr, nullptr));
    EXPECT_OK(moiety_host_reserve(arena, 4 * kMiB, 0, nullptr, nullptr));
    failing_steps_arm(FAILING_BIND, 1, 1);
    EXPECT_OK(moiety_host_trim(arena, 0, nullptr));
    void *block = nullptr;
    EXPECT_EQ(MOIETY_E_UNSUPPORTED,
              moiety_host_alloc(arena, 1, MOIETY_HOST_CPU, &block));
}

TEST_F(HostArena, NamesTheKeyThatIsMostLikeAnUnknownOne)
{
    Conf conf("host_limt:4M");
    moiety_host *arena = nullptr;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_host_create(nullptr, &arena));
    EXPECT_STREQ("MOIETY_CONF: key 'host_limt' is not known, did you mean "
                 "'host_limit'?; accepted are host_place, host_strict, "
                 "host_huge, host_limit, host_threads, host_stall_ms, "
                 "host_max_block",
                 moiety_last_error_message());
}

TEST_F(HostArena, LeavesPoolsOfDeviceMemoryToTheirOwnKeys)
{
    Conf conf("host_place:77,limit:64M");
    moiety_pool *pool = nullptr;
    EXPECT_OK(moiety_pool_create(nullptr, &pool));
    EXPECT_OK(moiety_pool_destroy(pool, nullptr));
    ExpectRefused(HostDefaults(), "77");
}

TEST_F(HostArena, IsKeptFromChildrenUnlessToldOtherwise)
{
    moiety_host_options options = HostDefaults();
    options.first_segment_bytes = options.largest_segment_bytes = 2 * kMiB;
    Arena arena(options);
    char *block = static_cast<char *>(arena.Alloc(2 * kMiB));
    *block = 'a';
    EXPECT_TRUE(IsKeptFromChildren(block));
    EXPECT_FALSE(ChildHas(block, 'a'));
    EXPECT_OK(moiety_host_copy_to_children(arena));
    EXPECT_FALSE(IsKeptFromChildren(block));
    EXPECT_TRUE(ChildHas(block, 'a'));
    char *later = static_cast<char *>(arena.Alloc(2 * kMiB));
    *later = 'b';
    EXPECT_EQ(2u, arena.Stats().region_count);
    EXPECT_TRUE(ChildHas(later, 'b'));
    arena.Free(block);
    arena.Free(later);
}

TEST_F(HostArena, NamesWhatIsWrongWithTheEnvironment)
{
    for (const char *wrong :
         {"host_place:256", "host_place:x", "host_strict:2", "host_huge:3M",
          "host_limit:1", "host_threads:x", "host_threads:65", "host_colour:1",
          "host_stall_ms:x", "host_max_block:x", "host_strict:1,host_strict:1",
          "host_place"}) {
        Conf conf(wrong);
        ExpectRefused(HostDefaults(), std::string(wrong).substr(5, 4).c_str());
    }
    Conf conf("host_huge:2M");
    moiety_host_options options = HostDefaults();
    options.flags = MOIETY_HOST_WRITE_COMBINED;
    ExpectRefused(options, "WRITE_COMBINED and HUGE_2MIB");
}

TEST_F(HostArena, TakesNoNull)
{
    Arena arena;
    void *address = nullptr;
    char text[8];
    moiety_devptr device = 0;
    moiety_host_stats stats = {};
    EXPECT_EQ(MOIETY_E_INVALID, moiety_host_create(nullptr, nullptr));
    EXPECT_OK(moiety_host_destroy(nullptr, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_host_alloc(nullptr, 1, MOIETY_HOST_CPU, &address));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_host_alloc(arena, 1, MOIETY_HOST_CPU, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID,
              host_alloc_no_wait(nullptr, 1, MOIETY_HOST_CPU, &address));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_host_free(nullptr, text, MOIETY_STREAM_DONE));
    EXPECT_OK(moiety_host_free(arena, nullptr, MOIETY_STREAM_DONE));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_host_free_sized(nullptr, text, 1, MOIETY_STREAM_DONE));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_host_device_address(arena, text, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_host_device_address(nullptr, text, &device));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_host_trim(nullptr, 0, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_host_copy_to_children(nullptr));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_host_get_stats(arena, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_host_get_stats(arena, &stats));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_host_report(arena, text, 0));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_host_reserve(nullptr, 1, 0, nullptr, nullptr));
    EXPECT_EQ(nullptr, moiety_host_pool(nullptr));
}

// Every call of the driver that making, growing and ending takes fails once.
TEST_F(HostArena, LeavesNothingBehindWhateverTheDriverRefuses)
{
    for (unsigned n = 1;; n++) {
        moiety_host_options options = Tight();
        moiety_host *host = nullptr;
        void *block = nullptr;
        uint64_t before = pool_test::Calls();
        pool_test::SetFaults("*:nth=" + std::to_string(n) +
                             ":code=CUDA_ERROR_LAUNCH_FAILED");
        if (moiety_host_create(&options, &host) == MOIETY_OK &&
            moiety_host_alloc(host, 5000, MOIETY_HOST_CPU, &block) ==
                MOIETY_OK) {
            EXPECT_OK(moiety_host_free(host, block, MOIETY_STREAM_DONE));
        }
        uint64_t calls = pool_test::Calls() - before;
        pool_test::SetFaults("");
        EXPECT_OK(moiety_host_destroy(host, nullptr));
        if (calls < n)
            break;
    }
}

// And not the device's memory.
TEST_F(HostArena, SaysWhyItsSourceHasNoMore)
{
    Arena arena;
    void *memory = nullptr;
    pool_test::SetFaults(
        "cuMemHostRegister:every=1:code=CUDA_ERROR_OUT_OF_MEMORY");
    EXPECT_EQ(MOIETY_E_NO_PINNED_MEMORY,
              moiety_host_alloc(arena, 1000, MOIETY_HOST_CPU, &memory));
    pool_test::SetFaults("");
    EXPECT_NE(std::string::npos,
              Message().find("cuMemHostRegister: CUDA_ERROR_OUT_OF_MEMORY"))
        << Message();
    EXPECT_EQ(std::string::npos, Message().find("the device"));
}

// It would wait for all of the device's work, however long.
TEST_F(HostArena, DoesNotUnpinWhileTheDeviceWorks)
{
    for (uint32_t flags : {UINT32_C(0), MOIETY_HOST_WRITE_COMBINED}) {
        pool_test::Stream busy;
        moiety_host_options options = HostDefaults();
        options.limit_bytes = 64 * kMiB;
        options.first_segment_bytes = 2 * kMiB;
        options.wait_ms = 20;
        options.flags = flags;
        Arena arena(options);
        void *idle = arena.Alloc(14 * kMiB), *used = arena.Alloc(14 * kMiB);
        arena.Free(idle);
        pool_test::SetFaults("wait:code=999");
        busy.Hold();
        const uint64_t waits = pool_test::Waits();
        void *more = nullptr;
        EXPECT_EQ(MOIETY_E_NO_PINNED_MEMORY,
                  moiety_host_alloc(arena, 40 * kMiB, MOIETY_HOST_CPU, &more));
        EXPECT_EQ(waits, pool_test::Waits());
        busy.Release();
        pool_test::SetFaults("");
        pool_test::Synchronize();
        more = arena.Alloc(40 * kMiB);
        arena.Free(used);
        arena.Free(more);
    }
}

} // namespace
} // namespace host_test
