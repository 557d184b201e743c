// SPDX-License-Identifier: Apache-2.0
//
// What MOIETY_CONF may say, and what is said of that which is refused.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tests/pool/config/options_under_test.h"

namespace
{

using namespace options_test;

TEST(PoolConf, SetsEveryKey)
{
    Resolved resolved(
        "reuse_dependencies:1,report_leaks:1,exportable:1,auto_scope:1,"
        "wait_ms:12,limit:3000K,first_segment:4M,largest_segment:2G,"
        "thread_cache:65536,cache:128K,history:4K,watermark:2500K");
    ASSERT_EQ(MOIETY_OK, resolved.status) << resolved.message;
    EXPECT_EQ(MOIETY_POOL_REUSE_DEPENDENCIES | MOIETY_POOL_REPORT_LEAKS |
                  MOIETY_POOL_EXPORTABLE | MOIETY_POOL_AUTO_SCOPE,
              resolved.options.flags);
    EXPECT_EQ(12u, resolved.options.wait_ms);
    EXPECT_EQ(3000 * kKiB, resolved.options.limit_bytes);
    EXPECT_EQ(4 * kMiB, resolved.options.first_segment_bytes);
    EXPECT_EQ(2 * kGiB, resolved.options.largest_segment_bytes);
    EXPECT_EQ(64 * kKiB, resolved.options.thread_cache_bytes);
    EXPECT_EQ(128 * kKiB, resolved.options.cache_bytes);
    EXPECT_EQ(4096u, resolved.options.history_entries);
    EXPECT_EQ(2500 * kKiB, resolved.options.watermark_bytes);
}

TEST(PoolConf, TakesSizesAsTheyAreWritten)
{
    Resolved resolved("limit:8GiB,first_segment:4MiB,cache:131072KiB");
    ASSERT_EQ(MOIETY_OK, resolved.status) << resolved.message;
    EXPECT_EQ(8 * kGiB, resolved.options.limit_bytes);
    EXPECT_EQ(4 * kMiB, resolved.options.first_segment_bytes);
    EXPECT_EQ(128 * kMiB, resolved.options.cache_bytes);
    for (const char *size : {"8GB", "8Gi", "8iB", "8GiBs", "GiB", "8 GiB"})
        EXPECT_EQ(MOIETY_E_INVALID,
                  Resolved((std::string("limit:") + size).c_str()).status)
            << size;
}

TEST(PoolConf, NamesTheKeyThatIsMostLikeAnUnknownOne)
{
    const struct {
        const char *key, *words;
    } kRows[] = {
        {"limt:1G", "'limt' is not known, did you mean 'limit'?; accepted are"},
        {"thread-cache:1", "did you mean 'thread_cache'?"},
        {"watermarks:1", "did you mean 'watermark'?"},
        {"expos:1", "did you mean 'expose'?"},
    };
    for (const auto &row : kRows) {
        Resolved resolved(row.key);
        EXPECT_EQ(MOIETY_E_INVALID, resolved.status) << row.key;
        EXPECT_NE(std::string::npos, resolved.message.find(row.words))
            << resolved.message;
    }
    for (const char *unlike : {"zzzz:1", "x:1", "bytes_of_everything:1"}) {
        Resolved resolved(unlike);
        EXPECT_EQ(MOIETY_E_INVALID, resolved.status);
        EXPECT_EQ(std::string::npos, resolved.message.find("did you mean"))
            << resolved.message;
        EXPECT_NE(std::string::npos, resolved.message.find("accepted are "))
            << resolved.message;
    }
    const std::string longest(500, 'a');
    EXPECT_EQ(MOIETY_E_INVALID, Resolved((longest + ":1").c_str()).status);
}

TEST(PoolConf, GoesOverTheProgram)
{
    moiety_pool_options given = Defaults();
    given.flags = MOIETY_POOL_REUSE_DEPENDENCIES | MOIETY_POOL_REPORT_LEAKS;
    given.wait_ms = 5;
    given.limit_bytes = kGiB;
    Resolved resolved(&given, "reuse_dependencies:0,wait_ms:0,limit:0");
    ASSERT_EQ(MOIETY_OK, resolved.status) << resolved.message;
    EXPECT_EQ(MOIETY_POOL_REPORT_LEAKS, resolved.options.flags);
    EXPECT_EQ(0u, resolved.options.wait_ms);
    EXPECT_EQ(0u, resolved.options.limit_bytes);
}

TEST(PoolConf, LeavesWhatItDoesNotName)
{
    moiety_pool_options given = Defaults();
    given.limit_bytes = kGiB;
    given.first_segment_bytes = 2 * kMiB;
    Resolved resolved(&given, "thread_cache:1M");
    ASSERT_EQ(MOIETY_OK, resolved.status) << resolved.message;
    given.thread_cache_bytes = kMiB;
    EXPECT_EQ(0, std::memcmp(&given, &resolved.options, sizeof(given)));
}

TEST(PoolConf, NamesMemoryByWords)
{
    moiety_pool_options given = Defaults();
    given.memory = MOIETY_MEMORY_MAPPED;
    EXPECT_EQ(MOIETY_MEMORY_MAPPED, Resolved(given).options.memory);
    EXPECT_EQ(MOIETY_MEMORY_AUTO,
              Resolved(&given, "memory:auto").options.memory);
    EXPECT_EQ(MOIETY_MEMORY_DRIVER,
              Resolved(&given, "memory:driver").options.memory);
    EXPECT_EQ(MOIETY_MEMORY_MAPPED, Resolved("memory:mapped").options.memory);
}

struct BadConf {
    const char *text;
    const char *message; // behind "MOIETY_CONF: "
};

void PrintTo(const BadConf &bad, std::ostream *out)
{
    *out << '"' << bad.text << '"';
}

class BadPoolConf : public ::testing::TestWithParam<BadConf>
{
};

TEST_P(BadPoolConf, IsRefusedByNameAndValue)
{
    Resolved resolved(GetParam().text);
    EXPECT_EQ(MOIETY_E_INVALID, resolved.status);
    EXPECT_EQ(std::string("MOIETY_CONF: ") + GetParam().message,
              resolved.message);
}

#define ENTRIES "; accepted are key:value entries with a comma between two"
#define LIKE_LIMIT ", did you mean 'limit'?"
#define KEYS                                                                   \
    "; accepted are reuse_dependencies, report_leaks, exportable, "            \
    "auto_scope, note_streams, checked_fill, checked_abort, checked_quiet, "   \
    "huge_tables, memory, checked, pass_through, "                             \
    "wait_ms, limit, first_segment, largest_segment, thread_cache, cache, "    \
    "history, watermark, quarantine, peers, trace, expose"
#define SEGMENT "; accepted are multiples of 2M up to 1024G"
#define CACHE "; accepted are bytes from 0 to 1024G"
#define PEERS "; accepted are ordinals from 0 to 63, as 1+3"
#define LIMIT "; accepted are 0 and bytes from 2M to 1024G"
#define MEMORY "; accepted are auto, driver and mapped"
#define WAIT "; accepted are milliseconds from 0 to 4294967294"

INSTANTIATE_TEST_SUITE_P(
    Entries, BadPoolConf,
    ::testing::Values(
        BadConf{",", "entry '' has no key" ENTRIES},
        BadConf{",limit:2M", "entry '' has no key" ENTRIES},
        BadConf{"limit:2M,", "entry '' has no key" ENTRIES},
        BadConf{"limit:2M,,wait_ms:1", "entry '' has no key" ENTRIES},
        BadConf{":", "entry ':' has no key" ENTRIES},
        BadConf{":2M", "entry ':2M' has no key" ENTRIES},
        BadConf{"limit", "entry 'limit' has no value" ENTRIES},
        BadConf{"limit:", "entry 'limit:' has no value" ENTRIES},
        BadConf{"limit=2M", "entry 'limit=2M' has no value" ENTRIES}));

INSTANTIATE_TEST_SUITE_P(
    Keys, BadPoolConf,
    ::testing::Values(
        BadConf{"limits:2M", "key 'limits' is not known" LIKE_LIMIT KEYS},
        BadConf{"limi:2M", "key 'limi' is not known" LIKE_LIMIT KEYS},
        BadConf{"LIMIT:2M", "key 'LIMIT' is not known" LIKE_LIMIT KEYS},
        BadConf{" limit:2M", "key ' limit' is not known" LIKE_LIMIT KEYS},
        BadConf{"wait_ms:1, limit:2M",
                "key ' limit' is not known" LIKE_LIMIT KEYS},
        BadConf{"device:0", "key 'device' is not known" KEYS},
        BadConf{"limit:2M,wait_ms:1,limit:2M",
                "key 'limit' is given twice, again as 'limit:2M'; accepted is "
                "once"},
        BadConf{"report_leaks:0,report_leaks:1",
                "key 'report_leaks' is given twice, again as "
                "'report_leaks:1'; accepted is once"},
        BadConf{"trace:a,trace:b",
                "key 'trace' is given twice, again as 'trace:b'; accepted is "
                "once"},
        BadConf{"trace:", "entry 'trace:' has no value" ENTRIES}));

// Its entries lie in the rings first.
TEST(PoolConf, RecordBringsAHistory)
{
    EXPECT_EQ(4096u, Resolved("trace:a:b").options.history_entries);
    EXPECT_EQ(7u, Resolved("history:7,trace:a").options.history_entries);
}

INSTANTIATE_TEST_SUITE_P(
    Values, BadPoolConf,
    ::testing::Values(
        BadConf{"peers:64", "peers is '64'" PEERS},
        BadConf{"peers:1+", "peers is '1+'" PEERS},
        BadConf{"peers:+1", "peers is '+1'" PEERS},
        BadConf{"peers:1-3", "peers is '1-3'" PEERS},
        BadConf{"peers:all", "peers is 'all'" PEERS},
        BadConf{"limit:-1", "limit is '-1'" LIMIT},
        BadConf{"limit:+2M", "limit is '+2M'" LIMIT},
        BadConf{"limit: 2M", "limit is ' 2M'" LIMIT},
        BadConf{"limit:2M ", "limit is '2M '" LIMIT},
        BadConf{"limit:2:M", "limit is '2:M'" LIMIT},
        BadConf{"limit:M", "limit is 'M'" LIMIT},
        BadConf{"limit:2m", "limit is '2m'" LIMIT},
        BadConf{"limit:2MB", "limit is '2MB'" LIMIT},
        BadConf{"limit:1T", "limit is '1T'" LIMIT},
        BadConf{"limit:0x200000", "limit is '0x200000'" LIMIT},
        BadConf{"limit:2.5G", "limit is '2.5G'" LIMIT},
        BadConf{"limit:1M", "limit is '1M'" LIMIT},
        BadConf{"limit:1025G", "limit is '1025G'" LIMIT},
        BadConf{"limit:18446744073709551615",
                "limit is '18446744073709551615'" LIMIT},
        BadConf{"limit:18446744073709551616",
                "limit is '18446744073709551616'" LIMIT},
        BadConf{"limit:18446744073711648768",
                "limit is '18446744073711648768'" LIMIT},
        BadConf{"limit:17179869185G", "limit is '17179869185G'" LIMIT},
        BadConf{"first_segment:0", "first_segment is '0'" SEGMENT},
        BadConf{"first_segment:3M", "first_segment is '3M'" SEGMENT},
        BadConf{"largest_segment:1K", "largest_segment is '1K'" SEGMENT},
        BadConf{"thread_cache:2048G", "thread_cache is '2048G'" CACHE},
        BadConf{"cache:none", "cache is 'none'" CACHE},
        BadConf{"watermark:1M",
                "watermark is '1M'; accepted are 0 and bytes from 2M to 1024G"},
        BadConf{"wait_ms:1K", "wait_ms is '1K'" WAIT},
        BadConf{"memory:mappe", "memory is 'mappe'" MEMORY},
        BadConf{"memory:mapped1", "memory is 'mapped1'" MEMORY},
        BadConf{"memory:1", "memory is '1'" MEMORY},
        BadConf{"wait_ms:4294967295", "wait_ms is '4294967295'" WAIT},
        BadConf{"wait_ms:4294967296", "wait_ms is '4294967296'" WAIT},
        BadConf{"report_leaks:2", "report_leaks is '2'; accepted are 0 and 1"},
        BadConf{"report_leaks:1K",
                "report_leaks is '1K'; accepted are 0 and 1"},
        BadConf{"reuse_dependencies:true",
                "reuse_dependencies is 'true'; accepted are 0 and 1"}));

TEST(PoolConf, TakesTheLargestOfEachNumber)
{
    Resolved resolved("wait_ms:4294967294,limit:1024G");
    ASSERT_EQ(MOIETY_OK, resolved.status) << resolved.message;
    EXPECT_EQ(UINT32_MAX - 1, resolved.options.wait_ms);
    EXPECT_EQ(1024 * kGiB, resolved.options.limit_bytes);
}

TEST(PoolConf, IsShownCutWhereItIsLong)
{
    std::string word(3000, 'x');
    Resolved resolved((word + ":1").c_str());
    EXPECT_EQ(MOIETY_E_INVALID, resolved.status);
    EXPECT_EQ("MOIETY_CONF: key '" + std::string(64, 'x') +
                  "' is not known" KEYS,
              resolved.message);
}

struct Pair {
    const char *text;
    const char *message;
};

void PrintTo(const Pair &pair, std::ostream *out)
{
    *out << '"' << pair.text << '"';
}

class PoolOptionsTogether : public ::testing::TestWithParam<Pair>
{
};

TEST_P(PoolOptionsTogether, AreRefusedWhereTheyContradict)
{
    Resolved resolved(GetParam().text);
    EXPECT_EQ(MOIETY_E_INVALID, resolved.status);
    EXPECT_EQ(GetParam().message, resolved.message);
}

INSTANTIATE_TEST_SUITE_P(
    Conf, PoolOptionsTogether,
    ::testing::Values(
        Pair{"first_segment:4M,largest_segment:2M",
             "first_segment is 4194304 bytes; accepted is no more than "
             "largest_segment, 2097152"},
        Pair{"first_segment:2G",
             "first_segment is 2147483648 bytes; accepted is no more than "
             "largest_segment, 1073741824"},
        Pair{"limit:4M,watermark:5M",
             "watermark is 5242880 bytes; accepted are 0 and no more than "
             "limit, 4194304"},
        Pair{"cache:1G,thread_cache:0",
             "cache is 1073741824 bytes, without effect where thread_cache is "
             "0; accepted is 0"},
        Pair{"cache:2M,thread_cache:4M",
             "cache is 2097152 bytes; accepted are 0 and no less than "
             "thread_cache, 4194304"},
        Pair{"cache:2M",
             "cache is 2097152 bytes; accepted are 0 and no less than "
             "thread_cache, 67108864"}));

} // namespace
