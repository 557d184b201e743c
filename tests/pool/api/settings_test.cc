// SPDX-License-Identifier: Apache-2.0
//
// What is asked of a pool that lives, and changed in it.
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "pool/driver/cuda_abi.h"
#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

moiety_pool_options WithLimit(uint64_t limit_bytes, uint32_t flags = 0)
{
    moiety_pool_options options = Defaults();
    options.limit_bytes = limit_bytes;
    set_kind(&options, flags);
    options.wait_ms = MOIETY_WAIT_NONE;
    return options;
}

moiety_status TryAlloc(moiety_pool *pool, size_t size_bytes)
{
    moiety_devptr block = 0;
    moiety_status status = moiety_alloc(pool, size_bytes, kStream, &block);
    if (status == MOIETY_OK)
        status = moiety_free(pool, block, MOIETY_STREAM_DONE);
    return status;
}

class Settings : public ::testing::TestWithParam<uint32_t>
{
  protected:
    static void SetUpTestSuite()
    {
        setenv("MOIETY_STANDIN_DEVICES", "2", 1);
        pool_test::UseStandin();
    }
    void TearDown() override
    {
        pool_test::SetFaults("");
        unsetenv("MOIETY_CONF");
    }
};

// --- a driver that does not say what the device has ---

class Claims : public Settings
{
};

TEST_F(Claims, AreCheckedAgainstAnother)
{
    for (const char *claim : {"memory:total=0,memory:free=0",
                              "memory:total=-4096,memory:free=-8192"}) {
        pool_test::SetFaults(claim);
        moiety_pool_options options = {};
        options.struct_size = sizeof(options);
        Pool pool(WithLimit(0));
        EXPECT_OK(moiety_pool_get_options(pool, &options));
        EXPECT_EQ(8 * kGiB, options.limit_bytes);
        EXPECT_OK(TryAlloc(pool, 4 * kMiB));
        EXPECT_OK(moiety_pool_set_limit(pool, 0));
    }
}

// cuDeviceTotalMem() says the same.
TEST_F(Claims, ThatFailAskForALimit)
{
    moiety_pool *pool = nullptr;
    const moiety_pool_options options = WithLimit(0);
    pool_test::SetFaults("memory:total=0,cuDeviceTotalMem:every=1:code=801");
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, moiety_pool_create(&options, &pool));
    EXPECT_OK(TryAlloc(Pool(WithLimit(32 * kMiB)), 4 * kMiB));
}

// A growth that a mapped pool has to look before, and a report.
TEST_F(Claims, OfMoreFreeThanThereIsAreNone)
{
    for (const char *claim :
         {"memory:total=0,memory:free=0", "memory:free=-4096"}) {
        pool_test::SetFaults(claim);
        Pool pool(WithLimit(512 * kMiB, KIND_MAPPED));
        EXPECT_OK(TryAlloc(pool, 200 * kMiB));
        moiety_oom_report report = {};
        report.struct_size = sizeof(report);
        moiety_devptr block = pool.Alloc(400 * kMiB);
        EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY, TryAlloc(pool, 200 * kMiB));
        EXPECT_OK(moiety_pool_last_oom(pool, &report));
        EXPECT_LE(report.device_free_bytes, report.device_total_bytes);
        pool.Free(block);
    }
}

// --- the limit ---

class Limit : public Settings
{
};

INSTANTIATE_TEST_SUITE_P(Kinds, Limit,
                         ::testing::Values(0, KIND_MAPPED, KIND_CHECKED,
                                           KIND_PASS_THROUGH));

TEST_P(Limit, IsRaised)
{
    Pool pool(WithLimit(64 * kMiB, GetParam()));
    EXPECT_EQ(MOIETY_E_TOO_LARGE, TryAlloc(pool, 200 * kMiB));
    EXPECT_OK(moiety_pool_set_limit(pool, 256 * kMiB));
    EXPECT_EQ(256 * kMiB, pool.Stats().limit_bytes);
    EXPECT_OK(TryAlloc(pool, 200 * kMiB));
}

