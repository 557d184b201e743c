// SPDX-License-Identifier: Apache-2.0
//
// Mixes of blocks as traces: what they ask for, and that they are the same each
// time.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "bench/replay/mix.h"

namespace
{

std::string Written(const mix &one)
{
    char *text = nullptr;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    EXPECT_TRUE(mix_write(&one, file));
    std::fclose(file);
    std::string found(text, length);
    std::free(text);
    return found;
}

mix Parsed(const char *text)
{
    mix one;
    EXPECT_TRUE(mix_parse(text, &one)) << text;
    return one;
}

// What the lines of a trace come to.
struct Found {
    std::map<int, uint64_t> live;
    std::multiset<uint64_t> sizes;
    size_t most_live = 0;
    int last_id = 0;
    bool is_wrong = false; // a free of what is not live, or the like
};

Found Read(const std::string &trace)
{
    Found found;
    std::istringstream lines(trace);
    std::string line;
    while (std::getline(lines, line)) {
        unsigned long long size_bytes = 0;
        int id = 0;
        if (std::sscanf(line.c_str(), "a 1000 0 %d %llu 0", &id, &size_bytes) ==
            2) {
            found.is_wrong |= !found.live.emplace(id, size_bytes).second;
            found.sizes.insert(size_bytes);
        } else if (std::sscanf(line.c_str(), "f 1000 0 %d 0", &id) == 1) {
            found.is_wrong |= found.live.erase(id) != 1;
        }
        found.last_id = std::max(found.last_id, id);
        found.most_live = std::max(found.most_live, found.live.size());
    }
    return found;
}

TEST(Mix, FillsAndEmptiesPlaces)
{
    const Found found = Read(Written(Parsed("8:65536:67108864:42:3000")));
    EXPECT_FALSE(found.is_wrong);
    EXPECT_EQ(found.most_live, 8u);
    EXPECT_EQ(found.last_id, 7);
    // Each step is an allocation or its free.
    EXPECT_EQ(2 * found.sizes.size() - found.live.size(), 3000u);
}

TEST(Mix, DrawsSizesOnALogarithmicScale)
{
    const Found found = Read(Written(Parsed("8:65536:67108864:42:9000")));
    EXPECT_GE(*found.sizes.begin(), 65536u);
    EXPECT_LT(*found.sizes.rbegin(), 67108864u);
    // A third of the doublings has about a third of the sizes.
    size_t small = 0;
    for (const uint64_t size_bytes : found.sizes)
        small += size_bytes < 65536 * 10;
    EXPECT_NEAR(static_cast<double>(small) /
                    static_cast<double>(found.sizes.size()),
                1.0 / 3, 0.05);
}

TEST(Mix, MayHaveOneSize)
{
    const Found found = Read(Written(Parsed("2:512:512:1:100")));
    EXPECT_EQ(found.sizes.count(512), found.sizes.size());
}

TEST(Mix, IsTheSameEachTimeAndAnotherWithAnotherSeed)
{
    const std::string first = Written(Parsed("8:65536:67108864:42:300"));
    EXPECT_EQ(first, Written(Parsed("8:65536:67108864:42:300")));
    mix other = Parsed("8:65536:67108864:42:300");
    other.seed = 43;
    EXPECT_NE(first, Written(other));
}

TEST(Mix, EndsWithItsCount)
{
    const std::string trace = Written(Parsed("8:512:1024:1:17"));
    EXPECT_EQ(trace.rfind("moiety-trace 1\n", 0), 0u);
    EXPECT_NE(trace.find("\nE 17\n"), std::string::npos);
}

TEST(Mix, RefusesNonsense)
{
    mix one;
    for (const char *text : {"",
                             "lag",
                             "8",
                             "8:1:2:3",
                             "8:1:2:3:",
                             ":1:2:3:4",
                             "0:1:2:3:4",
                             "8:0:2:3:4",
                             "8:2:1:3:4",
                             "8:1:2:0:4",
                             "8:1:2:3:0",
                             "4097:1:2:3:4",
                             "8:1:2:3:1000001",
                             "8:1:1099511627777:3:4",
                             "8:1:2:3:4:5",
                             "8:1:2:3:4 ",
                             " 8:1:2:3:4",
                             "-8:1:2:3:4",
                             "8:1e3:2:3:4",
                             "8:1:2:99999999999999999999999:4"})
        EXPECT_FALSE(mix_parse(text, &one)) << text;
}

TEST(MixSets, AreOneTwelveAndOneWithNamesOfTheirOwn)
{
    std::map<std::string, uint32_t> counts;
    std::set<std::string> names;
    uint32_t count = 0;
    for (const mix_set *set = mix_sets; set->name; set++) {
        counts[set->name] = set->count;
        for (uint32_t i = 0; i < set->count; i++, count++) {
            names.insert(set->mixes[i].name);
            EXPECT_FALSE(Read(Written(set->mixes[i])).is_wrong);
        }
    }
    EXPECT_EQ(counts, (std::map<std::string, uint32_t>{
                          {"lag", 1}, {"others", 12}, {"large", 1}}));
    EXPECT_EQ(names.size(), count);
}

TEST(Mix, SaysThatItCannotBeWritten)
{
    const mix one = Parsed("8:512:1024:1:100000");
    FILE *full = std::fopen("/dev/full", "w");
    ASSERT_NE(full, nullptr);
    std::setvbuf(full, nullptr, _IONBF, 0);
    EXPECT_FALSE(mix_write(&one, full));
    std::fclose(full);
}

} // namespace
