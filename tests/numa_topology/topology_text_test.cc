// SPDX-License-Identifier: Apache-2.0
//
// What moiety_host_topology() says; topology_test.cc has what it is said of.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "moiety/host.h"
#include "moiety/status.h"
#include "tests/pool/pool_under_test.h"

namespace
{

using Topology = pool_test::StandinTest;

std::string Whole(uint32_t format)
{
    size_t length = 0;
    EXPECT_OK(moiety_host_topology(format, nullptr, 0, &length));
    std::vector<char> text(length + 1);
    EXPECT_OK(moiety_host_topology(format, text.data(), text.size(), nullptr));
    EXPECT_EQ(length, std::strlen(text.data()));
    return text.data();
}

bool Has(const std::string &text, const std::string &part)
{
    return text.find(part) != std::string::npos;
}

TEST_F(Topology, NamesNodesAndGpus)
{
    std::string text = Whole(MOIETY_HOST_TOPOLOGY_TEXT);
    EXPECT_TRUE(Has(text, "nodes\n  node 0 ")) << text;
    EXPECT_TRUE(Has(text, "pinned memory for it: ")) << text;
    EXPECT_EQ('\n', text.back());
}

TEST_F(Topology, IsOneObject)
{
    std::string text = Whole(MOIETY_HOST_TOPOLOGY_JSON);
    EXPECT_EQ(0u, text.find("{\"source\": ")) << text;
    EXPECT_TRUE(Has(text, "\"gpus\": [\n  {\"gpu\": 0, ")) << text;
    EXPECT_EQ("]}\n", text.substr(text.size() - 3));
}

TEST_F(Topology, IsCutWhereThereIsNoRoom)
{
    std::string whole = Whole(MOIETY_HOST_TOPOLOGY_JSON);
    char cut[8];
    size_t length = 0;
    std::memset(cut, 'x', sizeof cut);
    EXPECT_OK(moiety_host_topology(MOIETY_HOST_TOPOLOGY_JSON, cut,
                                   sizeof cut - 1, &length));
    EXPECT_EQ(whole.size(), length);
    EXPECT_EQ(whole.substr(0, sizeof cut - 2), cut);
    EXPECT_EQ('x', cut[sizeof cut - 1]) << "written past its room";
}

TEST_F(Topology, ArgumentsThatAreNoneAreInvalid)
{
    char text[8];
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_host_topology(2, text, sizeof text, nullptr));
    EXPECT_TRUE(Has(moiety_last_error_message(), "format 2 is unknown"));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_host_topology(0, nullptr, 1, nullptr));
    EXPECT_TRUE(Has(moiety_last_error_message(), "out is NULL"));
}

} // namespace
