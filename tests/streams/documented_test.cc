// SPDX-License-Identifier: Apache-2.0
//
// The table "Reuse" of docs/streams.md has the rows of the rules, and says of
// each whether blocks are reused at once.
#include <fstream>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "tests/streams/rules.h"

namespace streams_test
{
namespace
{

// A row of the document: what it says of the same stream, and of others.
struct Row {
    std::string same;
    std::string others;
};

using Table = std::map<std::string, Row>;

// tests/scope has its rules.
const char kScopeRow[] = "F within a capture scope";

std::string RowOf(const Way &freed)
{
    if (freed.how == OWN)
        return "the block's own stream (`moiety_free_on_alloc_stream()`)";
    if (freed.how != ON)
        return "an event (`moiety_free_on_event()`)";
    if (freed.is_retired)
        return "F, then `moiety_pool_retire_stream()`";
    if (!freed.users.empty())
        return "F, after `moiety_record_use()` of others";
    if (freed.who == ANY)
        return "`MOIETY_STREAM_ANY`";
    if (freed.who == DONE)
        return "`MOIETY_STREAM_DONE`";
    return "the stream F";
}

std::string CellOf(const std::string &line, size_t *at)
{
    const size_t from = line.find('|', *at) + 2;
    *at = line.find('|', from);
    return line.substr(from, *at - 1 - from);
}

Table Documented()
{
    std::ifstream file("docs/streams.md");
    std::string line;
    Table table;
    while (std::getline(file, line) && line != "## Reuse") {
    }
    while (std::getline(file, line) && line.compare(0, 2, "##") != 0) {
        if (line.compare(0, 2, "| ") != 0 || line.find("| freed with") == 0)
            continue;
        size_t at = 0;
        const std::string freed = CellOf(line, &at);
        const std::string same = CellOf(line, &at);
        const std::string others = CellOf(line, &at);
        table[freed] = {same, others == "the same" ? same : others};
    }
    return table;
}

// A later thread's own stream is another one.
bool IsForTheSame(const Rule &rule)
{
    const Who freed = rule.freed.who == ZERO ? LEGACY : rule.freed.who;
    return rule.served.who == freed && rule.freed.thread != REPLACED;
}

bool IsAtOnce(const std::string &cell)
{
    return cell.compare(0, 7, "at once") == 0;
}

TEST(Documented, EveryRuleHasARowThatSaysTheSame)
{
    const Table table = Documented();
    for (const Rule &rule : Rules()) {
        const auto row = table.find(RowOf(rule.freed));
        ASSERT_NE(row, table.end()) << rule.name;
        // A rule with uses of its own stream is one of uses.
        if (rule.served.when == NEVER || rule.served.when == BEHIND ||
            (rule.freed.how == OWN && !rule.freed.users.empty()))
            continue;
        EXPECT_EQ(IsAtOnce(IsForTheSame(rule) ? row->second.same
                                              : row->second.others),
                  rule.served.when == AT_ONCE)
            << rule.name;
    }
}

TEST(Documented, EveryRowHasARuleForTheSameStreamAndForAnother)
{
    std::map<std::string, int> same, others;
    for (const Rule &rule : Rules())
        (IsForTheSame(rule) ? same : others)[RowOf(rule.freed)]++;
    for (const auto &row : Documented()) {
        if (row.first == kScopeRow)
            continue;
        EXPECT_GT(same[row.first], 0) << row.first;
        EXPECT_GT(others[row.first], 0) << row.first;
    }
}

} // namespace
} // namespace streams_test