TEST_P(Limit, IsLowered)
{
    Pool pool(WithLimit(512 * kMiB, GetParam()));
    EXPECT_OK(TryAlloc(pool, 200 * kMiB));
    EXPECT_OK(moiety_pool_set_limit(pool, 64 * kMiB));
    EXPECT_GE(64 * kMiB, pool.Stats().reserved_bytes_current);
    EXPECT_EQ(MOIETY_E_TOO_LARGE, TryAlloc(pool, 200 * kMiB));
    EXPECT_OK(TryAlloc(pool, 32 * kMiB));
}

TEST_P(Limit, BelowWhatIsInUseTakesNothingAway)
{
    Pool pool(WithLimit(512 * kMiB, GetParam()));
    moiety_devptr block = pool.Alloc(200 * kMiB);
    EXPECT_OK(moiety_pool_set_limit(pool, 64 * kMiB));
    EXPECT_LE(200 * kMiB, pool.Stats().reserved_bytes_current);
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY, TryAlloc(pool, 60 * kMiB));
    pool.Free(block, MOIETY_STREAM_DONE);
    pool.TrimAll();
    EXPECT_OK(TryAlloc(pool, 60 * kMiB));
}

TEST_P(Limit, OfNothingIsTheDevices)
{
    Pool pool(WithLimit(512 * kMiB, GetParam()));
    EXPECT_OK(moiety_pool_set_limit(pool, 0));
    EXPECT_EQ(8 * kGiB, pool.Stats().limit_bytes);
}

TEST_P(Limit, IsInWholeUnits)
{
    Pool pool(WithLimit(64 * kMiB, GetParam()));
    EXPECT_OK(moiety_pool_set_limit(pool, 5 * kMiB));
    EXPECT_EQ(4 * kMiB, pool.Stats().limit_bytes);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_set_limit(pool, 2 * kMiB - 1));
    EXPECT_NE(nullptr, std::strstr(moiety_last_error_message(), "2 MiB"));
    EXPECT_EQ(4 * kMiB, pool.Stats().limit_bytes);
}

TEST_P(Limit, IsBoundByTheTables)
{
    Pool pool(WithLimit(4 * kMiB, GetParam()));
    EXPECT_OK(moiety_pool_set_limit(pool, 64 * kMiB));
    EXPECT_EQ(MOIETY_E_TOO_LARGE, moiety_pool_set_limit(pool, 66 * kMiB));
    EXPECT_NE(nullptr, std::strstr(moiety_last_error_message(), "67108864"));
    EXPECT_EQ(64 * kMiB, pool.Stats().limit_bytes);
    // All of it can be had, in odd pieces too.
    std::vector<moiety_devptr> blocks;
    for (int i = 0; i < 6; i++)
        blocks.push_back(pool.Alloc(6 * kMiB + 512));
    for (moiety_devptr block : blocks)
        pool.Free(block, MOIETY_STREAM_DONE);
}

// What is never exceeded is the higher one of the two, at any moment.
TEST_F(Settings, LimitsChangeWhileOthersGrow)
{
    Pool pool(WithLimit(64 * kMiB));
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++)
        threads.emplace_back([&] {
            for (int n = 0; n < 60; n++) {
                moiety_status status = TryAlloc(pool, 20 * kMiB);
                if (status != MOIETY_OK) {
                    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY, status);
                }
                EXPECT_GE(128 * kMiB, pool.Stats().reserved_bytes_current);
            }
        });
    for (int n = 0; n < 60; n++)
        EXPECT_OK(moiety_pool_set_limit(pool, (n % 2 ? 64 : 128) * kMiB));
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_OK(moiety_pool_set_limit(pool, 32 * kMiB));
    EXPECT_GE(32 * kMiB, pool.Stats().reserved_bytes_current);
}

