// SPDX-License-Identifier: Apache-2.0
//
// Row: freed with DONE, next allocation for whomever. Everything is held, so
// that whatever waits is seen.
#include <gtest/gtest.h>

#include "tests/streams/device.h"
#include "tests/streams/pool_under_test.h"

namespace streams_test
{

class FreedDone : public RuleTest
{
  protected:
    FreedDone()
    {
        pool_.Free(MOIETY_STREAM_DONE);
    }

    Hold first_{freed_}, second_{next_}, third_{other_};
};
FOR_EACH_LOAD(FreedDone);

TEST_P(FreedDone, ServesAStreamAtOnce)
{
    EXPECT_TRUE(pool_.ServesAtOnce(next_));
}

TEST_P(FreedDone, ServesAnyAtOnce)
{
    EXPECT_TRUE(pool_.ServesAtOnce(MOIETY_STREAM_ANY));
}

TEST_P(FreedDone, ServesTheDefaultStreamsAtOnce)
{
    EXPECT_TRUE(pool_.ServesAtOnce(nullptr));
    ASSERT_EQ(pool_.FreeLast(MOIETY_STREAM_DONE), MOIETY_OK);
    EXPECT_TRUE(pool_.ServesAtOnce(MOIETY_STREAM_PER_THREAD));
}

TEST_P(FreedDone, ServesACapturingStreamAtOnce)
{
    CaptureScope scope(pool_, next_);
    Capture capture(next_);
    EXPECT_TRUE(pool_.ServesAtOnce(next_));
    EXPECT_EQ(capture.End(), CUDA_SUCCESS);
}

TEST_P(FreedDone, ServesAnotherSizeAtOnce)
{
    EXPECT_EQ(pool_.Take(next_, size_t{64} << 10), MOIETY_OK);
}

TEST_P(FreedDone, CostsNoEvent)
{
    ASSERT_TRUE(pool_.ServesAtOnce(next_));
    moiety_pool_stats stats = pool_.Stats();
    EXPECT_EQ(stats.events_recorded + stats.context_events_recorded, 0u);
}

} // namespace streams_test
