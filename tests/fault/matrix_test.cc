// SPDX-License-Identifier: Apache-2.0
//
// Every entry of the driver that the scenario calls, times each call of it, and
// every allocation of host memory: that one fails, once. Whatever the calls then
// answer, all can be cleaned up, the stand-in holds nothing, and the next call
// works.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/fault/scenario.h"
#include "tests/ipc/peer.h"
#include "tests/pool/inventory.h"
#include "tests/pool/pool_under_test.h"
#include "tests/support/driver_probe.h"
#include "tests/support/tools/failing_memory.h"

namespace
{

using fault_test::World;
using pool_test::Calls;

constexpr unsigned kTooMany = 5000;   // calls that the scenario does not make
constexpr unsigned kCasesLeast = 600; // of all calls

// Other codes than the first fail a third of the calls each, and a part of their own;
// with MOIETY_TEST_MATRIX=whole, all of them.
constexpr unsigned kParts = 3;
constexpr unsigned kAll = kParts; // for a part

bool IsWhole()
{
    const char *value = std::getenv("MOIETY_TEST_MATRIX");
    return value && std::string(value) == "whole";
}

// Entries with a test of their own, which finds the mutants at once.
const char *const kRecords = "cuEventRecord";
const char *const kPushes = "cuCtxPushCurrent";

// What a scenario does not call, and why.
const std::set<std::string> kNotCalled = {
    // Leaves the memory to the context, which would have to be destroyed.
    "moiety_pool_context_lost",
    // Its pool stays for good; what can fail in it is moiety_pool_create()'s.
    "moiety_default_pool",
    // The driver is not called, and the options are the process's.
    "moiety_default_pool_set_options",
    // They want a keeper; tests/serve has a matrix of them.
    "moiety_keeper_connect",
    "moiety_keeper_disconnect",
    "moiety_keeper_drop",
    "moiety_keeper_list",
    "moiety_region_close",
    "moiety_region_commit",
    "moiety_region_create",
    "moiety_region_get_info",
    "moiety_region_open",
};

std::map<std::string, uint64_t> CallsOfEachEntry()
{
    std::map<std::string, uint64_t> calls;
    for (size_t i = 0; i < driver_probe_entry_count(); i++)
        calls[driver_probe_entry_name(i)] = Calls(driver_probe_entry_name(i));
    return calls;
}

class FaultMatrix : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        // One for peers of mapped memory.
        setenv("MOIETY_STANDIN_DEVICES", "2", 1);
        pool_test::UseStandin();
    }

    void SetUp() override
    {
        handles_.push_back(peer_.Export(peer_.Alloc(2 * pool_test::kMiB)));
        // What a process makes once is made.
        RunOnce();
        inventory_ = pool_test::Inventory();
    }

    // With nothing failing; which functions it called.
    std::set<std::string> RunOnce()
    {
        World world(handles_);
        world.Run();
        EXPECT_EQ(0u, world.failed_count());
        world.ExpectToEnd();
        return world.called();
    }

    std::map<std::string, uint64_t> CallsOfACleanRun()
    {
        World world(handles_);
        auto before = CallsOfEachEntry();
        world.Run();
        auto calls = CallsOfEachEntry();
        for (auto &entry : calls)
            entry.second -= before[entry.first];
        world.ExpectToEnd();
        return calls;
    }

    // The n-th call of the entry fails; returns how many there were. If it did
    // before the pool's end, the pool is looked at.
    uint64_t RunBadly(const std::string &entry, uint64_t n,
                      const std::string &code, uint64_t next = 0)
    {
        World world(handles_);
        uint64_t before = Calls(entry.c_str());
        std::string plan =
            entry + ":nth=" + std::to_string(n) + ":code=" + code;
        if (next)
            plan +=
                "," + entry + ":nth=" + std::to_string(next) + ":code=" + code;
        pool_test::SetFaults(plan);
        world.Run([&] {
            if (Calls(entry.c_str()) - before < std::max(n, next))
                return;
            pool_test::SetFaults("");
            world.ExpectPoolToBeWhole();
        });
        uint64_t calls = Calls(entry.c_str()) - before;
        pool_test::SetFaults("");
        world.ExpectToEnd();
        return calls;
    }

    // Returns how many calls failed.
    unsigned FailEachCallOf(const std::string &entry, const std::string &code)
    {
        unsigned n = 0;
        while (!HasFailure() && n < kTooMany) {
            SCOPED_TRACE(entry + ", call " + std::to_string(++n));
            uint64_t calls = RunBadly(entry, n, code);
            inventory_.ExpectUnchanged();
            if (n > calls)
                break;
        }
        EXPECT_LT(n, kTooMany);
        return n - 1;
    }

    void ExpectFaultsToBeSurvived(const char *entry)
    {
        EXPECT_GE(FailEachCallOf(entry, "CUDA_ERROR_UNKNOWN"), 1u);
    }

    // Of the calls of a clean run, every third, from that of the number `part`.
    void ExpectAPartOfFaultsToBeSurvived(const std::string &code, unsigned part)
    {
        unsigned cases = 0, call = 0;
        for (const auto &entry : CallsOfACleanRun()) {
            for (uint64_t n = 1; n <= entry.second && !HasFailure(); n++) {
                if (call++ % kParts != part)
                    continue;
                SCOPED_TRACE(entry.first + ", call " + std::to_string(n));
                RunBadly(entry.first, n, code);
                inventory_.ExpectUnchanged();
                cases++;
            }
        }
        EXPECT_GE(cases, kCasesLeast / kParts);
        std::printf("%s: %u cases of %u\n", code.c_str(), cases, call);
    }

    void ExpectEveryFaultToBeSurvived(const std::string &code, unsigned part)
    {
        if (part != kAll && !IsWhole())
            return ExpectAPartOfFaultsToBeSurvived(code, part);
        unsigned cases = 0, entries = 0;
        for (const auto &entry : CallsOfACleanRun()) {
            if (!entry.second || HasFailure())
                continue;
            if (part == kAll &&
                (entry.first == kRecords || entry.first == kPushes))
                continue;
            unsigned failed = FailEachCallOf(entry.first, code);
            EXPECT_GE(failed, 1u) << entry.first << " was never refused";
            cases += failed;
            entries++;
        }
        EXPECT_GE(cases, kCasesLeast);
        std::printf("%s: %u entries, %u cases\n", code.c_str(), entries, cases);
    }

    // The n-th allocation fails; returns whether none did. `is_last_in`: it may
    // be one of the pool's end, before which the pool is looked at otherwise.
    bool RunShort(unsigned n, bool is_last_in)
    {
        World world(handles_);
        bool is_over = false;
        failing_memory_arm(n);
        world.Run([&] {
            if (is_last_in)
                return;
            is_over = failing_memory_disarm();
            world.ExpectPoolToBeWhole();
        });
        is_over = is_last_in ? failing_memory_disarm() : is_over;
        if (is_over) {
            EXPECT_EQ(0u, world.failed_count());
        }
        world.ExpectToEnd();
        return is_over;
    }

    // From the n-th allocation on; returns the first that none is.
    unsigned SpareAllocations(unsigned n, bool is_last_in)
    {
        bool is_over = false;
        for (; !is_over && n < kTooMany && !HasFailure(); n++) {
            SCOPED_TRACE("allocation " + std::to_string(n));
            is_over = RunShort(n, is_last_in);
            inventory_.ExpectUnchanged();
        }
        EXPECT_LT(n, kTooMany);
        EXPECT_GE(n, 100u);
        return n - 1;
    }

    ipc_test::Peer peer_;
    std::vector<moiety_ipc_handle> handles_;
    pool_test::Inventory inventory_;
};

