# SPDX-License-Identifier: Apache-2.0
"""The rule table with one requirement skipped at a time.

Name of the mutant: (file of the pool, script for sed -E, the test that must
fail). docs/streams.md lists them by row.
"""

MUTANTS = {
    # Freed on F, for F: nothing is required.
    "own_batches_are_not_reused": (
        "pool/cache/poll.c",
        "s/if \\(poll->own\\)/if (0)/",
        "Blocks/FreedByAThreadThatEnded.ServesTheSameStreamAtOnce/Few",
    ),
    "threads_share_no_depot": (
        "pool/cache/take.c",
        "s/ take_depot\\(call, call->pop, request, out\\) \\|\\|/ false ||/",
        "Blocks/FreedByAnotherThread.ServesTheSameStreamAtOnce/Some",
    ),
    # Freed on F, for another.
    "done_without_a_query": (
        "pool/cache/record.c",
        "s/driver->cuEventQuery\\(event->event\\) != CUDA_SUCCESS/0/",
        "Blocks/FreedOnAStream.ServesAnotherOnlyWhenDone/Few",
    ),
    "retired_without_a_record": (
        "pool/cache/leave.c",
        "s/: binadei_batch_record\\(by, cache->slot, batch\\);/: BINADE_OK;/",
        "Blocks/FreedWithoutAStream.ServesAStreamOnlyWhenAllAreDone/Many",
    ),
    "asked_for_without_a_record": (
        "pool/cache/poll.c",
        "s/if \\(binadei_batch_record\\(.*$/if (0)/",
        "Blocks/FreedOnAStream.ServesAnotherOnlyWhenDone/Many",
    ),
    "asked_for_on_another_stream": (
        "pool/cache/poll.c",
        "s/\\(poll->member, batch->slot, batch\\)/" +
        "(poll->member, poll->member->caches->slot, batch)/",
        "Blocks/FreedOnAStream.ServesAnotherOnlyWhenDone/Many",
    ),
    "every_batch_is_own": (
        "pool/cache/own.c",
        "s/slot = poll->own->slot;/slot = atomic_load(\\&poll->member->engine->slots[2]);/",
        "Blocks/FreedOnAStream.ServesAnotherOnlyWhenDone/Run",
    ),
    "all_streams_are_one": (
        "pool/cache/slot.c",
        "s/return stream \\? stream : BINADE_STREAM_LEGACY/" +
        "return BINADE_STREAM_LEGACY/",
        "Blocks/FreedOnAStream.ServesAnotherOnlyWhenDone/Few",
    ),
    "null_is_no_synonym": (
        "pool/cache/slot.c",
        "s/return stream \\? stream : BINADE_STREAM_LEGACY/return stream/",
        "Blocks/FreedOnAStream.ServesTheLegacyStreamByItsOtherName/Few",
    ),
    # Freed on F, handed over to N.
    "hand_over_without_a_wait": (
        "pool/cache/poll.c",
        "s/batch->events\\[i\\].is_done \\|\\|/true ||/",
        "Blocks/HandOver.FromAStream/Few",
    ),
    "hand_over_waits_for_the_first_only": (
        "pool/cache/poll.c",
        "s/i < batch->event_count && is_waiting/i < 1 \\&\\& is_waiting/",
        "Blocks/HandOver.OfARecordedUse/Few",
    ),
    "hand_over_to_everybody": (
        "pool/cache/poll.c",
        "s/hand_to\\(poll, batch, to\\)/hand_to(poll, batch, poll->member->done)/",
        "Blocks/HandOverOfSeveral.ServesOnlyStreamsThatWait/Few",
    ),
    "hand_over_without_permission": (
        "pool/ladder.c",
        "s/\\(climb->body->options.flags \\& BINADE_POOL_REUSE_DEPENDENCIES\\) != 0/true/",
        "Blocks/FreedOnAStream.ServesAnotherOnlyWhenDone/Few",
    ),
    "hand_over_to_a_capturing_stream": (
        "pool/cache/reclaim.c",
        "s/call->pop != call->push \\|\\|//; s/call->pop\\b/call->push/g",
        "Blocks/HandOver.IsNotForACapturingStream/Few",
    ),
    # Freed on F, for ANY, a capturing stream, the buddy, trim.
    "own_caches_enter_the_buddy": (
        "pool/cache/leave.c",
        "s/if \\(slot->kind == BINADEI_SLOT_DONE \\|\\| slot->maps\\)/" +
        "if (!may_share)/",
        "Blocks/FreedOnAStream.EntersTheBuddyOnlyWhenDone/Few",
    ),
    "captures_are_not_looked_for": (
        "pool/cache/call.c",
        "s/if \\(call->is_capturing\\)/if (0)/",
        "Blocks/FreedOnAStream.ServesTheSameOnlyWhenDoneIfItCaptures/Few",
    ),
    "the_legacy_stream_captures_too": (
        "pool/cache/call.c",
        "s/capture.kind >= BINADEI_CAPTURE_BROKEN/" +
        "capture.kind != BINADEI_CAPTURE_NONE/",
        "Blocks/LegacyStream.TakesAFreeWhileABlockingStreamCaptures/Few",
    ),
    "the_legacy_stream_captures_what_is_used": (
        "pool/cache/uses.c",
        "s/return capture.kind >= BINADEI_CAPTURE_BROKEN/" +
        "return capture.kind != BINADEI_CAPTURE_NONE/",
        "Blocks/LegacyStream.TakesAFreeOfWhatAnotherStreamUses/Few",
    ),
    "hits_go_on_under_a_guard": (
        "pool/cache/guard.c",
        "s/BINADEI_ATTENTION_GUARD,/0,/",
        "Blocks/FreedOnAStream.ServesTheSameOnlyWhenDoneIfItCaptures/Few",
    ),
    "a_capturing_stream_may_free": (
        "pool/cache/put.c",
        "s/if \\(call->is_capturing\\)/if (0)/",
        "Blocks/FreedOnACapturingStream.IsRefused/Few",
    ),
    "events_are_recorded_into_captures": (
        "pool/cache/record.c",
        "/^static binade_status record_stream/,/^}/" +
        "s/if \\(binadei_is_capturing\\(engine, stream\\)\\)/if (0)/",
        "Blocks/FreedOnACapturingStream.BreaksNoCaptureWithoutAGuardEither/Many",
    ),
    # Freed on F, with recorded uses.
    "uses_are_forgotten": (
        "pool/cache/put.c",
        "s/bare.byte & BINADEI_BYTE_SPECIAL/0/",
        "Blocks/RecordedUse.IsWaitedForByTheFreedStream/Few",
    ),
    "one_use_is_enough": (
        "pool/cache/uses.c",
        "s/i < use->slot_count && status == BINADE_OK/" +
        "i < 1 \\&\\& status == BINADE_OK/",
        "Blocks/RecordedUse.MayBeSeveral/Few",
    ),
    "a_use_replaces_the_freed_stream": (
        "pool/cache/uses.c",
        "s/= record_free\\(/= use ? BINADE_OK : record_free(/",
        "Blocks/RecordedUse.DoesNotReplaceTheFreedStream/Few",
    ),
    "a_use_is_the_streams_own": (
        "pool/cache/uses.c",
        "s/call->engine->any, batch\\)/call->push->slot, batch)/",
        "Blocks/RecordedUse.IsWaitedForByTheFreedStream/Few",
    ),
    # Freed with ANY.
    "any_waits_for_the_legacy_stream": (
        "pool/cache/record.c",
        "s/cuCtxRecordEvent\\(context, event\\)/" +
        "cuEventRecord(event, BINADE_STREAM_LEGACY)/",
        "Blocks/FreedWithoutAStream.ServesAStreamOnlyWhenAllAreDone/Few",
    ),
    "any_waits_for_one_context": (
        "pool/cache/record.c",
        "s/i < count && status == BINADE_OK/i < 1 \\&\\& status == BINADE_OK/",
        "Blocks/WithASecondContext.FreedWithoutAStreamWaitsForItToo/Few",
    ),
    "any_serves_itself": (
        "pool/cache/call.c",
        "s/push->slot->kind == BINADEI_SLOT_ANY/0/",
        "Blocks/FreedWithoutAStream.ServesAnyOnlyWhenAllAreDone/Few",
    ),
    "what_is_leaving_serves_any": (
        "pool/cache/take.c",
        "/^static bool take_leaving/,/^}/{" +
        "s/call->pop == call->push &&//;s/call->pop,/call->push,/}",
        "Blocks/FreedWithoutAStream.ServesAnyOnlyWhenAllAreDone/Few",
    ),
    "guards_hold_nobody": (
        "pool/cache/guard.c",
        "/^bool binadei_guard_recorder_begin/,/^}/" +
        "s/if \\(!binadei_guard_is_held\\(\\)\\)/if (true)/",
        "Modes/DuringACapture.WhatIsFreedWithoutAStreamWaitsForTheGuardsEnd/*",
    ),
    "guards_are_not_counted": (
        "pool/cache/guard.c",
        "s/atomic_fetch_sub\\(&guards, 1\\)/atomic_store(\\&guards, 0)/",
        "Blocks/CaptureGuard.IsCounted/Few",
    ),
    # Freed on the per-thread stream of T.
    "threads_share_the_per_thread_stream": (
        "pool/cache/slot.c",
        "s/named == BINADE_STREAM_PER_THREAD \\? member : NULL/NULL/",
        "Blocks/FreedOnAnotherThreadsStream.DoesNotServeTheCallersOwn/Many",
    ),
    "anybody_records_for_a_thread": (
        "pool/cache/record.c",
        "s/slot->member == member( && !binadei_slot_is_closed\\(slot\\))?/true/",
        "Blocks/FreedOnAnotherThreadsStream.ServesOthersOnlyWhenDoneAfter*/Few",
    ),
    # Freed after an event.
    "the_event_is_not_waited_for": (
        "pool/cache/record.c",
        "/^binade_status binadei_record_after/,/^}/" +
        "{s/cuStreamWaitEvent/cuStreamGetFlags/;" +
        "s/\\(stream, event, 0\\)/(stream, \\&(unsigned){0})/}",
        "Blocks/FreedAfterAnEvent.ServesAStreamOnlyWhenItIsOver/Few",
    ),
    "free_after_forgets_uses": (
        "pool/cache/uses.c",
        "s/for \\(uint32_t i = 0; use && i/for (uint32_t i = 0; use \\&\\& !event \\&\\& i/",
        "Blocks/FreedAfterAnEvent.HonoursRecordedUses/Few",
    ),
    # Freed with DONE: nothing is required.
    "done_is_any": (
        "pool/cache/call.c",
        "s/ cache = member->done;/" +
        " cache = cache_of(member, member->engine->any, false);/",
        "Blocks/FreedDone.ServesAStreamAtOnce/Few",
    ),
    # Retired streams.
    "retiring_goes_unnoticed": (
        "pool/cache/call.c",
        "s/BINADEI_ATTENTION_STEP, memory_order_acq_rel/" +
        "0, memory_order_acq_rel/",
        "Blocks/RetiredStream.IsForgottenByOtherThreads/Few",
    ),
    "retired_streams_are_done": (
        "pool/cache/record.c",
        "s/return record_closed\\(member, slot, batch\\)/return BINADE_OK/",
        "Blocks/RetiredStream.ServesOthersOnlyWhenDone/Few",
    ),
    "retired_streams_keep_their_depot": (
        "pool/cache/call.c",
        "s/binadei_depot_drain\\(call->member, cache\\);//",
        "Blocks/RetiredStream.ServesOthersOnlyWhenDone/Some",
    ),
    "slots_are_used_again_with_caches": (
        "pool/cache/slot.c",
        "s/atomic_load_explicit\\(&slot->cache_count, memory_order_acquire\\)/0/",
        "Blocks/RetiredStream.IsNotMistakenForALaterOne/Few",
    ),
    "slots_are_used_again_with_batches": (
        "pool/cache/slot.c",
        "s/atomic_load_explicit\\(&slot->batch_count, memory_order_acquire\\)/0/",
        "Blocks/RetiredStream.ServesOthersOnlyWhenDone/Many",
    ),
}