TEST_F(Settings, ADeviceThatDoesNotSayWhatItHasChangesNoLimit)
{
    Pool pool(WithLimit(64 * kMiB));
    pool_test::SetFaults("cuMemGetInfo:nth=1:code=CUDA_ERROR_UNKNOWN");
    EXPECT_EQ(MOIETY_E_DRIVER, moiety_pool_set_limit(pool, 0));
    EXPECT_EQ(64 * kMiB, pool.Stats().limit_bytes);
}

// --- reserving, peaks, options ---

class Reserve : public Settings
{
};

INSTANTIATE_TEST_SUITE_P(Kinds, Reserve,
                         ::testing::Values(0, KIND_MAPPED, KIND_CHECKED));

TEST_P(Reserve, TakesAllOfIt)
{
    Pool pool(WithLimit(512 * kMiB, GetParam()));
    EXPECT_OK(moiety_pool_reserve(pool, 100 * kMiB));
    uint64_t reserved = pool.Stats().reserved_bytes_current;
    EXPECT_LE(100 * kMiB, reserved);
    EXPECT_GE(128 * kMiB, reserved);
    EXPECT_OK(moiety_pool_reserve(pool, 100 * kMiB));
    EXPECT_EQ(reserved, pool.Stats().reserved_bytes_current) << "it has it";
}

TEST_P(Reserve, WhatFollowsAsksTheSourceForNothing)
{
    Pool pool(WithLimit(512 * kMiB, GetParam()));
    EXPECT_OK(moiety_pool_reserve(pool, 100 * kMiB));
    uint64_t segments = pool.Stats().segment_allocated;
    pool.Free(pool.Alloc(60 * kMiB));
    EXPECT_EQ(segments, pool.Stats().segment_allocated);
}

TEST_P(Reserve, KeepsToTheLimit)
{
    Pool pool(WithLimit(64 * kMiB, GetParam()));
    EXPECT_EQ(MOIETY_E_TOO_LARGE, moiety_pool_reserve(pool, 66 * kMiB));
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
    EXPECT_OK(moiety_pool_reserve(pool, 64 * kMiB));
    EXPECT_EQ(64 * kMiB, pool.Stats().reserved_bytes_current);
}

TEST_F(Settings, NothingIsReservedWhereAllPassesThrough)
{
    Pool pool(WithLimit(0, KIND_PASS_THROUGH));
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, moiety_pool_reserve(pool, 2 * kMiB));
}

TEST_P(Limit, PeaksBeginAnew)
{
    Pool pool(WithLimit(512 * kMiB, GetParam()));
    EXPECT_OK(TryAlloc(pool, 200 * kMiB));
    pool.TrimAll();
    EXPECT_LE(200 * kMiB, pool.Stats().reserved_bytes_peak);
    EXPECT_OK(moiety_pool_reset_peaks(pool));
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_peak);
    EXPECT_OK(TryAlloc(pool, 20 * kMiB));
    EXPECT_LE(20 * kMiB, pool.Stats().reserved_bytes_peak);
    EXPECT_GE(64 * kMiB, pool.Stats().reserved_bytes_peak);
}

TEST_F(Settings, OptionsAreTheResolvedOnes)
{
    setenv("MOIETY_CONF", "wait_ms:7,first_segment:4MiB", 1);
    Pool pool(WithLimit(64 * kMiB));
    moiety_pool_options options = driver_options();
    EXPECT_OK(moiety_pool_get_options(pool, &options));
    EXPECT_EQ(7u, options.wait_ms);
    EXPECT_EQ(4 * kMiB, options.first_segment_bytes);
    EXPECT_EQ(kGiB, options.largest_segment_bytes);
    EXPECT_EQ(64 * kMiB, options.limit_bytes);
    EXPECT_EQ(pool_test::PrimaryContext(), options.context);
    EXPECT_EQ(nullptr, options.source);
    EXPECT_OK(moiety_pool_set_limit(pool, 32 * kMiB));
    EXPECT_OK(moiety_pool_get_options(pool, &options));
    EXPECT_EQ(32 * kMiB, options.limit_bytes);
}

