/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Growing an arena before it is needed: piece by piece, each of which is registered
 * alone and is a segment. Pages are touched ahead meanwhile, and others have the
 * driver between two pieces (docs/dev/adr/0046-runway.md).
 */
#include "numa/arena/reserve.h"

#include <inttypes.h>

#include "numa/arena/turn.h"
#include "pool/base/cancel.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"

#define THREADS_MAX 64U
/* How many stalls a process waits for another that does not pass its turn on. */
#define PATIENCE 4U

struct run {
    struct moiety_host *host;
    uint64_t size_bytes; /* that shall be pinned */
    uint64_t piece_bytes;
    uint64_t most_bytes; /* less after the driver refused a length */
    struct moietyi_turn turn;
    struct moietyi_reserve reserve;
};

static uint64_t run_left_bytes(const struct run *run)
{
    moiety_host_stats stats;
    moietyi_pinned_stats(run->host->pinned, &stats);
    return run->size_bytes > stats.pinned_bytes
               ? run->size_bytes - stats.pinned_bytes
               : 0;
}

/* Twice the last, as long as others wait no longer than they should. A piece that has
 * no block of the longest would be of no use for it. */
static void run_next_piece(struct run *run, uint64_t left_bytes)
{
    const struct moietyi_pieces *pieces = &run->host->pieces;
    uint64_t timely =
        moietyi_pinned_bytes_in(run->host->pinned, pieces->stall_ns) &
        ~(MOIETYI_PIECE_UNIT - 1);
    uint64_t bytes =
        run->piece_bytes ? 2 * run->piece_bytes : pieces->first_bytes;
    if (timely < pieces->least_bytes)
        timely = pieces->least_bytes;
    if (bytes > timely)
        bytes = timely;
    if (bytes > run->most_bytes)
        bytes = run->most_bytes;
    run->piece_bytes = bytes < left_bytes ? bytes : left_bytes;
}

/* Another thread may have grown the arena, too. */
static moiety_status run_take_piece(struct run *run, uint64_t left_bytes)
{
    uint64_t bytes = run->piece_bytes;
    struct moietyi_progress *progress = &run->reserve.progress;
    moiety_status status = moietyi_pinned_reserve_await(&run->reserve, bytes);
    if (status != MOIETY_OK)
        return status;
    moietyi_turn_take(&run->turn, progress);
    /* It may have waited long. */
    status = moietyi_progress_is_over(progress)
                 ? moietyi_progress_refuse(progress)
                 : moiety_pool_reserve(run->host->pool,
                                       run->size_bytes - left_bytes + bytes);
    moietyi_turn_end(&run->turn);
    return status;
}

/* The driver may register no such length, as some kernels do from 2 GiB on. Where
 * memory is short, a smaller piece only stalls others once more. */
static bool run_may_halve(struct run *run, moiety_status status)
{
    if (status != MOIETY_E_INVALID && status != MOIETY_E_TOO_LARGE)
        return false;
    run->most_bytes = (run->piece_bytes / 2) & ~(MOIETYI_PIECE_UNIT - 1);
    return run->most_bytes != 0;
}

static moiety_status run_to_end(struct run *run)
{
    for (;;) {
        uint64_t left_bytes = run_left_bytes(run);
        if (!left_bytes)
            return MOIETY_OK;
        run_next_piece(run, left_bytes);
        moiety_status status = run_take_piece(run, left_bytes);
        if (status != MOIETY_OK && !run_may_halve(run, status))
            return status;
    }
}

static moiety_status run_begin_and_end(struct run *run)
{
    run->reserve.progress.total_bytes = run_left_bytes(run);
    if (!run->reserve.progress.total_bytes)
        return MOIETY_OK;
    moiety_status status = moietyi_pinned_reserve_begin(
        run->host->pinned, &run->reserve, run->reserve.progress.total_bytes);
    if (status != MOIETY_OK)
        return status;
    moietyi_turn_open(&run->turn, PATIENCE * run->host->pieces.stall_ns,
                      run->reserve.outer != NULL);
    status = run_to_end(run);
    moietyi_turn_close(&run->turn);
    moietyi_pinned_reserve_end(&run->reserve);
    return status;
}

static moiety_status check_reserve(const moiety_host *host, uint64_t size_bytes,
                                   uint32_t thread_count, const char *function)
{
    char nodes[MOIETYI_NODESET_TEXT_BYTES];
    if (thread_count > THREADS_MAX) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "%s: thread_count is %u, must be %u at most",
                            function, (unsigned)thread_count, THREADS_MAX);
    }
    if (size_bytes <= UINT64_MAX - MOIETYI_PIECE_UNIT &&
        (!host->limit_bytes || size_bytes <= host->limit_bytes))
        return MOIETY_OK;
    return moietyi_fail(MOIETY_E_TOO_LARGE,
                        "%" PRIu64 " bytes: the arena on node %s never has "
                        "more than %" PRIu64 ", its limit_bytes or what the "
                        "nodes had when it was made",
                        size_bytes,
                        moietyi_nodeset_text(&host->place.nodes, nodes),
                        host->limit_bytes);
}

moiety_status moietyi_reserve_enter(struct moiety_host *host,
                                    uint64_t size_bytes, uint32_t thread_count,
                                    const char *function)
{
    moiety_status status = moietyi_host_check(host, function);
    if (status == MOIETY_OK)
        status = check_reserve(host, size_bytes, thread_count, function);
    if (status != MOIETY_OK)
        return status;
    return moietyi_is_forked() ? moietyi_refuse_child()
                               : moietyi_host_enter(host, function);
}

moiety_status moietyi_reserve_run(struct moiety_host *host, uint64_t size_bytes,
                                  struct moietyi_progress *progress)
{
    int cancel_state = moietyi_cancel_hold();
    struct run run = {
        .host = host,
        .size_bytes = moietyi_piece_round_up(size_bytes),
        .most_bytes = host->pieces.most_bytes,
        .reserve.progress = *progress,
    };
    moiety_status status = run_begin_and_end(&run);
    *progress = run.reserve.progress;
    moietyi_cancel_restore(cancel_state);
    return status;
}

moiety_status moiety_host_reserve(moiety_host *host, uint64_t size_bytes,
                                  uint32_t thread_count,
                                  moiety_host_progress_fn *progress,
                                  void *user_data)
{
    moiety_status status = moietyi_reserve_enter(host, size_bytes, thread_count,
                                                 "moiety_host_reserve");
    if (status != MOIETY_OK)
        return status;
    struct moietyi_progress own = {.report = progress,
                                   .user_data = user_data,
                                   .thread_count = thread_count};
    moietyi_progress_begin(&own, &host->cancels);
    status = moietyi_reserve_run(host, size_bytes, &own);
    moietyi_host_leave(host);
    return status;
}

void moiety_host_cancel(moiety_host *host)
{
    /* relaxed: a number; growths that see it later stop later. */
    if (host)
        atomic_fetch_add_explicit(&host->cancels, 1, memory_order_relaxed);
}
