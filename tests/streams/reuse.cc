// SPDX-License-Identifier: Apache-2.0
//
// Each rule of the table: while the stream is held, the blocks serve nobody but
// whom the rule lets have them; when it is released, they serve.
#include <memory>
#include <ostream>
#include <tuple>

#include <gtest/gtest.h>

#include "tests/streams/device.h"
#include "tests/streams/pool_under_test.h"
#include "tests/streams/rules.h"

namespace streams_test
{

// Or else a failure shows its bytes.
[[maybe_unused]] static void PrintTo(const Rule &rule, std::ostream *out)
{
    *out << rule.name;
}

namespace
{

using Case = std::tuple<Rule, Load>;

uint32_t FlagsOf(const Rule &rule)
{
    return (rule.freed.how == OWN ? MOIETY_POOL_NOTE_STREAMS : 0u) |
           (rule.served.when == BEHIND ? MOIETY_POOL_REUSE_DEPENDENCIES : 0u);
}

class Reuse : public ::testing::TestWithParam<Case>
{
  protected:
    // What the driver calls the stream; N for whoever names none.
    CUstream Of(Who who) const
    {
        switch (who) {
        case F:
            return f_;
        case O:
            return o_;
        case LEGACY:
        case ZERO:
            return CU_STREAM_LEGACY;
        case MINE:
        case THEIRS:
            return CU_STREAM_PER_THREAD;
        default:
            return n_;
        }
    }

    // What the pool is told.
    moiety_stream Named(Who who) const
    {
        switch (who) {
        case ZERO:
            return nullptr;
        case ANY:
            return MOIETY_STREAM_ANY;
        case DONE:
            return MOIETY_STREAM_DONE;
        default:
            return Of(who);
        }
    }

    // In another thread, or here.
    void Do(bool is_elsewhere, const std::function<void()> &task)
    {
        if (!is_elsewhere)
            return task();
        if (!other_)
            other_.reset(new Worker);
        other_->Do(task);
    }

    uint64_t Events() const
    {
        const moiety_pool_stats stats = pool_.Stats();
        return stats.events_recorded + stats.context_events_recorded;
    }

    // All blocks were allocated for the stream.
    void TakeAll(Who who)
    {
        pool_.Free(MOIETY_STREAM_DONE);
        Do(who == THEIRS, [&] {
            while (pool_.Take(Named(who)) == MOIETY_OK) {
            }
        });
        ASSERT_TRUE(pool_.IsWhole());
    }

    void HoldBack(Who who)
    {
        Do(who == THEIRS, [&] {
            holds_.emplace_back(new Hold(Of(who)));
            // With DONE, nothing may be written any more.
            if (freed_.who != DONE)
                pool_.WriteAll(Of(who), kOld);
        });
    }

    void Release()
    {
        for (auto &hold : holds_)
            hold->Release();
    }

    void FreeOn(CUstream stream)
    {
        std::unique_ptr<Event> event(new Event);
        MUST(cu.EventRecord(*event, stream));
        pool_.FreeAfter(*event);
        if (freed_.how == RECORDED_AGAIN)
            MUST(cu.EventRecord(*event, f_));
        if (freed_.how != DESTROYED)
            event_ = std::move(event);
    }

    void Retire()
    {
        if (freed_.is_retired) {
            ASSERT_EQ(moiety_pool_retire_stream(pool_, Named(freed_.who)),
                      MOIETY_OK);
        }
    }

    void Free()
    {
        for (Who user : freed_.users)
            Do(user == THEIRS, [&] { pool_.RecordUse(Named(user)); });
        if (freed_.how == OWN)
            Retire();
        Do(freed_.thread != TEST, [&] {
            if (freed_.how == ON)
                pool_.Free(Named(freed_.who));
            else if (freed_.how == OWN)
                pool_.FreeOwn();
            else
                FreeOn(Of(freed_.who));
        });
        if (freed_.how != OWN)
            Retire();
        if (freed_.thread == ENDED || freed_.thread == REPLACED)
            other_->End();
        // What is elsewhere from now on, is in the later one.
        if (freed_.thread == REPLACED)
            ended_ = std::move(other_);
    }