// Those of a pool make another that is the same.
TEST_F(Settings, OptionsThatArePassedOnMeanTheSame)
{
    moiety_pool_options none = WithLimit(64 * kMiB);
    none.wait_ms = MOIETY_WAIT_NONE;
    none.thread_cache_bytes = none.quarantine_bytes = MOIETY_BYTES_NONE;
    for (const moiety_pool_options &wanted : {none, WithLimit(64 * kMiB)}) {
        moiety_pool_options first = driver_options(), second = first;
        {
            Pool pool(wanted);
            EXPECT_OK(moiety_pool_get_options(pool, &first));
        }
        EXPECT_EQ(wanted.wait_ms, first.wait_ms);
        Pool pool(first);
        EXPECT_OK(moiety_pool_get_options(pool, &second));
        EXPECT_EQ(0, std::memcmp(&first, &second, sizeof(first)));
    }
}

TEST_F(Settings, OptionsAreNotWrittenPastTheCallersStruct)
{
    Pool pool;
    moiety_pool_options options = driver_options();
    options.struct_size = offsetof(moiety_pool_options, peer_devices);
    options.peer_devices = 77;
    EXPECT_OK(moiety_pool_get_options(pool, &options));
    EXPECT_EQ(offsetof(moiety_pool_options, peer_devices), options.struct_size);
    EXPECT_EQ(77u, options.peer_devices);
    // Of version 0.1.0, which ended with cache_bytes.
    options.struct_size = offsetof(moiety_pool_options, history_entries);
    options.history_entries = 77;
    EXPECT_OK(moiety_pool_get_options(pool, &options));
    EXPECT_EQ(offsetof(moiety_pool_options, history_entries),
              options.struct_size);
    EXPECT_EQ(77u, options.history_entries);
    options.struct_size = offsetof(moiety_pool_options, history_entries) - 1;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_get_options(pool, &options));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_get_options(pool, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_get_options(nullptr, &options));
}

TEST_F(Settings, OptionsAreCheckedAsCreationDoes)
{
    moiety_pool_options options = WithLimit(64 * kMiB);
    EXPECT_OK(moiety_pool_options_check(nullptr));
    EXPECT_OK(moiety_pool_options_check(&options));
    options.first_segment_bytes = 3;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_options_check(&options));
    moiety_pool *pool = nullptr;
    const std::string said = moiety_last_error_message();
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_create(&options, &pool));
    EXPECT_EQ(said, moiety_last_error_message());
    setenv("MOIETY_CONF", "no_such_key:1", 1);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_options_check(nullptr));
}

// --- whose an address is ---

TEST_P(Limit, AddressesAreOfTheirPool)
{
    Pool first(WithLimit(64 * kMiB, GetParam()));
    Pool second(WithLimit(64 * kMiB));
    for (const Pool *pool : {&first, &second}) {
        moiety_devptr block = const_cast<Pool *>(pool)->Alloc(5 * kMiB);
        moiety_pool *found = nullptr;
        EXPECT_OK(moiety_pool_of(block, &found));
        EXPECT_EQ(static_cast<moiety_pool *>(*pool), found);
        const_cast<Pool *>(pool)->Free(block);
    }
}

TEST_F(Settings, AddressesOfNobodyAreNoPools)
{
    Pool pool;
    moiety_pool *found = pool;
    moiety_devptr block = pool.Alloc(512);
    EXPECT_OK(moiety_pool_of(block + 100, &found)) << "inside";
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_of(block, nullptr));
    pool.Free(block);
    pool.End();
    found = nullptr;
    for (moiety_devptr address : {block, moiety_devptr{0}, ~moiety_devptr{0}})
        EXPECT_EQ(MOIETY_E_FOREIGN, moiety_pool_of(address, &found));
    EXPECT_EQ(nullptr, found);
}

// --- zeroes ---

