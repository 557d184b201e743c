# SPDX-License-Identifier: Apache-2.0
"""Pools that do not tell who watches of one thing each.

As in tests/streams/mutant_list.bzl.
"""

_GIVES = "Kinds/WatchedPool.TellsOfMemoryBeforeItGivesItOut/"
_ENDS = "Kinds/WatchedPool.TellsOfWhatIsThereAndOfTheEnd/"
_BALANCE = "Kinds/WatchedPool.IsToldOfInBalanceBesideEightThreads/"
_PAUSES = "WatchedPoolOfAKind.TellsOfMemoryThatPauses"

WATCH_MUTANTS = {
    "growth_is_not_told": (
        "moietyi_segment_announce",
        "0",
        _GIVES + "Driver",
    ),
    "pieces_are_not_told": (
        "pool/segment/move.c",
        "/^static moiety_status handle_map/,/^}/" +
        "s/^    moietyi_segment_announce\\(.*$//",
        _GIVES + "Mapped",
    ),
    "trims_are_not_told": (
        "moietyi_segment_retract",
        "0",
        _GIVES + "Driver",
    ),
    "moves_are_not_told": (
        "pool/segment/move.c",
        "/^static bool start_moving/,/^}/" +
        "s/^        moietyi_segment_retract\\(.*$/        ;/",
        _BALANCE + "Mapped",
    ),
    "pauses_are_not_told": (
        "pool/segment/held.c",
        "/^static bool held_set_away/,/^}/" +
        "s/moietyi_segment_retract\\(.*$/;/",
        _PAUSES,
    ),
    "resumes_are_not_told": (
        "pool/segment/held.c",
        "/^static void held_set_back/,/^}/" +
        "s/moietyi_segment_announce\\(.*$/;/",
        _PAUSES,
    ),
    "the_end_is_not_told": (
        "pool/segment/segment.c",
        "s/^        moietyi_segment_retract\\(.*$//",
        _ENDS + "Driver",
    ),
    "the_present_is_not_told": (
        "pool/segment/watch.c",
        "s/^    watch_tell_present\\(.*$//",
        _ENDS + "Mapped",
    ),
    "watched_trims_are_no_growers": (
        "pool/segment/trim.c",
        "s/segments->mapper \\|\\| segments->watch_count/segments->mapper/",
        "Kinds/WatchedPool.TellsOfOneThingAtATime/Driver",
    ),
    "watchers_have_hits": (
        "pool/api/segment.c",
        [
            "s/^    struct moietyi_outside outside;$//",
            "s/^    moietyi_step_out\\(.*$//",
            "s/^    moietyi_step_in\\(.*$//",
        ],
        "Kinds/WatchedPool.RefusesCallsFromInside/Driver",
    ),
}
