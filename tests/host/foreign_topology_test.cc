// SPDX-License-Identifier: Apache-2.0
//
// A topology that is not this machine's decides, but cannot bind: an arena that
// goes by it says so. It is read once in a process, so this is a program.
#include <cstdlib>
#include <string>

#include "tests/host/arena_under_test.h"
#include "tests/pool/pool_under_test.h"

namespace host_test
{
namespace
{

class ForeignTopology : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        setenv("HWLOC_SYNTHETIC", "pack:2 [numa(memory=1073741824)] pu:2", 1);
        pool_test::UseStandin();
    }
};

TEST_F(ForeignTopology, IsNotBelieved)
{
    Arena arena;
    arena.Free(arena.Alloc(1));
    EXPECT_TRUE(arena.Stats().fallbacks & MOIETY_HOST_FELL_TO_UNBOUND);
    EXPECT_NE(std::string::npos, arena.Report().find("not this machine's"))
        << arena.Report();
}

// There are two nodes, and no device of the stand-in's is on it.
TEST_F(ForeignTopology, TellsThatNobodyKnowsWhereTheDeviceIs)
{
    Arena arena;
    EXPECT_EQ(MOIETY_HOST_FELL_TO_OTHER_NODES, arena.Stats().fallbacks);
    EXPECT_NE(std::string::npos, arena.Report().find("not known"))
        << arena.Report();
}

TEST_F(ForeignTopology, DoesNotTellSoOfNodesThatWereNamed)
{
    moiety_host_options options = HostDefaults();
    options.policy = MOIETY_HOST_EXPLICIT;
    options.nodes[0] = 2;
    Arena arena(options);
    EXPECT_EQ(0u, arena.Stats().fallbacks);
}

TEST_F(ForeignTopology, IsRefusedByAStrictArena)
{
    moiety_host_options options = HostDefaults();
    options.flags = MOIETY_HOST_STRICT;
    options.policy = MOIETY_HOST_EXPLICIT;
    options.nodes[0] = 1;
    moiety_host *host = nullptr;
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, moiety_host_create(&options, &host))
        << moiety_last_error_message();
    EXPECT_EQ(nullptr, host);
}

} // namespace
} // namespace host_test