TEST_F(FaultMatrix, ScenarioCallsEveryPublicFunction)
{
    std::set<std::string> expected;
    std::ifstream symbols("tests/abi/symbols.txt");
    for (std::string name; std::getline(symbols, name);)
        if (!kNotCalled.count(name))
            expected.insert(name);
    EXPECT_EQ(expected, RunOnce()) << "a step is missing in steps.cc";
}

// Entries that a faulty run alone reaches are its way of going on; what matters
// is that all of the clean one are in the matrix.
TEST_F(FaultMatrix, CleanRunsAreAlike)
{
    std::set<std::string> first, second;
    for (const auto &entry : CallsOfACleanRun())
        if (entry.second)
            first.insert(entry.first);
    for (const auto &entry : CallsOfACleanRun())
        if (entry.second)
            second.insert(entry.first);
    EXPECT_EQ(first, second);
    EXPECT_GE(first.size(), 25u);
}

TEST_F(FaultMatrix, EveryCallOfEveryEntry)
{
    ExpectEveryFaultToBeSurvived("CUDA_ERROR_UNKNOWN", kAll);
}

TEST_F(FaultMatrix, EveryCallThatRecords)
{
    ExpectFaultsToBeSurvived(kRecords);
}

TEST_F(FaultMatrix, EveryCallThatPushesAContext)
{
    ExpectFaultsToBeSurvived(kPushes);
}

TEST_F(FaultMatrix, EveryCallOfEveryEntryByExhaustion)
{
    ExpectEveryFaultToBeSurvived("CUDA_ERROR_OUT_OF_MEMORY", 0);
}

// A device that is broken answers so, and so do calls that it refuses.
TEST_F(FaultMatrix, EveryCallOfEveryEntryByABrokenDevice)
{
    ExpectEveryFaultToBeSurvived("CUDA_ERROR_ILLEGAL_ADDRESS", 1);
}

TEST_F(FaultMatrix, EveryCallOfEveryEntryByABadValue)
{
    ExpectEveryFaultToBeSurvived("CUDA_ERROR_INVALID_VALUE", 2);
}

// Two calls of any entries that follow each other closely, as where a call fails and
// what undoes it fails, too: each pair is a prime number of calls behind the last one,
// so that every run of the scenario's parts meets them at other places.
TEST_F(FaultMatrix, TwoCallsInARow)
{
    uint64_t calls = 0;
    for (const auto &entry : CallsOfACleanRun())
        calls += entry.second;
    unsigned cases = 0;
    for (uint64_t n = 1; n <= calls && !HasFailure(); n += 3, cases++) {
        SCOPED_TRACE("calls " + std::to_string(n) + " and " +
                     std::to_string(n + 1 + n % 3));
        RunBadly("*", n, "CUDA_ERROR_UNKNOWN", n + 1 + n % 3);
        inventory_.ExpectUnchanged(2);
    }
    std::printf("%u pairs of %u calls\n", cases, unsigned(calls));
}

// The pool is looked at before its end, but where only its end asks for memory.
TEST_F(FaultMatrix, EveryAllocationOfHostMemory)
{
    const unsigned end = SpareAllocations(1, false);
    const unsigned all = SpareAllocations(IsWhole() ? 1 : end, true);
    EXPECT_GE(all, end);
    std::printf("%u allocations, %u until the end, each failed once\n", all - 1,
                end - 1);
}

} // namespace
