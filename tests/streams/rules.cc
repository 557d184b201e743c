// SPDX-License-Identifier: Apache-2.0
#include "tests/streams/rules.h"

namespace streams_test
{

Way Way::UsedBy(const std::vector<Who> &others) const
{
    Way way = *this;
    way.users = others;
    return way;
}

Way Way::By(Thread freer) const
{
    Way way = *this;
    way.thread = freer;
    return way;
}

Way Way::Retired() const
{
    Way way = *this;
    way.is_retired = true;
    return way;
}

namespace
{

constexpr size_t kAnotherSize = size_t{64} << 10;

// Name, held, freed, refused meanwhile, served.
const std::vector<Rule> kRules = {
    // On F.
    {"FreedOnFServesF", F, On(F), {}, AtOnce(F)},
    {"FreedOnFServesN", F, On(F), {N, ANY}, WhenDone(N)},
    {"FreedOnFServesLegacy", F, On(F), {LEGACY, ZERO}, WhenDone(ZERO)},
    {"FreedOnFServesAny", F, On(F), {ANY, DONE}, WhenDone(ANY)},
    {"FreedOnFServesMine", F, On(F), {MINE}, WhenDone(MINE)},
    {"FreedOnFServesACapture", F, On(F), {CAPTURING}, WhenDone(CAPTURING)},
    {"FreedOnFServesFInPieces", F, On(F), {}, AtOnce(F), kAnotherSize},
    {"FreedOnFIsMerged", F, On(F), {ANY}, WhenDone(ANY), kAnotherSize},
    {"FreedOnZeroServesLegacy", LEGACY, On(ZERO), {N}, AtOnce(LEGACY)},
    {"FreedByAnotherServesF", F, On(F).By(ANOTHER), {}, AtOnce(F)},
    {"FreedByAnotherServesN", F, On(F).By(ANOTHER), {N}, WhenDone(N)},
    {"FreedByEndedServesF", F, On(F).By(ENDED), {}, AtOnce(F)},
    {"FreedByEndedServesN", F, On(F).By(ENDED), {N}, WhenDone(N)},

    // On the per-thread stream of a thread; the handle is every thread's.
    {"MineServesItself", MINE, On(MINE), {}, AtOnce(MINE)},
    {"MineServesN", MINE, On(MINE), {N, ANY}, WhenDone(N)},
    {"TheirsServesNobody", THEIRS, On(MINE).By(ANOTHER), {MINE, N}, kNever},
    {"TheirsServesThemOnN", THEIRS, On(MINE).By(BUSY_OTHER), {N}, WhenDone(N)},
    {"TheirsServesALaterThread",
     THEIRS,
     On(MINE).By(REPLACED),
     {MINE},
     WhenDone(MINE)},
    {"TheirsServesNAfterTheirEnd",
     THEIRS,
     On(MINE).By(ENDED),
     {MINE, N, ANY},
     WhenDone(N)},

    // On F, with recorded uses.
    {"UsedByOServesF", O, On(F).UsedBy({O}), {F}, WhenDone(F)},
    {"UsedByOServesN", O, On(F).UsedBy({O}), {N, ANY}, WhenDone(N)},
    {"UsedByOWaitsForFToo", F, On(F).UsedBy({O}), {N, O}, WhenDone(N)},
    {"UsedByTwoServesF", N, On(F).UsedBy({O, N}), {F, O}, WhenDone(F)},
    {"UsedTwiceServesF", O, On(F).UsedBy({O, O}), {F}, WhenDone(F)},
    {"UsedByAnyServesF", O, On(F).UsedBy({ANY}), {F}, WhenDone(F)},
    {"UsedByTheirsServesF",
     THEIRS,
     On(F).UsedBy({THEIRS}),
     {F, MINE},
     WhenDone(F)},

    // With ANY. The pool never hears of the stream that is held.
    {"FreedAnyServesN", O, On(ANY), {N}, WhenDone(N)},
    {"FreedAnyServesAny", O, On(ANY), {ANY, DONE}, WhenDone(ANY)},
    {"FreedAnyWaitsForLegacy", LEGACY, On(ANY), {N}, WhenDone(N)},
    {"FreedAnyWaitsForTheirs", THEIRS, On(ANY), {N}, WhenDone(N)},
    {"FreedAnyServesACapture", O, On(ANY), {CAPTURING}, WhenDone(CAPTURING)},
    {"FreedAnyIsMerged", O, On(ANY), {N}, WhenDone(N), kAnotherSize},
    {"FreedAnyByEndedServesN", O, On(ANY).By(ENDED), {N}, WhenDone(N)},

    // On an event, which names no stream that they would be free for.
    {"FreedAfterServesN", O, {AFTER_EVENT, O}, {N, ANY}, WhenDone(N)},
    {"FreedAfterServesO", O, {AFTER_EVENT, O}, {O}, WhenDone(O)},
    {"FreedAfterServesZero", O, {AFTER_EVENT, O}, {MINE, ZERO}, kNever},
    {"RecordedAgainServesN", O, {RECORDED_AGAIN, O}, {N}, WhenDone(N)},
    {"DestroyedServesN", O, {DESTROYED, O}, {N}, WhenDone(N)},
    {"FreedAfterUsedByOServesN",
     O,
     Way{AFTER_EVENT, F}.UsedBy({O}),
     {N},
     WhenDone(N)},

    // With DONE. Everything is held, so that whatever waits is seen.
    {"FreedDoneServesN", ALL, On(DONE), {}, AtOnce(N)},
    {"FreedDoneServesAny", ALL, On(DONE), {}, AtOnce(ANY)},
    {"FreedDoneServesDone", ALL, On(DONE), {}, AtOnce(DONE)},
    {"FreedDoneServesZero", ALL, On(DONE), {}, AtOnce(ZERO)},
    {"FreedDoneServesPerThread", ALL, On(DONE), {}, AtOnce(MINE)},
    {"FreedDoneServesACapture", ALL, On(DONE), {}, AtOnce(CAPTURING)},
    {"FreedDoneServesPieces", ALL, On(DONE), {}, AtOnce(N), kAnotherSize},

    // On F, which is retired. Whether its handle names a new stream by now, a
    // pool cannot see.
    {"RetiredServesN", F, On(F).Retired(), {N, ANY}, WhenDone(N)},
    {"RetiredServesItsHandle", F, On(F).Retired(), {F}, WhenDone(F)},
    {"RetiredElsewhereServesThem",
     F,
     On(F).By(BUSY_OTHER).Retired(),
     {F, N},
     WhenDone(F)},
    {"RetiredByEndedServesF",
     F,
     On(F).By(ENDED).Retired(),
     {F, N},
     WhenDone(F)},

    // On their own stream, the one that they were allocated for.
    {"FreedOwnServesF", F, {OWN, F}, {}, AtOnce(F)},
    {"FreedOwnServesN", F, {OWN, F}, {N, ANY}, WhenDone(N)},
    {"FreedOwnByAnotherServesF", F, Way{OWN, F}.By(BUSY_OTHER), {N}, AtOnce(F)},
    {"FreedOwnServesPerThread", MINE, {OWN, MINE}, {N}, AtOnce(MINE)},
    {"FreedOwnServesLegacy", LEGACY, {OWN, ZERO}, {}, AtOnce(LEGACY)},
    {"FreedOwnOfTheirsServesN", O, {OWN, THEIRS}, {MINE, THEIRS}, WhenDone(N)},
    {"FreedOwnOfAnyServesN", O, {OWN, ANY}, {F, N}, WhenDone(N)},
    {"FreedOwnUsedByOServesF", O, Way{OWN, F}.UsedBy({O}), {F}, WhenDone(F)},
    {"FreedOwnOfRetiredServesN", O, Way{OWN, F}.Retired(), {F, N}, WhenDone(N)},

    // With MOIETY_POOL_REUSE_DEPENDENCIES.
    {"HandOverFromF", F, On(F), {}, Behind(N)},
    {"HandOverFromFByEnded", F, On(F).By(ENDED), {}, Behind(N)},
    {"HandOverFromPerThread", MINE, On(MINE), {}, Behind(N)},
    {"HandOverToPerThread", F, On(F), {}, Behind(MINE)},
    {"HandOverFromAny", O, On(ANY), {}, Behind(N)},
    {"HandOverOfAUseToN", O, On(F).UsedBy({O}), {}, Behind(N)},
    {"HandOverOfAUseToF", O, On(F).UsedBy({O}), {}, Behind(F)},
    {"HandOverAfterAnEvent", O, {AFTER_EVENT, O}, {}, Behind(N)},
    {"HandOverFromRetired", F, On(F).Retired(), {}, Behind(N)},
    // Nobody waits for the CPU, or for a graph that is not launched yet.
    {"HandOverNotToAny", F, On(F), {ANY}, Behind(N)},
    {"HandOverNotToACapture", F, On(F), {CAPTURING}, Behind(NOBODY)},
};

} // namespace

const std::vector<Rule> &Rules()
{
    return kRules;
}

} // namespace streams_test
