# SPDX-License-Identifier: Apache-2.0
"""Scopes with one requirement left out at a time.

As in tests/streams/mutant_list.bzl; docs/cuda-graphs.md lists them.
"""

_ROWS = "Blocks/InACaptureScope."

MUTANTS = {
    "scopes_keep_nothing": (
        "pool/graph/scope_blocks.c",
        "s/note_free\\(note, call, number, is_used_by_others\\);/" +
        "moietyi_give_block(call->thread_state, address);/",
        "Replay.WritesIntoNothingThatOthersGot",
    ),
    "what_is_freed_later_is_not_kept": (
        "pool/graph/scope_blocks.c",
        "s/if \\(may_be_kept &&/if (is_captured \\&\\&/",
        _ROWS + "WhatIsFreedAfterTheCaptureIsKeptToo/Few",
    ),
    "blocks_of_scopes_are_not_marked": (
        "pool/graph/scope_blocks.c",
        "s/block->byte \\| MOIETYI_BYTE_SPECIAL/block->byte/",
        _ROWS + "WhatIsFreedDoneIsKeptToo/Few",
    ),
    "scopes_reuse_nothing": (
        "pool/graph/scope_blocks.c",
        "s/= scope_blocks_reuse\\(call, number, request\\)/= 0/",
        _ROWS + "WhatTheCaptureFreesServesTheSameStreamAtOnce/Few",
    ),
    "streams_of_a_capture_are_one": (
        "moietyi_scope_stream_is",
        "1",
        _ROWS + "WhatTheCaptureFreesServesNoOtherStreamOfIt/Few",
    ),
    "what_others_use_is_reused": (
        "moietyi_is_used",
        "0",
        _ROWS + "ABlockWithARecordedUseIsNotReused/Few",
    ),
    "what_is_adopted_is_reused": (
        "pool/graph/scope_blocks.c",
        "s/note_free\\(note, call, number, true\\)/" +
        "note_free(note, call, number, false)/",
        _ROWS + "AnOrdinaryBlockThatTheCaptureFreesIsKept/Few",
    ),
    "ordinary_blocks_are_not_adopted": (
        "pool/graph/scope_blocks.c",
        "/^ +\\? scope_blocks_adopt\\(/s/scope_blocks_adopt\\(.*$/(call->is_capturing = false, status)/",
        "Replay.KeepsWhatWasAllocatedBeforeTheCaptureAndFreedInIt",
    ),
    "the_second_capture_is_forgotten": (
        "pool/graph/scope_release.c",
        "s/other = moietyi_scope_find\\(scopes, block->also\\);/other = NULL;/",
        _ROWS + "WhatAnotherCaptureFreesWaitsForBothReleases/Few",
    ),
    "released_blocks_are_done": (
        "pool/graph/scope.c",
        "/^moiety_status moiety_scope_release\\(/,/^}/s/STREAM_ANY/STREAM_DONE/",
        _ROWS + "WhatIsReleasedWaitsForAllStreams/Few",
    ),
    "scopes_do_not_end_with_the_capture": (
        "pool/graph/scopes.c",
        "s/scope->capture_id == capture_id;/true;/",
        "ScopeHandle.IsNotForASecondCapture",
    ),
    "joined_streams_have_no_scope": (
        "pool/graph/scopes.c",
        "s/while \\(ask_next\\(scopes, call, &at\\)\\)/while (0)/",
        _ROWS + "StreamsThatJoinTheCaptureAreServed/Few",
    ),
    "the_first_scope_has_it_alone": (
        "pool/graph/scopes.c",
        "s/scopes_bind\\(scopes, scope, call->capture.id, count > 1\\)/" +
        "scopes_bind(scopes, scope, call->capture.id, false)/",
        "Blocks/InTwoScopes.WhatTheGraphFreedStaysWithTheOtherScope/Few",
    ),
    "scopes_hold_no_guard": (
        "pool/graph/scope.c",
        "s/moietyi_capture_guard_begin\\(\\);/(void)0;/;s/status = moietyi_capture_guard_end\\(\\);/(void)0;/",
        "Calls/CaptureInAScope.IsNotBrokenBy/FreeWithoutAStreamGlobalNonBlocking",
    ),
    "numbers_are_used_again": (
        "pool/graph/scope_names.c",
        "s/memory_order_relaxed\\) \\+ 1/memory_order_relaxed) * 0 + 1/",
        "ScopeHandle.IsNotThatOfALaterOne",
    ),
}