# Of what the driver refuses.
FAULT_MUTANTS = {
    "failed_records_are_published": (
        "pool/cache/leave.c",
        "/^binade_status binadei_retire/,/^}/s/if \\(status != BINADE_OK\\)/if (0)/",
        "Blocks/RefusedByTheDriver.AnEventOnAStreamIsNotTakenForDone/Many",
    ),
    "refused_records_are_done": (
        "pool/cache/poll.c",
        "s/batch->slot, batch\\) != BINADE_OK/batch->slot, batch) == BINADE_E_FORKED/",
        "Blocks/RefusedByTheDriver.AnEventOnAStreamIsNotTakenForDone/Many",
    ),
    "failed_queries_are_done": (
        "pool/cache/record.c",
        "s/cuEventQuery\\(event->event\\) != CUDA_SUCCESS/" +
        "cuEventQuery(event->event) == CUDA_ERROR_NOT_READY/",
        "Blocks/RefusedByTheDriver.AQueryIsNotTakenForDone/Few",
    ),
    "failed_waits_hand_over": (
        "pool/cache/poll.c",
        "/^static bool wait_on/,/^}/s/== BINADE_OK;/!= BINADE_E_FORKED;/",
        "Blocks/HandOverRefused.HandsNothingOver/Few",
    ),
    "failed_records_of_uses_free": (
        "pool/cache/uses.c",
        "/^static binade_status put_behind/,/^}/" +
        "s/if \\(status == BINADE_OK\\)/if (batch)/",
        "Blocks/RefusedByTheDriver.AFreeWithARecordedUseIsNoFree/Few",
    ),
    "no_last_event_is_none_needed": (
        "pool/cache/record.c",
        "/^static binade_status record_closed/,/^}/" +
        "s/: binadei_record_any\\(member, batch\\)/: BINADE_OK/",
        "Blocks/RetiredInVain.WaitsForAllWork/Few",
    ),
}

# Of drivers without cuCtxRecordEvent.
OLD_DRIVER_MUTANTS = {
    "old_drivers_need_not_wait": (
        "pool/cache/record.c",
        "s/if \\(batch->needs_synchronise\\)/if (0)/",
        "Blocks/FreedWithoutAStreamOnAnOldDriver.ServesAStream*/Few",
    ),
    "nobody_synchronises": (
        "pool/cache/poll.c",
        "s/if \\(binadei_synchronise\\(engine\\) == BINADE_OK\\)/if (true)/",
        "Blocks/FreedWithoutAStreamOnAnOldDriver.ServesAStream*/Few",
    ),
    "guards_let_contexts_be_waited_for": (
        "pool/cache/poll.c",
        "s/is_needed && binadei_guard_recorder_begin\\(\\)/is_needed/",
        "Blocks/FreedWithoutAStreamOnAnOldDriver.BreaksNoGuardedCapture/Few",
    ),
}