class Zeroed : public Settings
{
  protected:
    static bool IsZero(moiety_devptr address, size_t size_bytes)
    {
        std::vector<char> bytes(size_bytes, 1);
        EXPECT_EQ(CUDA_SUCCESS,
                  (pool_test::Get<CUresult(void *, CUdeviceptr, size_t)>(
                      "cuMemcpyDtoH_v2")(bytes.data(), address, size_bytes)));
        return bytes == std::vector<char>(size_bytes, 0);
    }
    static void Soil(moiety_devptr address, size_t size_bytes)
    {
        EXPECT_EQ(CUDA_SUCCESS,
                  (pool_test::Get<CUresult(CUdeviceptr, unsigned char, size_t)>(
                      "cuMemsetD8_v2")(address, 7, size_bytes)));
        pool_test::Synchronize();
    }
};

INSTANTIATE_TEST_SUITE_P(Kinds, Zeroed,
                         ::testing::Values(0, KIND_MAPPED, KIND_CHECKED,
                                           KIND_PASS_THROUGH));

TEST_P(Zeroed, IsZeroWhateverWasThere)
{
    Pool pool(WithLimit(64 * kMiB, GetParam()));
    pool_test::Stream stream;
    for (size_t size_bytes : {1 * kKiB, 100 * kKiB + 3, 5 * kMiB}) {
        moiety_devptr block = pool.Alloc(size_bytes, stream);
        Soil(block, size_bytes);
        pool.Free(block, stream);
        ASSERT_OK(alloc_zeroed(pool, size_bytes, stream, &block));
        pool_test::Synchronize();
        EXPECT_TRUE(IsZero(block, size_bytes));
        pool.Free(block, stream);
    }
}

// Nothing is zeroed before the stream's earlier work, and the caller need not wait.
TEST_P(Zeroed, ComesInTheStreamsOrder)
{
    Pool pool(WithLimit(64 * kMiB, GetParam()));
    pool_test::Stream stream;
    moiety_devptr block = 0;
    stream.Hold();
    EXPECT_OK(alloc_zeroed(pool, 4 * kKiB, stream, &block));
    stream.Release();
    pool_test::Synchronize();
    EXPECT_TRUE(IsZero(block, 4 * kKiB));
    pool.Free(block, stream);
}

TEST_P(Zeroed, ARefusalToFillTakesNoBlock)
{
    Pool pool(WithLimit(64 * kMiB, GetParam()));
    moiety_devptr block = 77;
    pool.Free(pool.Alloc(4 * kKiB));
    pool_test::SetFaults("cuMemsetD8Async:nth=1:code=CUDA_ERROR_UNKNOWN");
    EXPECT_EQ(MOIETY_E_DRIVER, alloc_zeroed(pool, 4 * kKiB, kStream, &block));
    EXPECT_EQ(77u, block);
    EXPECT_EQ(0u, pool.Stats().allocation_current);
}

TEST_F(Settings, ZeroesNeedAnOrder)
{
    Pool pool;
    moiety_devptr block = 77;
    for (moiety_stream stream : {MOIETY_STREAM_ANY, MOIETY_STREAM_DONE})
        EXPECT_EQ(MOIETY_E_INVALID, alloc_zeroed(pool, 512, stream, &block));
    EXPECT_EQ(MOIETY_E_INVALID, alloc_zeroed(pool, 512, kStream, nullptr));
    EXPECT_EQ(77u, block);
    uint64_t fills = pool_test::Calls("cuMemsetD8Async");
    EXPECT_OK(alloc_zeroed(pool, 0, kStream, &block));
    EXPECT_EQ(0u, block) << "as moiety_alloc()";
    EXPECT_EQ(fills, pool_test::Calls("cuMemsetD8Async"));
}

// --- options in pairs ---

// A source of the program's own, with memory that is there.
moiety_status TakeMemory(void *, size_t size_bytes, moiety_devptr *out)
{
    return pool_test::Get<int(moiety_devptr *, size_t)>("cuMemAlloc_v2")(
               out, size_bytes) == 0
               ? MOIETY_OK
               : MOIETY_E_NO_DEVICE_MEMORY;
}

