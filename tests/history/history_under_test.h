// SPDX-License-Identifier: Apache-2.0
//
// A pool's history, as it is read.
#ifndef BINADE_TESTS_HISTORY_HISTORY_UNDER_TEST_H_
#define BINADE_TESTS_HISTORY_HISTORY_UNDER_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "binade/binade.h"

namespace history_test
{

inline binade_pool_options Recorded(uint64_t entries)
{
    binade_pool_options options = BINADE_POOL_OPTIONS_INIT;
    options.history_entries = entries;
    return options;
}

class History
{
  public:
    // Expects BINADE_OK, and times that do not go back.
    explicit History(binade_pool *pool, size_t capacity = 4096)
        : entries(capacity)
    {
        summary.struct_size = sizeof(summary);
        EXPECT_EQ(BINADE_OK,
                  binade_history_read(pool, entries.data(), capacity, &summary))
            << binade_last_error_message();
        EXPECT_LE(summary.count, capacity);
        EXPECT_LE(summary.lost_count + summary.count, summary.noted_count);
        entries.resize(summary.count);
        for (size_t i = 1; i < entries.size(); i++)
            EXPECT_LE(entries[i - 1].time_ns, entries[i].time_ns);
    }

    std::vector<binade_history_entry> Of(uint32_t kind) const
    {
        std::vector<binade_history_entry> found;
        for (const binade_history_entry &entry : entries)
            if (entry.kind == kind)
                found.push_back(entry);
        return found;
    }

    // The last one of a kind; all zeroes if there is none.
    binade_history_entry LastOf(uint32_t kind) const
    {
        std::vector<binade_history_entry> found = Of(kind);
        return found.empty() ? binade_history_entry() : found.back();
    }

    std::vector<binade_history_entry> entries;
    binade_history_summary summary = {};
};

} // namespace history_test

#endif
