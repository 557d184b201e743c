// SPDX-License-Identifier: Apache-2.0
//
// A recording, read back: its lines, and what a strict reader would find wrong.
#ifndef MOIETY_TESTS_RECORD_RECORD_UNDER_TEST_H_
#define MOIETY_TESTS_RECORD_RECORD_UNDER_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "moiety/moiety.h"
#include "moiety/trace.h"
#include "tests/support/tools/pools.h"

namespace record_test
{

inline moiety_pool_options Recorded(uint64_t entries)
{
    moiety_pool_options options = driver_options();
    options.history_entries = entries;
    return options;
}

// In the test's folder.
inline std::string FileName(const std::string &name)
{
    const char *folder = std::getenv("TEST_TMPDIR");
    return std::string(folder ? folder : "/tmp") + "/" + name;
}

inline moiety_trace_summary Summary()
{
    moiety_trace_summary summary = {};
    summary.struct_size = sizeof(summary);
    return summary;
}

inline void Use(moiety_pool *pool, unsigned times = 1)
{
    for (unsigned i = 0; i < times; i++) {
        moiety_devptr block = 0;
        ASSERT_EQ(MOIETY_OK, moiety_alloc(pool, 1000, nullptr, &block));
        ASSERT_EQ(MOIETY_OK, moiety_free(pool, block, nullptr));
    }
}

class Recording
{
  public:
    // Expects what docs/dev/trace-format.md says of lines, ids and the end.
    explicit Recording(const std::string &path, bool is_whole = true)
    {
        std::ifstream file(path);
        std::string line;
        EXPECT_TRUE(file.is_open()) << path;
        // A file that was cut off may end within a line.
        while (std::getline(file, line) && (is_whole || !file.eof()))
            Take(line);
        EXPECT_EQ(is_whole, has_end) << path;
        EXPECT_EQ("", wrong) << path;
    }

    uint64_t Count(const std::string &letters) const
    {
        uint64_t count = 0;
        for (char letter : letters)
            count += counts.count(letter) ? counts.at(letter) : 0;
        return count;
    }

    // Letters of all operations, but for those of memory.
    std::string Letters() const
    {
        std::string letters;
        for (const std::string &line : operations)
            if (line[0] != 'g' && line[0] != 't')
                letters += line[0];
        return letters;
    }

    std::vector<std::string> operations; // lines
    std::map<char, uint64_t> counts;
    std::map<std::string, std::string> info;
    std::vector<std::string> streams;
    uint64_t thread_count = 0;
    uint64_t time_ns = 0;
    uint64_t most_live = 0;
    std::map<uint64_t, uint64_t> live; // sizes by id
    bool has_end = false;
    std::string wrong;

  private:
    void Expect(bool is_right, const std::string &line)
    {
        if (!is_right && wrong.empty())
            wrong = "line " + std::to_string(number_) + ": " + line;
    }

    void Take(const std::string &line)
    {
        std::istringstream words(line);
        std::string kind, text;
        uint64_t index = 0;
        number_++;
        Expect(!has_end, line);
        words >> kind;
        if (number_ == 1) {
            Expect(line == "moiety-trace 1", line);
        } else if (kind == "I") {
            words >> text;
            std::getline(words, info[text]);
        } else if (kind == "T") {
            words >> index;
            Expect(index == thread_count++, line);
        } else if (kind == "S") {
            words >> index >> text;
            Expect(index == streams.size(), line);
            streams.push_back(text);
        } else if (kind == "E") {
            words >> index;
            Expect(index == operations.size(), line);
            has_end = true;
        } else {
            Expect(kind.size() == 1, line);
            operations.push_back(line);
            counts[kind[0]]++;
            TakeOperation(kind[0], words, line);
        }
    }

    void TakeOperation(char kind, std::istringstream &words,
                       const std::string &line)
    {
        uint64_t delta = 0, thread = 0, id = 0, size = 0, stream = 0;
        words >> delta >> thread;
        time_ns += delta;
        Expect(thread < thread_count, line);
        if (std::string("gtor").find(kind) != std::string::npos)
            return;
        words >> id;
        if (kind == 'a') {
            words >> size >> stream;
            Expect(!live.count(id) && stream < streams.size(), line);
            live[id] = size;
            most_live = std::max<uint64_t>(most_live, live.size());
            // Ids are small.
            Expect(id < most_live, line);
        } else {
            Expect(live.count(id) != 0, line);
            if (std::string("fsw").find(kind) != std::string::npos)
                live.erase(id);
        }
        Expect(!words.fail(), line);
    }

    uint64_t number_ = 0;
};

} // namespace record_test

#endif
