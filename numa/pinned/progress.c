/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "numa/pinned/progress.h"

#include <inttypes.h>

#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"

static uint64_t count_cancels(const struct moietyi_progress *progress)
{
    /* relaxed: numbers that order nothing; a late look only stops later. */
    return (progress->cancels ? moietyi_load_relaxed(progress->cancels) : 0) +
           (progress->own_cancels ? moietyi_load_relaxed(progress->own_cancels)
                                  : 0);
}

void moietyi_progress_begin(struct moietyi_progress *progress,
                            const moietyi_atomic_word *cancels)
{
    progress->cancels = cancels;
    progress->seen_cancels = count_cancels(progress);
    progress->told_ns = moietyi_now_ns();
}

static void progress_report(struct moietyi_progress *progress, uint64_t bytes)
{
    uint64_t now_ns = moietyi_now_ns();
    if (!progress->report || (bytes == progress->told_bytes &&
                              now_ns - progress->told_ns < MOIETYI_TICK_NS))
        return;
    progress->told_bytes = bytes;
    progress->told_ns = now_ns;
    progress->report(progress->user_data, bytes, progress->total_bytes);
}

void moietyi_progress_tick(struct moietyi_progress *progress,
                           uint64_t more_bytes)
{
    progress->is_telling = true;
    if (progress->is_reserve)
        moietyi_interrupt_ask();
    progress_report(progress, progress->done_bytes +
                                  (progress->is_exact ? 0 : more_bytes));
    progress->is_telling = false;
}

bool moietyi_progress_is_over(const struct moietyi_progress *progress)
{
    return count_cancels(progress) != progress->seen_cancels ||
           (progress->is_reserve && moietyi_is_interrupted()) ||
           moietyi_is_forked();
}

moiety_status moietyi_progress_refuse(const struct moietyi_progress *progress)
{
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    return moietyi_fail(MOIETY_E_INTERRUPTED,
                        "the program stopped a growth after %" PRIu64
                        " bytes; they stay",
                        progress->done_bytes);
}