moiety_status GiveMemory(void *, moiety_devptr address, size_t)
{
    return pool_test::Get<int(moiety_devptr)>("cuMemFree_v2")(address) == 0
               ? MOIETY_OK
               : MOIETY_E_DRIVER;
}

const moiety_source kSource = {sizeof(moiety_source),
                               MOIETY_SOURCE_LEGACY_IPC,
                               "test",
                               nullptr,
                               TakeMemory,
                               GiveMemory,
                               0};

void Ignore(void *, const moiety_allocation *) {}

const moiety_allocation_callbacks kCallbacks = {
    sizeof(moiety_allocation_callbacks), 0, nullptr, Ignore, Ignore};

// An option at a value of its own, with what it needs; and the same by
// MOIETY_CONF, or "" where there is no key.
struct Option {
    const char *name;
    void (*set)(moiety_pool_options *);
    const char *conf;
};

#define SETS(assignment) [](moiety_pool_options *o) { o->assignment; }
#define KIND(kind) [](moiety_pool_options *o) { set_kind(o, kind); }
const Option kOptions[] = {
    {"reuse_dependencies", SETS(flags |= MOIETY_POOL_REUSE_DEPENDENCIES),
     "reuse_dependencies:1"},
    {"report_leaks", SETS(flags |= MOIETY_POOL_REPORT_LEAKS), "report_leaks:1"},
    {"exportable", SETS(flags |= MOIETY_POOL_EXPORTABLE), "exportable:1"},
    {"auto_scope", SETS(flags |= MOIETY_POOL_AUTO_SCOPE), "auto_scope:1"},
    {"note_streams", SETS(flags |= MOIETY_POOL_NOTE_STREAMS), "note_streams:1"},
    {"checked", KIND(KIND_CHECKED), "checked:1"},
    {"checked_fill", KIND(KIND_CHECKED | MOIETY_POOL_CHECKED_FILL),
     "checked:1,checked_fill:1"},
    {"checked_abort", KIND(KIND_CHECKED | MOIETY_POOL_CHECKED_ABORT),
     "checked:1,checked_abort:1"},
    {"checked_quiet", KIND(KIND_CHECKED | MOIETY_POOL_CHECKED_QUIET),
     "checked:1,checked_quiet:1"},
    {"pass_through", KIND(KIND_PASS_THROUGH), "pass_through:1"},
    {"mapped", SETS(memory = MOIETY_MEMORY_MAPPED), "memory:mapped"},
    {"huge_tables", SETS(flags |= MOIETY_POOL_HUGE_TABLES), "huge_tables:1"},
    {"wait_ms", SETS(wait_ms = MOIETY_WAIT_NONE), "wait_ms:0"},
    {"limit", SETS(limit_bytes = 64 * kMiB), "limit:64M"},
    {"first_segment", SETS(first_segment_bytes = 16 * kMiB),
     "first_segment:16M"},
    {"largest_segment", SETS(largest_segment_bytes = 32 * kMiB),
     "largest_segment:32M"},
    {"thread_cache", SETS(thread_cache_bytes = MOIETY_BYTES_NONE),
     "thread_cache:0"},
    {"cache", SETS(cache_bytes = 128 * kMiB), "cache:128M"},
    {"history", SETS(history_entries = 16), "history:16"},
    {"watermark", SETS(watermark_bytes = 4 * kMiB), "watermark:4M"},
    {"quarantine", SETS(quarantine_bytes = MOIETY_BYTES_NONE), "quarantine:0"},
    {"peers",
     [](moiety_pool_options *o) {
         set_kind(o, KIND_MAPPED);
         o->peer_devices = 1 << 1;
     },
     "memory:mapped,peers:1"},
    {"source", SETS(source = &kSource), ""},
    {"context", SETS(context = pool_test::PrimaryContext()), ""},
    {"allocation_callbacks", SETS(allocation_callbacks = &kCallbacks), ""},
};
#undef KIND
#undef SETS

