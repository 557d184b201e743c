// SPDX-License-Identifier: Apache-2.0
//
// What a pool's options may be, and what is said of those that are refused.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "tests/pool/config/options_under_test.h"

namespace
{

using namespace options_test;

// Version 0.1.0 of the struct; fields may only be appended.
static_assert(offsetof(moiety_pool_options, struct_size) == 0, "moved");
static_assert(offsetof(moiety_pool_options, flags) == 4, "moved");
static_assert(offsetof(moiety_pool_options, memory) == 8, "moved");
static_assert(offsetof(moiety_pool_options, mode) == 12, "moved");
static_assert(offsetof(moiety_pool_options, device) == 16, "moved");
static_assert(offsetof(moiety_pool_options, wait_ms) == 20, "moved");
static_assert(offsetof(moiety_pool_options, context) == 24, "moved");
static_assert(offsetof(moiety_pool_options, source) == 32, "moved");
static_assert(offsetof(moiety_pool_options, limit_bytes) == 40, "moved");
static_assert(offsetof(moiety_pool_options, first_segment_bytes) == 48,
              "moved");
static_assert(offsetof(moiety_pool_options, largest_segment_bytes) == 56,
              "moved");
static_assert(offsetof(moiety_pool_options, thread_cache_bytes) == 64, "moved");
static_assert(offsetof(moiety_pool_options, cache_bytes) == 72, "moved");
constexpr uint32_t kFirstVersionBytes = 80;
static_assert(offsetof(moiety_pool_options, history_entries) == 80, "moved");
static_assert(offsetof(moiety_pool_options, watermark_bytes) == 88, "moved");
static_assert(offsetof(moiety_pool_options, quarantine_bytes) == 96, "moved");
constexpr uint32_t kBytes = sizeof(moiety_pool_options);

TEST(PoolOptions, AreTheDefaultsWhereNothingIsSaid)
{
    Resolved resolved(nullptr);
    ASSERT_EQ(MOIETY_OK, resolved.status) << resolved.message;
    EXPECT_EQ(sizeof(moiety_pool_options), resolved.options.struct_size);
    EXPECT_EQ(0u, resolved.options.flags);
    EXPECT_EQ(MOIETY_MEMORY_AUTO, resolved.options.memory);
    EXPECT_EQ(MOIETY_MODE_PLAIN, resolved.options.mode);
    EXPECT_EQ(0, resolved.options.device);
    EXPECT_EQ(1000u, resolved.options.wait_ms);
    EXPECT_EQ(nullptr, resolved.options.context);
    EXPECT_EQ(nullptr, resolved.options.source);
    EXPECT_EQ(0u, resolved.options.limit_bytes);
    EXPECT_EQ(2 * kMiB, resolved.options.first_segment_bytes);
    EXPECT_EQ(kGiB, resolved.options.largest_segment_bytes);
    EXPECT_EQ(64 * kMiB, resolved.options.thread_cache_bytes);
    EXPECT_EQ(0u, resolved.options.cache_bytes);
    EXPECT_EQ(0u, resolved.options.history_entries);
    EXPECT_EQ(64 * kMiB, resolved.options.quarantine_bytes);
}

TEST(PoolOptions, AreTheDefaultsWhereTheyAreZero)
{
    moiety_pool_options given = {};
    given.struct_size = sizeof(given);
    Resolved resolved(given);
    ASSERT_EQ(MOIETY_OK, resolved.status) << resolved.message;
    const moiety_pool_options defaults = Defaults();
    EXPECT_EQ(0, std::memcmp(&defaults, &resolved.options, sizeof(defaults)));
}

TEST(PoolOptions, SayNoneByNamesOfItsOwn)
{
    moiety_pool_options given = Defaults();
    given.wait_ms = MOIETY_WAIT_NONE;
    given.thread_cache_bytes = MOIETY_BYTES_NONE;
    given.quarantine_bytes = MOIETY_BYTES_NONE;
    Resolved resolved(given);
    ASSERT_EQ(MOIETY_OK, resolved.status) << resolved.message;
    EXPECT_EQ(0u, resolved.options.wait_ms);
    EXPECT_EQ(0u, resolved.options.thread_cache_bytes);
    EXPECT_EQ(0u, resolved.options.quarantine_bytes);
    Resolved by_conf("wait_ms:0,thread_cache:0,quarantine:0");
    ASSERT_EQ(MOIETY_OK, by_conf.status) << by_conf.message;
    given = Defaults();
    given.wait_ms = 0;
    given.thread_cache_bytes = given.quarantine_bytes = 0;
    EXPECT_EQ(0, std::memcmp(&given, &by_conf.options, sizeof(given)));
}

TEST(PoolOptions, OfMemoryAndModeAreInTheirRange)
{
    moiety_pool_options given = Defaults();
    given.memory = static_cast<moiety_memory>(3);
    EXPECT_EQ("option memory is 3; accepted are auto, driver and mapped",
              Resolved(given).message);
    given = Defaults();
    const uint32_t beyond = 4;
    std::memcpy(&given.mode, &beyond, sizeof(beyond));
    EXPECT_EQ("option mode is 4; accepted are 0 to 3", Resolved(given).message);
    given.mode = MOIETY_MODE_CHECKED_PASS_THROUGH;
    EXPECT_EQ(given.mode, Resolved(given).options.mode);
    EXPECT_EQ(MOIETY_MODE_CHECKED,
              Resolved(&given, "pass_through:0").options.mode);
    EXPECT_EQ(MOIETY_MODE_PASS_THROUGH,
              Resolved(&given, "checked:0").options.mode);
    EXPECT_EQ(MOIETY_MODE_CHECKED_PASS_THROUGH,
              Resolved("checked:1,pass_through:1").options.mode);
}

TEST(PoolOptions, OfTheProgramAreKept)
{
    moiety_source source = {};
    moiety_pool_options given = Defaults();
    given.flags = MOIETY_POOL_REUSE_DEPENDENCIES | MOIETY_POOL_REPORT_LEAKS;
    given.device = 3;
    given.wait_ms = 7;
    given.context = reinterpret_cast<moiety_context>(&given);
    given.source = &source;
    given.limit_bytes = 3 * kGiB + 1;
    given.first_segment_bytes = 2 * kMiB;
    given.largest_segment_bytes = 4 * kMiB;
    given.thread_cache_bytes = 5 * kMiB;
    given.cache_bytes = 6 * kMiB;
    given.history_entries = 7;
    given.watermark_bytes = 7 * kMiB;
    Resolved resolved(&given, "");
    ASSERT_EQ(MOIETY_OK, resolved.status) << resolved.message;
    EXPECT_EQ(0, std::memcmp(&given, &resolved.options, sizeof(given)));
}

// A program that was built with the first version's header.
TEST(PoolOptions, OfTheFirstVersionHaveTheDefaultsOfWhatCameLater)
{
    moiety_pool_options given = Defaults();
    given.struct_size = kFirstVersionBytes;
    given.wait_ms = 5;
    given.cache_bytes = 6 * kGiB;
    std::memset(reinterpret_cast<char *>(&given) + kFirstVersionBytes, 0x5a,
                kBytes - kFirstVersionBytes);
    Resolved resolved(given);
    ASSERT_EQ(MOIETY_OK, resolved.status) << resolved.message;
    moiety_pool_options expected = Defaults();
    expected.wait_ms = 5;
    expected.cache_bytes = 6 * kGiB;
    EXPECT_EQ(0, std::memcmp(&expected, &resolved.options, sizeof(expected)));
}

TEST(PoolOptions, HaveAHistoryOfABoundedSize)
{
    for (uint64_t entries : {0u, 1u, 1u << 20}) {
        moiety_pool_options given = Defaults();
        given.history_entries = entries;
        EXPECT_EQ("", Resolved(given).message);
    }
    for (uint64_t entries : {(UINT64_C(1) << 20) + 1, UINT64_MAX}) {
        moiety_pool_options given = Defaults();
        given.history_entries = entries;
        EXPECT_EQ("option history_entries is " + std::to_string(entries) +
                      "; accepted are entries from 0 to 1048576",
                  Resolved(given).message);
    }
}

TEST(PoolOptions, OfALaterVersionMayAddZeroes)
{
    struct {
        moiety_pool_options known = MOIETY_POOL_OPTIONS_INIT;
        uint64_t later[3] = {};
    } given;
    given.known.struct_size = sizeof(given);
    given.known.wait_ms = 5;
    Resolved resolved(given.known);
    ASSERT_EQ(MOIETY_OK, resolved.status) << resolved.message;
    EXPECT_EQ(kBytes, resolved.options.struct_size);
    EXPECT_EQ(5u, resolved.options.wait_ms);
}

TEST(PoolOptions, OfALaterVersionThatAreSetAreNotKnown)
{
    struct {
        moiety_pool_options known = MOIETY_POOL_OPTIONS_INIT;
        uint64_t later[3] = {0, 0, UINT64_C(1) << 56};
    } given;
    given.known.struct_size = sizeof(given);
    Resolved resolved(given.known);
    EXPECT_EQ(MOIETY_E_INVALID, resolved.status);
    EXPECT_EQ("an option that this library does not know is set: byte " +
                  std::to_string(kBytes + 23) + " of " +
                  std::to_string(kBytes + 24) + "; accepted is 0 from byte " +
                  std::to_string(kBytes) + " on",
              resolved.message);
}

TEST(PoolOptions, AreRefusedWithAnOddStructSize)
{
    for (uint32_t bytes : {0u, kFirstVersionBytes - 1, 4097u, UINT32_MAX}) {
        moiety_pool_options given = Defaults();
        given.struct_size = bytes;
        Resolved resolved(given);
        EXPECT_EQ(MOIETY_E_INVALID, resolved.status);
        EXPECT_EQ("option struct_size is " + std::to_string(bytes) +
                      "; accepted are 80 to 4096",
                  resolved.message);
    }
}

TEST(PoolOptions, AreNotWrittenWhenRefused)
{
    moiety_pool_options out, before;
    std::memset(&out, 0x5a, sizeof(out));
    before = out;
    ASSERT_EQ(MOIETY_E_INVALID,
              options_probe_resolve(nullptr, "limit:1", &out));
    EXPECT_EQ(0, std::memcmp(&before, &out, sizeof(out)));
}

TEST(PoolOptions, AreRefusedWithUnknownFlags)
{
    moiety_pool_options given = Defaults();
    given.flags = 0x80000001;
    Resolved resolved(given);
    EXPECT_EQ(MOIETY_E_INVALID, resolved.status);
    EXPECT_EQ("option flags is 0x80000001; accepted are the bits of 0x1ff",
              resolved.message);
}

TEST(PoolOptions, OfCheckedPoolsNeedOne)
{
    for (const char *key : {"checked_fill", "checked_abort", "checked_quiet"}) {
        std::string conf = std::string(key) + ":1";
        EXPECT_EQ("checked_fill, checked_abort and checked_quiet are without "
                  "effect where checked is 0; accepted is 0",
                  Resolved(conf.c_str()).message);
        EXPECT_EQ("", Resolved((conf + ",checked:1").c_str()).message);
    }
}

TEST(PoolOptions, OfCheckedPoolsDoNotGoWithSharing)
{
    for (std::string key : {"checked", "pass_through"})
        EXPECT_EQ("exportable is 1; accepted is 0 where checked or "
                  "pass_through is 1",
                  Resolved(("exportable:1," + key + ":1").c_str()).message);
    EXPECT_EQ("", Resolved("checked:1,pass_through:1,auto_scope:1").message);
    EXPECT_EQ("", Resolved("exportable:1,memory:mapped").message);
}

TEST(PoolOptions, OfMappedPoolsDoNotGoWithPassingThrough)
{
    EXPECT_EQ("memory is mapped; accepted are auto and driver where "
              "pass_through is 1: blocks of mapped memory are no reservations",
              Resolved("memory:mapped,pass_through:1").message);
    EXPECT_EQ("", Resolved("memory:auto,pass_through:1").message);
}

struct Field {
    const char *name;
    uint64_t moiety_pool_options::*field;
    const char *accepted;
    std::vector<uint64_t> good;
    std::vector<uint64_t> bad;
};

void PrintTo(const Field &field, std::ostream *out)
{
    *out << field.name;
}

class PoolOptionsSize : public ::testing::TestWithParam<Field>
{
};

// Where a size is above another's default, that one is set as well.
moiety_pool_options With(const Field &field, uint64_t value)
{
    moiety_pool_options given = Defaults();
    if (field.field == &moiety_pool_options::first_segment_bytes)
        given.largest_segment_bytes = 1024 * kGiB;
    if (field.field == &moiety_pool_options::largest_segment_bytes)
        given.first_segment_bytes = 2 * kMiB;
    if (field.field == &moiety_pool_options::cache_bytes)
        given.thread_cache_bytes = 1;
    given.*field.field = value;
    return given;
}

TEST_P(PoolOptionsSize, IsAcceptedInItsRange)
{
    for (uint64_t value : GetParam().good) {
        Resolved resolved(With(GetParam(), value));
        EXPECT_EQ("", resolved.message) << value;
        EXPECT_EQ(value, resolved.options.*GetParam().field);
    }
}

TEST_P(PoolOptionsSize, IsRefusedOutsideOfItByNameAndValue)
{
    for (uint64_t value : GetParam().bad) {
        Resolved resolved(With(GetParam(), value));
        EXPECT_EQ(MOIETY_E_INVALID, resolved.status);
        EXPECT_EQ(std::string("option ") + GetParam().name + " is " +
                      std::to_string(value) + "; accepted are " +
                      GetParam().accepted,
                  resolved.message);
    }
}

// Nothing that is wrong in the program is hidden by who runs it.
TEST_P(PoolOptionsSize, IsRefusedAlsoWhereTheEnvironmentReplacesIt)
{
    std::string name = GetParam().name;
    std::string key = name.substr(0, name.size() - std::strlen("_bytes"));
    for (uint64_t value : GetParam().bad) {
        moiety_pool_options given = With(GetParam(), value);
        Resolved resolved(&given, (key + ":2M").c_str());
        EXPECT_EQ(MOIETY_E_INVALID, resolved.status) << value;
    }
}

const char kSegmentRange[] = "multiples of 2M up to 1024G";
const char kCacheRange[] = "bytes from 0 to 1024G";

INSTANTIATE_TEST_SUITE_P(
    Each, PoolOptionsSize,
    ::testing::Values(
        Field{"limit_bytes",
              &moiety_pool_options::limit_bytes,
              "0 and bytes from 2M to 1024G",
              {0, 2 * kMiB, 2 * kMiB + 1, 1024 * kGiB},
              {1, 2 * kMiB - 1, 1024 * kGiB + 1, UINT64_MAX}},
        Field{"first_segment_bytes",
              &moiety_pool_options::first_segment_bytes,
              kSegmentRange,
              {2 * kMiB, 6 * kMiB, 1024 * kGiB},
              {1, 2 * kMiB + 1, 3 * kMiB, 1024 * kGiB + 2 * kMiB, UINT64_MAX}},
        Field{"largest_segment_bytes",
              &moiety_pool_options::largest_segment_bytes,
              kSegmentRange,
              {2 * kMiB, 6 * kMiB, 1024 * kGiB},
              {kMiB, 5 * kMiB, 1024 * kGiB + 2 * kMiB, UINT64_MAX}},
        Field{"thread_cache_bytes",
              &moiety_pool_options::thread_cache_bytes,
              kCacheRange,
              {1, 1024 * kGiB},
              {1024 * kGiB + 1, UINT64_MAX - 1}},
        Field{"cache_bytes",
              &moiety_pool_options::cache_bytes,
              kCacheRange,
              {0, 1, 1024 * kGiB},
              {1024 * kGiB + 1, UINT64_MAX}},
        Field{"quarantine_bytes",
              &moiety_pool_options::quarantine_bytes,
              kCacheRange,
              {1, 1024 * kGiB},
              {1024 * kGiB + 1, UINT64_MAX - 1}}));

TEST(PoolOptions, AreRefusedTogetherAlsoWhereOneIsTheProgramsOwn)
{
    moiety_pool_options given = Defaults();
    given.cache_bytes = kGiB;
    EXPECT_EQ("", Resolved(given).message);
    EXPECT_EQ("cache is 1073741824 bytes, without effect where thread_cache is "
              "0; accepted is 0",
              Resolved(&given, "thread_cache:0").message);
    EXPECT_EQ("", Resolved(&given, "thread_cache:0,cache:0").message);
}

TEST(PoolOptions, MayContradictBeforeTheEnvironmentSetsThemRight)
{
    moiety_pool_options given = Defaults();
    given.first_segment_bytes = 2 * kGiB;
    EXPECT_EQ(MOIETY_E_INVALID, Resolved(given).status);
    EXPECT_EQ("", Resolved(&given, "largest_segment:2G").message);
}

TEST(PoolOptions, MayHaveEqualBounds)
{
    EXPECT_EQ("", Resolved("first_segment:1G,cache:64M").message);
}

} // namespace
