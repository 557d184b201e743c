// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/checks.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "tests/conformance/driver_under_test.h"

namespace conformance
{

namespace
{

using Clock = std::chrono::steady_clock;

constexpr char kPrefix[] = "conformance: ";

struct Tally {
    std::mutex mutex; /* guards everything below */
    uint64_t checks = 0;
    uint64_t failed = 0;
    bool is_counted_elsewhere = false;
    std::string under_way = "the start";
    Clock::time_point began = Clock::now();
};

Tally &tally()
{
    /* Never destroyed: the watchdog outlives main(). */
    static Tally *const only = new Tally;
    return *only;
}

void Begin(const std::string &name)
{
    std::lock_guard<std::mutex> guard(tally().mutex);
    tally().under_way = name;
    tally().began = Clock::now();
}

/* True when the failure should also reach GoogleTest here. */
bool Count(const std::string &line, bool is_ok)
{
    std::lock_guard<std::mutex> guard(tally().mutex);
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
    tally().checks++;
    if (!is_ok)
        tally().failed++;
    return !is_ok && !tally().is_counted_elsewhere;
}

void Conclude(const std::string &line, bool is_ok, const char *file, int row)
{
    /* Without the prefix: each check is one line of that form in the log. */
    if (Count(line, is_ok))
        ADD_FAILURE_AT(file, row) << line.substr(sizeof kPrefix - 1);
}

bool EndsWith(const std::string &text, const std::string &end)
{
    return text.size() >= end.size() &&
           text.compare(text.size() - end.size(), end.size(), end) == 0;
}

void Watch(int timeout_s, std::promise<void> is_awake)
{
    is_awake.set_value();
    for (;;) {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        std::lock_guard<std::mutex> guard(tally().mutex);
        if (Clock::now() - tally().began < std::chrono::seconds(timeout_s))
            continue;
        std::printf("%s%s: stuck for %d s FAIL\n", kPrefix,
                    tally().under_way.c_str(), timeout_s);
        std::fflush(stdout);
        /* Not abort(): exit handlers of a stuck driver would wait for ever,
         * and a core file of a GPU process is huge. */
        _exit(3);
    }
}

} // namespace

Check::Check(const std::string &name, const char *file, int line)
    : name_(name), file_(file), line_(line)
{
    Begin(name);
}

bool Check::Is(CUresult got, CUresult want)
{
    return Verdict(NameOf(got), NameOf(want), got == want);
}

bool Check::Verdict(const std::string &got, const std::string &want, bool is_ok)
{
    Conclude(kPrefix + name_ + ": " + got + " (expected " + want + ") " +
                 (is_ok ? "ok" : "FAIL"),
             is_ok, file_, line_);
    return is_ok;
}

void Must(CUresult code, const char *call, const char *file, int line)
{
    Begin(call);
    if (code == CUDA_SUCCESS)
        return;
    std::string text = std::string(kPrefix) + "needed " + call + ": " +
                       NameOf(code) + " (expected CUDA_SUCCESS) FAIL";
    Conclude(text, false, file, line);
    throw std::runtime_error("the test cannot go on");
}

void MustBe(bool condition, const char *text, const char *file, int line)
{
    if (condition)
        return;
    std::string message =
        std::string(kPrefix) + "needed " + text + ": no (expected yes) FAIL";
    Conclude(message, false, file, line);
    throw std::runtime_error("the test cannot go on");
}

void ChecksAreCountedElsewhere()
{
    std::lock_guard<std::mutex> guard(tally().mutex);
    tally().is_counted_elsewhere = true;
}

bool CountForeignLine(const std::string &line)
{
    bool is_ok = EndsWith(line, " ok");
    if (line.rfind(kPrefix, 0) != 0 || (!is_ok && !EndsWith(line, " FAIL")))
        return false;
    Begin(line);
    Conclude(line, is_ok, __FILE__, __LINE__);
    return true;
}

void StartWatchdog(int timeout_s)
{
    /* A fork during the start of a thread would leave the child with locks of
     * malloc() that nobody opens. */
    std::promise<void> is_awake;
    std::future<void> awake = is_awake.get_future();
    std::thread(Watch, timeout_s, std::move(is_awake)).detach();
    awake.wait();
}

uint64_t PrintSummary()
{
    int version = 0;
    char name[128] = "unknown";
    cu.DriverGetVersion(&version);
    if (cu.DeviceGetName(name, sizeof name, 0) != CUDA_SUCCESS)
        std::snprintf(name, sizeof name, "unknown");
    std::lock_guard<std::mutex> guard(tally().mutex);
    std::printf("%s%llu checks, %llu failed, driver %d, %s, device %s\n",
                kPrefix, static_cast<unsigned long long>(tally().checks),
                static_cast<unsigned long long>(tally().failed), version,
                cu.is_standin ? "stand-in" : "real", name);
    return tally().failed;
}

} // namespace conformance
