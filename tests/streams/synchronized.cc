// SPDX-License-Identifier: Apache-2.0
//
// moiety_pool_synchronize(): what was freed before is everybody's after it, and
// not before all work is over.
#include <gtest/gtest.h>

#include "tests/streams/device.h"
#include "tests/streams/pool_under_test.h"

namespace streams_test
{

constexpr uint32_t kLongMs = 20000;
constexpr uint32_t kShortMs = 20;
// Longer than the pool tries to record an event.
constexpr uint32_t kBeyondEventsMs = 300;

class Synchronized : public RuleTest
{
  protected:
    // Whatever is queued after it.
    void ExpectDone()
    {
        Hold freed(freed_), other(other_);
        while (!pool_.IsWhole())
            ASSERT_EQ(pool_.Take(next_), MOIETY_OK);
    }
};
FOR_EACH_LOAD(Synchronized);

TEST_P(Synchronized, WhatAStreamFreedIsTrimmed)
{
    Hold hold(freed_);
    pool_.Free(freed_);
    pool_.SynchronizeBehind(&hold);
    pool_.ExpectTrimmedAtOnce();
}

TEST_P(Synchronized, WhatAStreamFreedServesAnother)
{
    Hold hold(freed_);
    pool_.Free(freed_);
    pool_.SynchronizeBehind(&hold);
    ExpectDone();
}

TEST_P(Synchronized, WhatWasFreedWithoutAStreamIsDone)
{
    Hold hold(other_);
    pool_.Free(MOIETY_STREAM_ANY);
    pool_.SynchronizeBehind(&hold);
    ExpectDone();
}

TEST_P(Synchronized, WhatAnotherStreamUsedIsDone)
{
    Hold hold(other_);
    pool_.RecordUse(other_);
    pool_.Free(freed_);
    pool_.SynchronizeBehind(&hold);
    ExpectDone();
}

TEST_P(Synchronized, WhatAThreadFreedThatRestsIsDone)
{
    Worker resting;
    Hold hold(freed_);
    resting.Do([&] { pool_.Free(freed_); });
    pool_.SynchronizeBehind(&hold);
    ExpectDone();
}

// It cannot go behind an event that was recorded before.
TEST_P(Synchronized, WhatWasFreedBesideAnEventIsDone)
{
    Hold hold(freed_);
    pool_.Free(freed_);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    while (!pool_.IsWhole())
        ASSERT_EQ(pool_.Take(freed_), MOIETY_OK);
    Hold later(freed_);
    hold.Release();
    pool_.Free(freed_);
    pool_.SynchronizeBehind(&later);
    ExpectDone();
}

TEST_P(Synchronized, WorkThatIsNotOverIsSaid)
{
    Hold hold(freed_);
    pool_.Free(freed_);
    EXPECT_EQ(moiety_pool_synchronize(pool_, kShortMs), MOIETY_E_TIMEOUT);
    EXPECT_EQ(moiety_pool_synchronize(pool_, 0), MOIETY_E_TIMEOUT);
    uint64_t bytes = 1;
    EXPECT_EQ(moiety_pool_trim(pool_, 0, &bytes), MOIETY_OK);
    EXPECT_EQ(bytes, 0u);
    hold.Release();
    EXPECT_EQ(moiety_pool_synchronize(pool_, kLongMs), MOIETY_OK);
    pool_.ExpectTrimmedAtOnce();
}

// Earlier questions leave no room for another event before the work is over.
TEST_P(Synchronized, EarlierWorkIsNotTakenForACapture)
{
    Hold hold(freed_);
    pool_.Free(freed_);
    EXPECT_EQ(moiety_pool_synchronize(pool_, 0), MOIETY_E_TIMEOUT);
    EXPECT_EQ(moiety_pool_synchronize(pool_, 0), MOIETY_E_TIMEOUT);
    EXPECT_EQ(moiety_pool_synchronize(pool_, kBeyondEventsMs),
              MOIETY_E_TIMEOUT);
    EXPECT_STREQ(moiety_last_error_message(), "work of the device is not over");
    hold.Release();
    EXPECT_EQ(moiety_pool_synchronize(pool_, kLongMs), MOIETY_OK);
    pool_.ExpectTrimmedAtOnce();
}

// Also where nothing waits for it.
TEST_P(Synchronized, AllWorkIsWaitedFor)
{
    Hold hold(other_);
    EXPECT_EQ(moiety_pool_synchronize(pool_, kShortMs), MOIETY_E_TIMEOUT);
    pool_.SynchronizeBehind(&hold);
    EXPECT_TRUE(pool_.IsWhole());
}

int EndAtTheSecond(void *user)
{
    auto *asked = static_cast<int *>(user);
    return ++*asked == 2;
}

TEST_P(Synchronized, AWaitEndsWhenTheProgramSaysSo)
{
    Hold hold(freed_);
    pool_.Free(freed_);
    int asked = 0;
    moiety_set_interrupt(EndAtTheSecond, &asked);
    EXPECT_EQ(moiety_pool_synchronize(pool_, UINT32_MAX), MOIETY_E_INTERRUPTED);
    EXPECT_EQ(asked, 2);
    moiety_set_interrupt(nullptr, nullptr);
    hold.Release();
    EXPECT_EQ(moiety_pool_synchronize(pool_, kLongMs), MOIETY_OK);
    EXPECT_EQ(asked, 2);
    pool_.ExpectTrimmedAtOnce();
}

TEST_P(Synchronized, AGuardIsNotWaitedFor)
{
    pool_.Free(freed_);
    const uint64_t before = moiety_capture_age_ns();
    Guard guard;
    EXPECT_EQ(moiety_capture_age_ns(), 0u);
    Capture capture(other_, CU_STREAM_CAPTURE_MODE_GLOBAL);
    EXPECT_EQ(moiety_pool_synchronize(pool_, kLongMs), MOIETY_E_CAPTURING);
    EXPECT_STREQ(moiety_last_error_message(),
                 "moiety_pool_synchronize: a capture guard or a scope is held");
    EXPECT_EQ(capture.End(), CUDA_SUCCESS);
    guard.End();
    // What was met before is not forgotten, and the guard's is not noted.
    EXPECT_GE(moiety_capture_age_ns(), before);
    EXPECT_EQ(moiety_pool_synchronize(pool_, kLongMs), MOIETY_OK);
    pool_.ExpectTrimmedAtOnce();
}

TEST(SynchronizedBadly, IsRefused)
{
    EXPECT_EQ(moiety_pool_synchronize(nullptr, kLongMs), MOIETY_E_INVALID);
}

} // namespace streams_test
