/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of a program's options and a text of MOIETY_CONF.
 */
#ifndef MOIETY_TESTS_POOL_CONFIG_OPTIONS_UNDER_TEST_H_
#define MOIETY_TESTS_POOL_CONFIG_OPTIONS_UNDER_TEST_H_

#include <cstdint>
#include <string>

#include "tests/support/options_probe.h"

namespace options_test
{

constexpr uint64_t kKiB = UINT64_C(1) << 10;
constexpr uint64_t kMiB = UINT64_C(1) << 20;
constexpr uint64_t kGiB = UINT64_C(1) << 30;

// As numbers that mean themselves.
inline moiety_pool_options Defaults()
{
    moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
    options.wait_ms = 1000;
    options.first_segment_bytes = 2 * kMiB;
    options.largest_segment_bytes = kGiB;
    options.thread_cache_bytes = 64 * kMiB;
    options.quarantine_bytes = 64 * kMiB;
    return options;
}

struct Resolved {
    explicit Resolved(const moiety_pool_options *given, const char *conf)
        : status(options_probe_resolve(given, conf, &options)),
          message(status == MOIETY_OK ? "" : options_probe_message())
    {
    }
    explicit Resolved(const moiety_pool_options &given)
        : Resolved(&given, nullptr)
    {
    }
    explicit Resolved(const char *conf) : Resolved(nullptr, conf) {}
    moiety_pool_options options = {};
    moiety_status status;
    std::string message; // "" after MOIETY_OK
};

} // namespace options_test

#endif
