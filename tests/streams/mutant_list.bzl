# SPDX-License-Identifier: Apache-2.0
"""The rule table with one requirement skipped at a time.

Name of the mutant: (file of the pool, script for sed -E, the test that must
fail). docs/streams.md lists them by row.
"""

_RULE = "Rules/Reuse.IsAsTheRuleSays/"

MUTANTS = {
    # A synchronisation.
    "synchronisations_wait_for_nothing": (
        "moietyi_wait_for_work",
        "0",
        "Blocks/Synchronized.AllWorkIsWaitedFor/Few",
    ),
    "synchronisations_leave_caches": (
        "moietyi_reclaim_cached",
        "0",
        "Blocks/Synchronized.WhatAStreamFreedServesAnother/Many",
    ),
    # Freed on F, for F: nothing is required.
    "own_memory_is_not_reused": (
        "pool/cache/take.c",
        "/^static struct moietyi_heap \\*heap_of/,/^}/" +
        "s/stream_state->kind >= MOIETYI_STREAM_STATE_STREAM/false/",
        _RULE + "FreedByEndedServesF_Few",
    ),
    # Freed on F, for another.
    "done_without_a_query": (
        "pool/stream/epoch.c",
        "/^static bool is_context_over/,/^}/s/!= CUDA_SUCCESS/== CUDA_ERROR_UNKNOWN/",
        _RULE + "FreedOnFServesN_Few",
    ),
    "closed_without_a_record": (
        "pool/stream/epoch.c",
        "/^static bool record_contexts/,/^}/" +
        "{s/moietyi_event_record_context\\(user, streams->contexts\\[i\\],/(event/;" +
        "s/^ +\\*event\\) != MOIETY_OK/ \\? 0 : 1)/}",
        _RULE + "FreedOnFServesN_Many",
    ),
    "idle_without_a_question": (
        "pool/stream/epoch.c",
        "s/streams->driver->cuStreamQuery\\(stream_state->stream\\) == CUDA_SUCCESS/true/",
        _RULE + "FreedOnFServesN_Many",
    ),
    "every_map_is_own": (
        "pool/cache/take.c",
        "/^static struct moietyi_heap \\*heap_of/,/^}/" +
        "s/call->pop->stream_state;/atomic_load(\\&call->engine->streams.stream_states[2]);/",
        _RULE + "FreedOnFServesN_Run",
    ),
    "all_streams_are_one": (
        "pool/stream/stream_state.c",
        "s/return stream \\? stream : MOIETY_STREAM_LEGACY/" +
        "return MOIETY_STREAM_LEGACY/",
        _RULE + "FreedOnFServesN_Few",
    ),
    "null_is_no_synonym": (
        "pool/stream/stream_state.c",
        "s/return stream \\? stream : MOIETY_STREAM_LEGACY/return stream/",
        _RULE + "FreedOnZeroServesLegacy_Few",
    ),
    # Freed on the block's own stream.
    "frees_note_nothing": (
        "pool/cache/put.c",
        "/^static void put_push/,/^}/s/if \\(engine->notes\\)/if (0)/",
        "Blocks/FreedOwn.IsThatOfTheLastAllocation/Many",
    ),
    "hits_note_nothing": (
        "pool/api/free.c",
        "/^static inline bool give_by/,/^}/s/hit_free_noted/hit_free_block/",
        "Blocks/FreedOwn.IsThatOfTheLastAllocation/Many",
    ),
    "refills_note_nothing": (
        "pool/cache/take.c",
        "/^static void keep\\(/,/^}/s/if \\(engine->notes\\)/if (0)/",
        "FreedOwnInRoom.IsNotThatOfALifeBeforeTheRefill",
    ),
    "allocations_note_nothing": (
        "pool/cache/take.c",
        "/^void moietyi_note_stream/,/^}/s/if \\(engine->notes \\&\\&/if (0 \\&\\&/",
        _RULE + "FreedOwnServesF_Few",
    ),
    "retired_streams_are_noted": (
        "pool/stream/stream_state.c",
        "s/stream_state->note \\+= MOIETYI_STREAM_STATES_MAX/(void)0/",
        "Blocks/FreedOwn.OfARetiredStreamIsNotALaterOnes/Run",
    ),
    "every_threads_stream_is_own": (
        "pool/cache/call.c",
        "/^static struct moietyi_stream_state \\*pin_noted/,/^}/s/stream_state->owner == call->thread_state/true/",
        _RULE + "FreedOwnOfTheirsServesN_Few",
    ),
    # Freed on F, handed over to N.
    "hand_over_without_a_wait": (
        "pool/stream/epoch.c",
        "/^static bool wait_for\\(/,/^}/s/return MOIETYI_CALL/return true || MOIETYI_CALL/",
        _RULE + "HandOverFromF_Few",
    ),
    "hand_over_to_everybody": (
        "pool/stream/epoch.c",
        "/moietyi_heap_hand\\(stream_state->heap, MOIETYI_AGEING,$/{N;" +
        "s/hand\\((.*),\\n.*$/drain(\\1);/}",
        "Blocks/HandOverOfSeveral.ServesOnlyStreamsThatWait/Few",
    ),
    "hand_over_without_permission": (
        "pool/oom/escalate.c",
        "s/\\(escalation->body->options.flags \\& MOIETY_POOL_REUSE_DEPENDENCIES\\) !=$/true ||/",
        _RULE + "FreedOnFServesN_Few",
    ),
    "hand_over_to_a_capturing_stream": (
        "pool/cache/reclaim.c",
        "s/call->pop != call->push \\|\\|//; s/call->pop\\b/call->push/g",
        _RULE + "HandOverNotToACapture_Few",
    ),
    # Freed on F, for ANY, a capturing stream, the space, trim.
    "own_memory_is_done": (
        "pool/cache/flush.c",
        "s/space, stream_state->heap, list,/space, NULL, list,/",
        _RULE + "FreedOnFIsMerged_Few",
    ),
    "captures_are_not_looked_for": (
        "pool/cache/call.c",
        "s/if \\(call->is_capturing\\)/if (0)/",
        "Blocks/FreedOnAStream.ServesTheSameOnlyWhenDoneIfItCaptures/Few",
    ),
    "the_legacy_stream_captures_too": (
        "pool/cache/call.c",
        "s/capture.kind >= MOIETYI_CAPTURE_BROKEN/" +
        "capture.kind != MOIETYI_CAPTURE_NONE/",
        "Blocks/LegacyStream.TakesAFreeWhileABlockingStreamCaptures/Few",
    ),
    "the_legacy_stream_captures_what_is_used": (
        "pool/cache/uses.c",
        "s/return capture.kind >= MOIETYI_CAPTURE_BROKEN/" +
        "return capture.kind != MOIETYI_CAPTURE_NONE/",
        "Blocks/LegacyStream.TakesAFreeOfWhatAnotherStreamUses/Few",
    ),
    "hits_go_on_under_a_guard": (
        "pool/cache/engine.c",
        "s/MOIETYI_ATTENTION_GUARD,/0,/",
        "Blocks/FreedOnAStream.ServesTheSameOnlyWhenDoneIfItCaptures/Few",
    ),
    "a_capturing_stream_may_free": (
        "pool/cache/put.c",
        "s/if \\(call->is_capturing\\)/if (0)/",
        "Blocks/FreedOnACapturingStream.IsRefused/Few",
    ),
    # Freed on F, with recorded uses.
    "uses_are_forgotten": (
        "pool/cache/put.c",
        "s/bare.byte & MOIETYI_BYTE_SPECIAL/0/",
        _RULE + "UsedByOServesF_Few",
    ),
    "a_use_is_the_streams_own": (
        "pool/cache/uses.c",
        "s/is_over \\? engine->streams.done : engine->streams.any/is_over ? engine->streams.done : call->push->stream_state/",
        _RULE + "UsedByOServesF_Few",
    ),
    # Freed with ANY.
    "any_waits_for_the_legacy_stream": (
        "pool/stream/event.c",
        "s/cuCtxRecordEvent\\(context, event\\)/" +
        "cuEventRecord(event, MOIETY_STREAM_LEGACY)/",
        _RULE + "FreedAnyServesN_Few",
    ),
    "any_waits_for_one_context": (
        "pool/stream/epoch.c",
        [
            "/^static bool record_contexts/,/^}/s/i < count/i < 1/",
            "s/epochs->counts\\[at\\] = count/epochs->counts[at] = 1/",
        ],
        "Blocks/WithASecondContext.FreedWithoutAStreamWaitsForItToo/Few",
    ),
    "any_serves_itself": (
        "pool/cache/call.c",
        "s/push->stream_state->kind == MOIETYI_STREAM_STATE_ANY/0/",
        _RULE + "FreedAnyServesAny_Many",
    ),
    "guards_hold_nobody": (
        "pool/stream/capture_guard.c",
        "/^bool moietyi_capture_guard_recorder_begin/,/^}/" +
        "s/if \\(!moietyi_capture_guard_is_held\\(\\)\\)/if (true)/",
        "Modes/DuringACapture.WhatIsFreedWithoutAStreamWaitsForTheGuardsEnd/*",
    ),
    "guards_are_not_counted": (
        "pool/stream/capture_guard.c",
        "s/atomic_fetch_sub_explicit\\(&guards, 1, memory_order_seq_cst\\)/atomic_store(\\&guards, 0)/",
        "Blocks/CaptureGuard.IsCounted/Few",
    ),
    # Freed on the per-thread stream of T.
    "threads_share_the_per_thread_stream": (
        "pool/stream/stream_state.c",
        "s/named == MOIETY_STREAM_PER_THREAD \\? thread : NULL/NULL/",
        _RULE + "TheirsServesNobody_Many",
    ),
    # Freed after an event.
    "the_event_is_not_waited_for": (
        "pool/cache/uses.c",
        "s/\\*out_is_over = code == CUDA_SUCCESS/*out_is_over = true/",
        _RULE + "FreedAfterServesN_Few",
    ),
    "free_after_forgets_uses": (
        "pool/cache/uses.c",
        "/^static bool is_done/,/^}/s/return !use &&/return/",
        _RULE + "FreedAfterUsedByOServesN_Few",
    ),
    # Freed with DONE: nothing is required.
    "done_is_any": (
        "pool/cache/call.c",
        "s/ cache = thread_state->done;/" +
        " cache = cache_of(thread_state, thread_state->engine->streams.any, false);/",
        _RULE + "FreedDoneServesN_Few",
    ),
    # Retired streams.
    "retiring_goes_unnoticed": (
        "pool/cache/call.c",
        "s/MOIETYI_ATTENTION_STEP, memory_order_acq_rel/" +
        "0, memory_order_acq_rel/",
        _RULE + "RetiredElsewhereServesThem_Many",
    ),
    "retired_streams_are_done": (
        "pool/stream/epoch.c",
        "/^static uint64_t epoch_drain_closed/,/^}/s/event && epoch_query\\(user, event\\) != CUDA_SUCCESS/0/",
        _RULE + "RetiredServesN_Few",
    ),
    "slots_are_used_again_with_caches": (
        "pool/stream/stream_state.c",
        "s/atomic_load_explicit\\(&stream_state->cache_count,$/0 * &/",
        "Blocks/RetiredStream.KeepsItsRecordWhileAThreadHasABlockOfIt/Many",
    ),
}

