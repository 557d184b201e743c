// SPDX-License-Identifier: Apache-2.0
//
// A pool's history, as it is read.
#ifndef MOIETY_TESTS_HISTORY_HISTORY_UNDER_TEST_H_
#define MOIETY_TESTS_HISTORY_HISTORY_UNDER_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "moiety/history.h"
#include "moiety/moiety.h"
#include "tests/support/tools/pools.h"

namespace history_test
{

inline moiety_pool_options Recorded(uint64_t entries)
{
    moiety_pool_options options = driver_options();
    options.history_entries = entries;
    return options;
}

class History
{
  public:
    // Expects MOIETY_OK, and times that do not go back.
    explicit History(moiety_pool *pool, size_t capacity = 4096)
        : entries(capacity)
    {
        summary.struct_size = sizeof(summary);
        EXPECT_EQ(MOIETY_OK,
                  moiety_history_read(pool, entries.data(), capacity, &summary))
            << moiety_last_error_message();
        EXPECT_LE(summary.count, capacity);
        EXPECT_LE(summary.lost_count + summary.count, summary.noted_count);
        entries.resize(summary.count);
        for (size_t i = 1; i < entries.size(); i++)
            EXPECT_LE(entries[i - 1].time_ns, entries[i].time_ns);
    }

    std::vector<moiety_history_entry> Of(uint32_t kind) const
    {
        std::vector<moiety_history_entry> found;
        for (const moiety_history_entry &entry : entries)
            if (entry.kind == kind)
                found.push_back(entry);
        return found;
    }

    // The last one of a kind; all zeroes if there is none.
    moiety_history_entry LastOf(uint32_t kind) const
    {
        std::vector<moiety_history_entry> found = Of(kind);
        return found.empty() ? moiety_history_entry() : found.back();
    }

    std::vector<moiety_history_entry> entries;
    moiety_history_summary summary = {};
};

} // namespace history_test

#endif
