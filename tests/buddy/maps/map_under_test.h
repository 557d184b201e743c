// SPDX-License-Identifier: Apache-2.0
//
// A buddy with two streams' maps for one test: small names, everything held at
// first, a picture of where each grain is, and at the end the verifiers.
#ifndef MOIETY_TESTS_BUDDY_MAPS_MAP_UNDER_TEST_H_
#define MOIETY_TESTS_BUDDY_MAPS_MAP_UNDER_TEST_H_

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/buddy_probe.h"
#include "tests/support/map_probe.h"

constexpr uint64_t kChunk = PROBE_CHUNK_GRAINS;
constexpr uint64_t kPage = PROBE_PAGE_GRAINS;
constexpr uint64_t kNone = UINT64_MAX; // in place of a start: nothing was got

class MapsUnderTest
{
  public:
    static constexpr uint32_t kStreams = 2;

    explicit MapsUnderTest(uint32_t pages) : MapsUnderTest(0, pages) {}

    // Pages [first, end) exist, and are held.
    MapsUnderTest(uint32_t first, uint32_t end)
        : first_(first * kPage), end_(end * kPage)
    {
        EXPECT_EQ(buddy_probe_create(end, &buddy_), 0);
        buddy_probe_add(buddy_, first, end - first);
        for (auto &maps : maps_)
            maps = map_probe_create(buddy_);
        EXPECT_TRUE(Claim(Done(), first_, end_ - first_));
    }

    ~MapsUnderTest()
    {
        EXPECT_EQ(Check(), "");
        for (auto *maps : maps_)
            map_probe_destroy(maps);
        buddy_probe_destroy(buddy_);
    }

    MapsUnderTest(const MapsUnderTest &) = delete;
    MapsUnderTest &operator=(const MapsUnderTest &) = delete;

    struct moietyi_buddy *buddy() const
    {
        return buddy_;
    }

    struct moietyi_maps *maps(uint32_t stream = 0) const
    {
        return maps_.at(stream);
    }

    // Views: of done memory; of a stream; the same where a good fit will do; of a
    // stream without what is done.
    map_probe_view Done() const
    {
        return {buddy_, nullptr, false, false};
    }

    map_probe_view Union(uint32_t stream = 0) const
    {
        return {buddy_, maps(stream), false, false};
    }

    map_probe_view Good() const
    {
        return {buddy_, maps(0), false, true};
    }

    map_probe_view Own(uint32_t stream = 0) const
    {
        return {buddy_, maps(stream), true, false};
    }

    map_probe_given Give(uint64_t start, uint64_t grains, uint32_t stream = 0)
    {
        return map_probe_give(maps(stream), start, grains);
    }

    bool Finish(uint64_t start, uint64_t grains)
    {
        return buddy_probe_give(buddy_, nullptr, start, grains);
    }

    // Gives, and closes: the grains are ageing.
    void Age(uint64_t start, uint64_t grains, uint32_t stream = 0)
    {
        EXPECT_EQ(Give(start, grains, stream), PROBE_GIVEN);
        EXPECT_EQ(map_probe_close(maps(stream)), grains);
    }

    static uint64_t Take(const map_probe_view &view, uint64_t grains,
                         uint32_t alignment = 1, bool is_thorough = false)
    {
        uint64_t start = kNone;
        return map_probe_view_take(&view, grains, alignment, is_thorough,
                                   &start)
                   ? start
                   : kNone;
    }

    static bool Claim(const map_probe_view &view, uint64_t start,
                      uint64_t grains)
    {
        return map_probe_view_claim(&view, start, grains);
    }

    uint64_t fresh(uint32_t stream = 0) const
    {
        return map_probe_grains(maps(stream), PROBE_FRESH);
    }

    uint64_t ageing(uint32_t stream = 0) const
    {
        return map_probe_grains(maps(stream), PROBE_AGEING);
    }

    map_probe_level Level(uint64_t grain, map_probe_age age = PROBE_FRESH) const
    {
        return map_probe_level_of(maps(), age, grain);
    }

    // '.' held, 'd' done, 'f' and 'a' fresh and ageing of the first stream, 'F'
    // and 'A' of the second, '!' in two places.
    char PlaceOf(uint64_t grain) const
    {
        uint64_t chunk = grain / kChunk;
        auto bit = grain % kChunk;
        std::string places;
        if (map_probe_done_chunk(buddy_, chunk) >> bit & 1)
            places += 'd';
        for (uint32_t i = 0; i < kStreams; i++)
            for (auto age : {PROBE_FRESH, PROBE_AGEING})
                if (map_probe_chunk(maps(i), age, chunk) >> bit & 1)
                    places += "faFA"[2 * i + age];
        return places.empty() ? '.' : places.size() > 1 ? '!' : places[0];
    }

    // Runs of grains, each with its place and length.
    std::string Picture(uint64_t start, uint64_t grains) const
    {
        std::string picture;
        for (uint64_t at = start; at < start + grains;) {
            char place = PlaceOf(at);
            uint64_t end = at;
            while (end < start + grains && PlaceOf(end) == place)
                end++;
            picture += (picture.empty() ? "" : " ") + std::string(1, place) +
                       std::to_string(end - at);
            at = end;
        }
        return picture;
    }

    std::string Picture() const
    {
        return Picture(first_, end_ - first_);
    }

    // What a verifier says, or nothing.
    std::string Check() const
    {
        uint64_t at = 0;
        const char *broken = buddy_probe_check(buddy_, &at);
        if (!broken)
            broken = map_probe_check(maps_.data(), kStreams, &at);
        return broken ? broken : "";
    }

  private:
    uint64_t first_;
    uint64_t end_;
    struct moietyi_buddy *buddy_ = nullptr;
    std::array<struct moietyi_maps *, kStreams> maps_{};
};

#endif