# Of what the driver refuses.
FAULT_MUTANTS = {
    "failed_records_are_published": (
        "pool/stream/epoch.c",
        "/^static bool record_contexts/,/^}/s/return false/continue/",
        "Blocks/RefusedByTheDriver.AContextEventIsNotTakenForDone/Few",
    ),
    "failed_queries_are_done": (
        "pool/stream/epoch.c",
        "/^static bool is_context_over/,/^}/s/!= CUDA_SUCCESS/== CUDA_ERROR_NOT_READY/",
        "Blocks/RefusedByTheDriver.AQueryIsNotTakenForDone/Few",
    ),
    "failed_waits_hand_over": (
        "pool/stream/epoch.c",
        "/^static bool wait_for\\(/,/^}/s/== MOIETY_OK;/!= MOIETY_E_FORKED;/",
        "Blocks/HandOverRefused.HandsNothingOver/Few",
    ),
    "no_last_event_is_none_needed": (
        "pool/stream/epoch.c",
        "/^static uint64_t epoch_drain_closed/,/^}/s/        if \\(event\\)/        if (true)/",
        "Blocks/RetiredInVain.WaitsForAllWork/Few",
    ),
}

# Of drivers without cuCtxRecordEvent.
OLD_DRIVER_MUTANTS = {
    "nobody_synchronises": (
        "moietyi_synchronise",
        "0",
        "Blocks/FreedWithoutAStreamOnAnOldDriver.ServesAStream*/Few",
    ),
    "the_last_context_speaks_for_all": (
        "pool/stream/last.c",
        "/^moiety_status moietyi_synchronise\\(/,/^}/s/if \\(first == MOIETY_OK\\)/if (true)/",
        "Blocks/TwoContextsOnAnOldDriver.ARefusalOfTheFirstIsNotForgotten/Few",
    ),
    "guards_let_contexts_be_waited_for": (
        "moietyi_capture_guard_recorder_begin",
        "1",
        "Blocks/FreedWithoutAStreamOnAnOldDriver.BreaksNoGuardedCapture/Few",
    ),
}
