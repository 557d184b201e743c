// SPDX-License-Identifier: Apache-2.0
//
// Which streams a block that was freed serves, while work is under way on its
// own.
#include <gtest/gtest.h>

#include "bench/base/device.h"
#include "tests/pool/pool_under_test.h"
#include "tests/replay/subjects_under_test.h"
#include "tests/replay/watched_subject.h"

using pool_test::kMiB;
using namespace replay_test;

namespace
{

// A subject with a block of stream 0, where work is under way on stream 0.
class SubjectStreams : public testing::TestWithParam<Subject>
{
  protected:
    static void SetUpTestSuite()
    {
        replay_test::UseStandinWithPools();
    }
    void SetUp() override
    {
        const subject_setup setup = {1, 2, 0, false, false};
        subject_ = SubjectNamed(GetParam().name);
        ASSERT_EQ(subject_->start(&setup), nullptr);
        ASSERT_TRUE(subject_->attach(0));
        block_ = subject_->alloc(0, kMiB, 0);
        ASSERT_NE(block_, 0u);
        if (GetParam().does_make_streams) {
            ASSERT_EQ(Control("moiety_standin_hold"), 0);
        }
    }
    void TearDown() override
    {
        if (GetParam().does_make_streams) {
            ASSERT_EQ(Control("moiety_standin_release"), 0);
        }
        subject_->stop();
    }

    static int Control(const char *name)
    {
        return pool_test::Get<int(void *)>(name)(bench_device_streams[0]);
    }
    bool DoesServeItTo(uint32_t stream)
    {
        const uint64_t other = subject_->alloc(0, kMiB, stream);
        EXPECT_NE(other, 0u);
        subject_->free(0, other, kMiB, stream);
        return other < block_ + kMiB && block_ < other + kMiB;
    }

    const struct subject *subject_ = nullptr;
    uint64_t block_ = 0;
};

// Not cuda-async: the stand-in's pool waits for the stream here too.
class SubjectOfOneStream : public SubjectStreams
{
};

TEST_P(SubjectOfOneStream, ServesItAtOnce)
{
    subject_->free(0, block_, kMiB, 0);
    EXPECT_TRUE(DoesServeItTo(0));
}

INSTANTIATE_TEST_SUITE_P(Those, SubjectOfOneStream,
                         testing::Values(Subject{"moiety", true, true},
                                         Subject{"moiety-nocache", true, true},
                                         Subject{"moiety-mapped", true, false},
                                         Subject{"best-fit", false, true},
                                         Subject{"best-fit-expandable", false,
                                                 false}),
                         NameOf);

class SubjectWithStreams : public SubjectStreams
{
};

TEST_P(SubjectWithStreams, ServesNoOtherStreamMeanwhile)
{
    subject_->free(0, block_, kMiB, 0);
    EXPECT_FALSE(DoesServeItTo(1));
}

INSTANTIATE_TEST_SUITE_P(Those, SubjectWithStreams,
                         testing::Values(Subject{"moiety", true, true},
                                         Subject{"moiety-nocache", true, true},
                                         Subject{"moiety-mapped", true, false},
                                         Subject{"best-fit", false, true},
                                         Subject{"best-fit-expandable", false,
                                                 false},
                                         Subject{"cuda-async", true, false}),
                         NameOf);

class SubjectWithoutStreams : public SubjectStreams
{
};

TEST_P(SubjectWithoutStreams, ServesAnyStreamAtOnce)
{
    subject_->free(0, block_, kMiB, 0);
    EXPECT_TRUE(DoesServeItTo(1));
}

INSTANTIATE_TEST_SUITE_P(Those, SubjectWithoutStreams,
                         testing::Values(Subject{"mutex", false, true},
                                         Subject{"pow2-buddy", false, true}),
                         NameOf);

class SubjectOfDoneWork : public SubjectStreams
{
};

TEST_P(SubjectOfDoneWork, ServesAnyStreamWhatNoWorkUses)
{
    subject_->free(0, block_, kMiB, SUBJECT_STREAM_DONE);
    EXPECT_TRUE(DoesServeItTo(1));
}

TEST_P(SubjectOfDoneWork, WaitsForAllStreamsWhereAnyMayUseIt)
{
    subject_->free(0, block_, kMiB, SUBJECT_STREAM_ANY);
    EXPECT_FALSE(DoesServeItTo(1));
}

INSTANTIATE_TEST_SUITE_P(Moiety, SubjectOfDoneWork,
                         testing::Values(Subject{"moiety", true, true},
                                         Subject{"moiety-nocache", true, true},
                                         Subject{"moiety-mapped", true, false}),
                         NameOf);

} // namespace
