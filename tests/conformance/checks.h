/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * One expectation, one printed line. The list of names and expected outcomes
 * is the contract between the stand-in and the real driver, so neither may
 * depend on which of the two is loaded.
 */
#ifndef MOIETY_TESTS_CONFORMANCE_CHECKS_H_
#define MOIETY_TESTS_CONFORMANCE_CHECKS_H_

#include <cstdint>
#include <string>
#include <type_traits>

#include "pool/driver/cuda_abi.h"

namespace conformance
{

/* One named expectation. Constructing it before the call is made tells the
 * watchdog what is under way. */
class Check
{
  public:
    Check(const std::string &name, const char *file, int line);

    bool Is(CUresult got, CUresult want);
    template <typename Value> bool Equals(Value got, Value want)
    {
        return Verdict(Text(got), Text(want), got == want);
    }

  private:
    template <typename Value> static std::string Text(Value value)
    {
        if constexpr (std::is_same_v<Value, bool>)
            return value ? "yes" : "no";
        else if constexpr (std::is_pointer_v<Value>)
            return value == nullptr ? "NULL" : "a pointer";
        else
            return std::to_string(value);
    }
    bool Verdict(const std::string &got, const std::string &want, bool is_ok);

    std::string name_;
    const char *file_;
    int line_;
};

/* A call returns `want`. */
#define EXPECT_CU(name, call, want)                                            \
    ::conformance::Check((name), __FILE__, __LINE__).Is((call), (want))
#define EXPECT_SUCCESS(name, call) EXPECT_CU(name, call, CUDA_SUCCESS)
#define EXPECT_INVALID(name, call)                                             \
    EXPECT_CU(name, call, CUDA_ERROR_INVALID_VALUE)
/* Two values of one type are the same. */
#define EXPECT_SAME(name, got, want)                                           \
    ::conformance::Check((name), __FILE__, __LINE__).Equals((got), (want))
#define EXPECT_YES(name, condition)                                            \
    ::conformance::Check((name), __FILE__, __LINE__)                           \
        .Equals(static_cast<bool>(condition), true)

/* What a test needs before it can begin: ends the test by an exception, as a
 * failed check, when the call does not succeed. */
void Must(CUresult code, const char *call, const char *file, int line);
#define MUST(call) ::conformance::Must((call), #call, __FILE__, __LINE__)

/* The same for what is not the driver's. */
void MustBe(bool condition, const char *text, const char *file, int line);
#define MUST_BE(condition)                                                     \
    ::conformance::MustBe((condition), #condition, __FILE__, __LINE__)

/* In a process that runs a role: checks are only printed, for the process that
 * started it to count. */
void ChecksAreCountedElsewhere();
/* Prints and counts a line that a role printed; false if it is no check. */
bool CountForeignLine(const std::string &line);

/* Ends the process, naming the check under way, when none begins for that
 * long. */
void StartWatchdog(int timeout_s);

/* Prints the last line; returns the number of failed checks. */
uint64_t PrintSummary();

} // namespace conformance

#endif
