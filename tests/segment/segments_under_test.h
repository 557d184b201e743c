/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A space and the segments over it, ended together: at the end everything must
 * be back at the source. For the tests of this folder.
 */
#ifndef MOIETY_TESTS_SEGMENT_SEGMENTS_UNDER_TEST_H_
#define MOIETY_TESTS_SEGMENT_SEGMENTS_UNDER_TEST_H_

#include <gtest/gtest.h>

#include <vector>

#include "tests/segment/fake_source.h"
#include "tests/support/segment_probe.h"
#include "tests/support/space_probe.h"

namespace segment_test
{

// With a first segment that most tests have room in.
inline segment_probe_options Roomy()
{
    segment_probe_options options = {};
    options.first_bytes = UINT64_C(32) << 20;
    return options;
}

class Segments
{
  public:
    explicit Segments(const moiety_source &table,
                      segment_probe_options options = Roomy())
    {
        if (!options.page_capacity)
            options.page_capacity = 1 << 16;
        space = space_probe_create(options.page_capacity);
        EXPECT_NE(nullptr, space);
        options.source = &table;
        options.space = space;
        EXPECT_EQ(MOIETY_OK, segment_probe_create(&options, &own))
            << segment_probe_message();
    }

    ~Segments()
    {
        if (own) {
            ExpectSound();
            EXPECT_EQ(MOIETY_OK, End());
        }
    }

    Segments(const Segments &) = delete;
    Segments &operator=(const Segments &) = delete;

    moiety_status End()
    {
        moiety_status status = segment_probe_destroy(own);
        own = nullptr;
        space_probe_destroy(space);
        return status;
    }

    moiety_status Grow(uint64_t needed_bytes)
    {
        return segment_probe_grow(own, needed_bytes);
    }

    // Grows also where there is room: takes it first.
    moiety_status GrowAnew(uint64_t needed_bytes)
    {
        TakeAllRuns();
        return Grow(needed_bytes);
    }

    void TakeAllRuns()
    {
        uint32_t longest;
        uint64_t start;
        while ((longest = space_probe_longest_page_run(space)) != 0 &&
               space_probe_take_pages(space, longest, &start))
            held.push_back({start, longest});
    }

    void GiveAll()
    {
        for (const Run &run : held)
            EXPECT_TRUE(
                space_probe_give(space, run.start,
                                 (uint64_t)run.page_count * PROBE_PAGE_GRAINS));
        held.clear();
    }

    uint64_t Trim(uint64_t keep_bytes = 0)
    {
        uint64_t bytes = 0;
        EXPECT_EQ(MOIETY_OK, segment_probe_trim(own, keep_bytes, &bytes));
        return bytes;
    }

    segment_probe_stats Stats()
    {
        segment_probe_stats stats;
        segment_probe_read_stats(own, &stats);
        return stats;
    }

    std::vector<segment_probe_info> All()
    {
        std::vector<segment_probe_info> all;
        segment_probe_info info;
        for (uint32_t from = 0; segment_probe_walk(own, from, &info);
             from = info.first_page + info.page_count)
            all.push_back(info);
        return all;
    }

    void ExpectSound()
    {
        EXPECT_STREQ(nullptr, segment_probe_check(own));
        uint64_t at;
        EXPECT_STREQ(nullptr, space_probe_check(space, &at));
    }

    struct Run {
        uint64_t start;
        uint32_t page_count;
    };

    moietyi_space *space = nullptr;
    moietyi_segments *own = nullptr;
    std::vector<Run> held;
};

} // namespace segment_test

#endif
