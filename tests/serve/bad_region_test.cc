// SPDX-License-Identifier: Apache-2.0
//
// Regions whose memory is not what their maker said.
#include <gtest/gtest.h>

#include <unistd.h>

#include <string>

#include "moiety/region.h"
#include "tests/serve/frame_probe.h"
#include "tests/serve/keeper_under_test.h"
#include "tests/serve/raw_client.h"

namespace
{

using namespace serve_test;

class BadRegion : public testing::Test
{
  protected:
    BadRegion()
        : maker_(keeper_.path()), first_(keeper_.path()),
          second_(keeper_.path()), raw_(keeper_.path())
    {
        for (Worker *worker : {&maker_, &first_, &second_})
            worker->Must("connect");
        maker_.Must("create 0 good 2 2 1");
        maker_.Must("fill 0 7");
        maker_.Must("commit 0");
        maker_.Must("close 0");
    }
    // A region of one handle of `mib`, in words, on the device of the good one.
    void MakeBad(uint64_t mib, int memory)
    {
        Bytes create = CreateFrame("bad");
        ASSERT_EQ(MOIETY_OK, raw_.Ask(Frame("list")));
        frame_probe_part_like(create.data(), raw_.reply().data(), mib * kMiB,
                              mib * kMiB);
        ASSERT_EQ(MOIETY_OK, raw_.Ask(create));
        ASSERT_EQ(MOIETY_OK, raw_.Ask(PutFrame(), {memory}));
        ASSERT_EQ(MOIETY_OK, AskOf(raw_, "commit", "bad", 1));
        ASSERT_EQ(MOIETY_OK, AskOf(raw_, "close", "bad", 1));
    }
    // The memory of the good one.
    int Fetch()
    {
        EXPECT_EQ(MOIETY_OK, AskOf(raw_, "open", "good", 2));
        EXPECT_EQ(MOIETY_OK, AskOf(raw_, "fetch", "good", 2));
        EXPECT_EQ(1U, raw_.descriptors().size());
        int memory = dup(raw_.descriptors().at(0));
        EXPECT_TRUE(raw_.Send(Frame("acknowledge")));
        EXPECT_EQ(MOIETY_OK, AskOf(raw_, "close", "good", 2));
        return memory;
    }
    std::string List()
    {
        return maker_.Must("list").text;
    }
    void ExpectQuarantine()
    {
        const std::string good = "good:2:1:2:0 ";
        const std::string is_open = List();
        EXPECT_EQ(0U, is_open.find(good + "bad:2:1:")) << is_open;
        for (int i = 0; i < 2; i++)
            EXPECT_EQ(MOIETY_E_CORRUPT, first_.Do("open 0 bad 0 1").status);
        // It may be that process's own fault.
        EXPECT_EQ(is_open, List());
        EXPECT_EQ(MOIETY_E_CORRUPT, second_.Do("open 0 bad 0 1").status);
        EXPECT_EQ(0U, List().find(good + "bad:5:1:")) << List();
        keeper_.KillServer();
        for (const char *open :
             {"open 0 bad 0 1", "open 0 bad 0 0", "open 0 bad 1 1"}) {
            Reply refused = maker_.Do(open);
            EXPECT_EQ(MOIETY_E_CORRUPT, refused.status) << open;
            EXPECT_NE(std::string::npos, refused.text.find("two processes"))
                << refused.text;
        }
        EXPECT_EQ(MOIETY_E_IN_USE, maker_.Do("create 0 bad 2 2 1").status);
        maker_.Must("drop bad");
        EXPECT_TRUE(Eventually([&] { return List() == "good:2:1:2:0"; }));
        second_.Must("open 0 good 0 1");
        EXPECT_EQ(1U, second_.Must("holds 0 7").value);
    }
    // What a driver says of a descriptor that is no memory.
    static void FailOnce(Worker &worker, const std::string &open)
    {
        worker.Must("faults cuMemImportFromShareableHandle:nth=1:code="
                    "CUDA_ERROR_INVALID_VALUE");
        EXPECT_EQ(MOIETY_E_CORRUPT, worker.Do(open).status);
        worker.Must("faults none");
    }

    Keeper keeper_;
    Worker maker_;
    Worker first_;
    Worker second_;
    Raw raw_;
};

TEST_F(BadRegion, WithoutMemoryIsQuarantinedByTwoReports)
{
    int file = MakeMemfd();
    MakeBad(2, file);
    ExpectQuarantine();
    close(file);
}

TEST_F(BadRegion, WithLessMemoryIsQuarantinedByTwoReports)
{
    int memory = Fetch();
    MakeBad(4, memory);
    ExpectQuarantine();
    close(memory);
}

TEST_F(BadRegion, IsGoodAgainWhenItIsCommittedAgain)
{
    FailOnce(first_, "open 0 good 0 1");
    maker_.Must("open 0 good 1 1");
    maker_.Must("commit 0");
    maker_.Must("close 0");
    FailOnce(second_, "open 0 good 0 1");
    EXPECT_EQ("good:2:2:2:0", List());
    FailOnce(maker_, "open 0 good 0 1");
    EXPECT_EQ("good:5:2:2:0", List());
}

TEST_F(BadRegion, IsGoodAgainWhenAProcessCouldUseIt)
{
    FailOnce(first_, "open 0 good 0 1");
    maker_.Must("open 0 good 0 1");
    maker_.Must("close 0");
    FailOnce(second_, "open 0 good 0 1");
    EXPECT_EQ("good:2:1:2:0", List());
    FailOnce(first_, "open 0 good 0 1");
    EXPECT_EQ("good:5:1:2:0", List());
}

TEST_F(BadRegion, IsReportedByAWriterToo)
{
    FailOnce(first_, "open 0 good 1 1");
    EXPECT_EQ("good:2:1:2:0", List());
    FailOnce(second_, "open 0 good 1 1");
    EXPECT_EQ("good:5:1:2:0", List());
}

TEST_F(BadRegion, IsStillThereForItsHolders)
{
    maker_.Must("open 0 good 0 1");
    FailOnce(first_, "open 0 good 0 1");
    FailOnce(second_, "open 0 good 0 1");
    EXPECT_EQ("good:5:1:2:1", List());
    EXPECT_EQ(1U, maker_.Must("holds 0 7").value);
    // To drain it takes those, too.
    EXPECT_EQ(MOIETY_OK, raw_.Ask(Frame("drain")));
    EXPECT_EQ("good:4:1:2:1", List());
}

} // namespace