// All pairs that are refused; one that is missing here works.
const std::set<std::string> kRefused = {
    "cache + thread_cache",       "checked + exportable",
    "checked_abort + exportable", "checked_fill + exportable",
    "checked_quiet + exportable", "exportable + pass_through",
    "mapped + pass_through",      "mapped + source",
    "pass_through + peers",       "peers + source",
};

std::string NameOfPair(const Option &a, const Option &b)
{
    std::string first = a.name, second = b.name;
    return first < second ? first + " + " + second : second + " + " + first;
}

// Both keys, each once.
std::string ConfOfPair(const Option &a, const Option &b)
{
    std::string conf = a.conf, entry;
    for (std::istringstream rest(b.conf); std::getline(rest, entry, ',');)
        if (("," + conf + ",").find("," + entry + ",") == std::string::npos)
            conf += (conf.empty() ? "" : ",") + entry;
    return conf;
}

// What a pool is for, in sizes of several kinds.
void ExpectToWork(moiety_pool *pool)
{
    moiety_devptr blocks[4] = {};
    EXPECT_OK(moiety_alloc(pool, 1, kStream, &blocks[0]));
    EXPECT_OK(
        alloc_aligned(pool, 1000, 4 * kKiB, MOIETY_STREAM_ANY, &blocks[1]));
    EXPECT_OK(alloc_zeroed(pool, 70 * kKiB, kStream, &blocks[2]));
    EXPECT_OK(moiety_alloc(pool, 2 * kMiB + 1, kStream, &blocks[3]));
    for (moiety_devptr block : blocks)
        EXPECT_OK(moiety_free(pool, block, kStream));
    EXPECT_OK(moiety_pool_synchronize(pool, 20000));
    EXPECT_OK(moiety_pool_trim(pool, 0, nullptr));
}

// Works and is destroyed without leaks, or is refused with a reason. True: works.
bool Works(const moiety_pool_options &options)
{
    moiety_pool *pool = nullptr;
    moiety_status status = moiety_pool_create(&options, &pool);
    if (status != MOIETY_OK) {
        EXPECT_EQ(MOIETY_E_INVALID, status) << moiety_last_error_message();
        EXPECT_NE("", std::string(moiety_last_error_message()));
        return false;
    }
    moiety_leaks leaks = {};
    leaks.struct_size = sizeof(leaks);
    ExpectToWork(pool);
    EXPECT_OK(moiety_pool_destroy(pool, &leaks));
    EXPECT_EQ(0u, leaks.block_count);
    return true;
}

bool IsAccepted(const moiety_pool_options &options, const std::string &conf)
{
    moiety_pool *pool = nullptr;
    setenv("MOIETY_CONF", conf.c_str(), 1);
    moiety_status status = moiety_pool_create(&options, &pool);
    unsetenv("MOIETY_CONF");
    EXPECT_OK(moiety_pool_destroy(pool, nullptr));
    return status == MOIETY_OK;
}

TEST_F(Settings, EveryPairWorksOrIsRefusedAtCreation)
{
    std::set<std::string> refused;
    for (const Option &a : kOptions) {
        for (const Option &b : kOptions) {
            if (&b <= &a)
                continue;
            std::string name = NameOfPair(a, b);
            SCOPED_TRACE(name);
            moiety_pool_options both = driver_options();
            a.set(&both);
            b.set(&both);
            bool works = Works(both);
            if (!works)
                refused.insert(name);
            if (!*a.conf || !*b.conf)
                continue;
            moiety_pool_options one = driver_options();
            EXPECT_EQ(works, IsAccepted(one, ConfOfPair(a, b)));
            a.set(&one);
            EXPECT_EQ(works, IsAccepted(one, b.conf));
        }
    }
    EXPECT_EQ(kRefused, refused);
}

} // namespace
