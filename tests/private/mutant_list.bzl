# SPDX-License-Identifier: Apache-2.0
"""Private arenas with one requirement left out at a time.

As in tests/streams/mutant_list.bzl; docs/cuda-graphs.md lists them.
"""

_PLAIN = "Blocks/InAnArena."
_CAPTURES = "Blocks/InACaptureOfAnArena."

MUTANTS = {
    # Outside of captures.
    "arenas_streams_are_one": (
        "pool/graph/private_half.c",
        "s/return one->note == other->note \\&\\& /return /",
        _PLAIN + "WhatAStreamFreedServesAnotherOnlyWhenDone/Few",
    ),
    "arenas_wait_for_no_event": (
        "pool/graph/privates.c",
        "s/if \\(!wait.number \\|\\| !moietyi_wait_ask\\(call, \\&wait, may_wait\\)\\)/if (!wait.number)/",
        _PLAIN + "WhatAStreamFreedServesAnotherOnlyWhenDone/Run",
    ),
    "what_is_fresh_in_an_arena_is_done": (
        "pool/graph/private_half.c",
        "/^void moietyi_half_drain/,/^}/" +
        "s/moietyi_heap_drain\\(own->heap, MOIETYI_AGEING\\)/" +
        "(moietyi_heap_drain(own->heap, MOIETYI_AGEING) + moietyi_heap_drain(own->heap, MOIETYI_FRESH))/",
        "Blocks/InAnArenaOfSeveral.WhatIsFreedLaterWaitsForALaterEvent/Few",
    ),
    "arenas_forget_uses": (
        "pool/graph/private_give.c",
        "s/if \\(is_plain \\&\\& !event \\&\\& !is_used\\)/if (is_plain \\&\\& !event)/",
        _PLAIN + "WhatHasRecordedUsesWaitsForThem/Few",
    ),
    "arenas_forget_events": (
        "pool/graph/private_give.c",
        "s/freed->is_done = status == MOIETY_OK \\&\\& !wait.number/freed->is_done = status == MOIETY_OK \\&\\& (event || !wait.number)/",
        _PLAIN + "WhatIsFreedAfterAnEventWaitsForIt/Few",
    ),
    "any_is_a_stream_of_arenas": (
        "pool/graph/privates.c",
        "s/return stream_state->kind >= MOIETYI_STREAM_STATE_STREAM$/return true/",
        _PLAIN + "WhatIsFreedWithoutAStreamWaitsForAll/Few",
    ),
    "released_arenas_are_done": (
        "pool/graph/private_give.c",
        "/^static void to_any/,/^}/s/streams.any/streams.done/",
        _PLAIN + "IsReleasedBehindAllWork/Few",
    ),
    "arenas_keep_no_limit": (
        "pool/graph/privates.c",
        "s/if \\(arena->reserved_bytes > arena->limit_bytes - bytes\\)/if (0)/",
        _PLAIN + "ServesNobodyElseOfThePool/Few",
    ),
    "claims_take_what_is_done_only": (
        "pool/graph/private_half.c",
        "/^static uint64_t free_from/,/^}/s/if \\(grains\\)/if (1)/",
        _PLAIN + "WhatWasInUseCanBeClaimedAgain/Few",
    ),
    # In captures.
    "captures_streams_are_one": (
        "pool/graph/private_half.c",
        "s/return one->note == other->note \\&\\& /return /",
        _CAPTURES + "WhatItFreesServesNoOtherStreamOfIt/Few",
    ),
    "captures_of_arenas_have_no_end": (
        "pool/graph/private_half.c",
        "/^void moietyi_half_end_scope/,/^}/s/own->key.scope != scope/own/",
        _CAPTURES + "WhatItFreedServesTheNextCapture/Few",
    ),
    "graphs_lend_their_pages": (
        "pool/graph/privates.c",
        "s/return side == MOIETYI_PRIVATE_PLAIN \\|\\| !arena->graph_count/return true/",
        _CAPTURES + "WhatItFreedServesNobodyOutsideBeforeTheRelease/Few",
    ),
    "released_graphs_are_over": (
        "pool/graph/private_give.c",
        "s/if \\(--arena->graph_count == 0\\)/arena->graph_count--; if (0)/",
        _CAPTURES + "WhatItFreedServesNobodyOutsideBeforeTheRelease/Few",
    ),
    "what_outlives_a_capture_is_done": (
        "pool/graph/private_give.c",
        "s/if \\(freed->is_done\\)/if (freed->is_done || !freed->key.note)/",
        _CAPTURES + "WhatOutlivedItServesCapturesOnlyWhenDone/Few",
    ),
    "scopes_of_arenas_begin_without_an_event": (
        "moietyi_private_poll",
        "0",
        _CAPTURES + "WhatWaitedBeforeItServesItInTheEnd/Few",
    ),
    "captures_reuse_what_is_from_outside": (
        "pool/graph/private_give.c",
        "s/if \\(mark != moietyi_private_mark_of\\(arena, MOIETYI_PRIVATE_GRAPHS\\) \\|\\|/if (/",
        _CAPTURES + "WhatWasAllocatedOutsideIsKeptForTheGraph/Few",
    ),
    "captures_reuse_what_others_use": (
        "moietyi_is_used",
        "0",
        _CAPTURES + "ABlockWithARecordedUseIsNotReused/Few",
    ),
    "captures_share_with_others": (
        "pool/graph/private_give.c",
        "s/moietyi_scope_arena\\(scopes, scope\\) != arena \\|\\|//",
        _CAPTURES + "WhatACaptureOutsideFreesIsKeptForBoth/Few",
    ),
    "captures_take_what_waits": (
        "pool/graph/private_take.c",
        "s/\\.key = \\{moietyi_private_note_of\\(call\\), scope\\}/.key = {moietyi_private_note_of(call), 0}/; " +
        "s/= scope \\? MOIETYI_PRIVATE_GRAPHS/= !call ? MOIETYI_PRIVATE_GRAPHS/",
        _CAPTURES + "WhatWasFreedOutsideServesItOnlyWhenDone/Few",
    ),
}

# Between two looks under an arena's lock.
STEP_MUTANTS = {
    "late_frees_go_to_the_arena": (
        "pool/graph/private_give.c",
        "s/bool is_its = moietyi_private_mark_at\\(privates, page\\) == mark;/bool is_its = true;/",
        "PrivateStep.AFreeIsOvertakenByTheRelease",
    ),
    "late_drains_take_the_next_closing": (
        "pool/graph/privates.c",
        "s/half->number \\&\\& half->closings == closings/half->number/",
        "PrivateStep.ADrainIsOvertakenByTheNextClosing",
    ),
    "late_pages_are_nobodys": (
        "pool/graph/private_take.c",
        "s/^    if \\(is_had\\)$/    if (is_had \\&\\& status == MOIETY_OK)/",
        "PrivateStep.GrowingIsOvertakenByTheRelease",
    ),
    "late_disowners_clear_what_is_others": (
        "pool/graph/privates.c",
        "/^void moietyi_private_clear_mark/,/^}/s/\\(void\\)atomic_compare_exchange_strong_explicit\\(/(void)mark; owners_of(privates)[page.index] = 0; if (0) (void)atomic_compare_exchange_strong_explicit(/",
        "PrivateStep.TheReleaseIsOvertakenByTheNextOwner",
    ),
    "late_growth_is_by_the_place": (
        "pool/graph/private_take.c",
        "s/growth->is_piece$/moietyi_private_has_pieces(want->ref->arena)/",
        "MappedPrivateStep.GrowingIsOvertakenByAnArenaOfAnotherKind",
    ),
}