    void BeginCapture(bool is_refused)
    {
        // Out of the caches and behind an event, while no guard forbids that.
        if (is_refused) {
            ASSERT_EQ(moiety_pool_trim(pool_, 0, nullptr), MOIETY_OK);
        }
        scope_.reset(new CaptureScope(pool_, n_));
        capture_.reset(new Capture(n_));
    }

    void ExpectRefused()
    {
        for (Who who : rule_.refused) {
            if (who == CAPTURING)
                BeginCapture(true);
            Do(who == THEIRS, [&] {
                ASSERT_TRUE(pool_.ServesNothing(Named(who), rule_.size_bytes))
                    << who;
            });
        }
        // Nor has the space that all share got any of it.
        if (rule_.size_bytes != 0 && !rule_.refused.empty()) {
            EXPECT_EQ(pool_.Stats().free_bytes, 0u);
        }
    }

    void ExpectAtOnce(Who who)
    {
        const uint64_t events = Events();
        ASSERT_EQ(pool_.Take(Named(who), rule_.size_bytes), MOIETY_OK);
        EXPECT_EQ(Events(), events);
        if (freed_.who == DONE) {
            EXPECT_EQ(events, 0u);
        }
    }

    // What the next owner writes comes last.
    void ExpectWritten(Who who)
    {
        const size_t size_bytes =
            rule_.size_bytes != 0 ? rule_.size_bytes : pool_.size_bytes();
        Write(Of(who), pool_.last(), size_bytes, kNew);
        if (rule_.served.when == BEHIND) {
            EXPECT_GT(pool_.Stats().stream_waits, 0u);
            PauseForTheForbidden();
            EXPECT_EQ(cu.StreamQuery(Of(who)), CUDA_ERROR_NOT_READY);
        }
        Release();
        EXPECT_TRUE(Holds(Of(who), pool_.last(), size_bytes, kNew));
    }

    void ExpectServed()
    {
        const Who who = rule_.served.who;
        if (who == NOBODY)
            return;
        if (who == CAPTURING && !capture_)
            BeginCapture(false);
        if (rule_.served.when == WHEN_DONE) {
            Release();
            ASSERT_TRUE(pool_.ServesInTheEnd(Named(who), rule_.size_bytes));
        } else if (rule_.served.when == BEHIND) {
            ASSERT_TRUE(pool_.ServesAtOnce(Named(who)));
        } else {
            ExpectAtOnce(who);
        }
        // A graph that is captured writes nothing.
        if (who != CAPTURING)
            ExpectWritten(who);
    }

    const Rule rule_ = std::get<0>(GetParam());
    const Way &freed_ = rule_.freed;
    Stream f_, n_, o_;
    TightPool pool_{std::get<1>(GetParam()), FlagsOf(rule_)};
    std::unique_ptr<CaptureScope> scope_;
    std::unique_ptr<Capture> capture_;
    std::unique_ptr<Event> event_;
    std::unique_ptr<Worker> other_, ended_;
    std::vector<std::unique_ptr<Hold>> holds_;
};

std::string NameOfCase(const ::testing::TestParamInfo<Case> &info)
{
    return std::string(std::get<0>(info.param).name) + "_" +
           std::get<1>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(Rules, Reuse,
                         ::testing::Combine(::testing::ValuesIn(Rules()),
                                            ::testing::Values(kFew, kSome,
                                                              kMany, kRun)),
                         NameOfCase);

TEST_P(Reuse, IsAsTheRuleSays)
{
    if (freed_.how == OWN)
        TakeAll(freed_.who);
    for (Who who : {F, N, O})
        if (rule_.held == ALL)
            HoldBack(who);
    if (rule_.held != ALL)
        HoldBack(rule_.held);
    Free();
    const auto ask = [this] {
        ExpectRefused();
        if (!HasFatalFailure())
            ExpectServed();
    };
    Do(freed_.thread == BUSY_OTHER || freed_.thread == REPLACED, ask);
}

} // namespace
} // namespace streams_test
