/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * With the defaults, on the device's own memory. As nothing else is alive, only
 * work that is pending could excuse a failure, and there is none that lasts as
 * long as the pool waits.
 */
#include <inttypes.h>

#include "moiety/oom.h"
#include <stdio.h>
#include <stdlib.h>

#include "tests/oom/oracle/games.h"

#define MIB UINT64_C(1048576)
#define BLOCKS 100U
#define SAID_MOST 3U

static void must(moiety_status status)
{
    if (status == MOIETY_OK)
        return;
    (void)fprintf(stderr, "%s\n", moiety_last_error_message());
    exit(EXIT_DRIVER);
}

/* Judged by a history without blocks. */
static void note_failure(struct games *games, moiety_pool *pool,
                         uint64_t size_bytes)
{
    moiety_oom_report report = {.struct_size = sizeof(report)};
    must(moiety_pool_last_oom(pool, &report));
    struct history *history = history_create(1);
    kit_require(history != NULL, "history_create");
    const struct history_failure failure = {
        .needed_bytes = history_needed_bytes(size_bytes, report.needed_bytes),
        .stream = 0,
    };
    const struct history_rules rules = {
        .limit_bytes = report.limit_bytes,
    };
    enum history_verdict verdict =
        history_judge(history, &failure, &rules, NULL);
    history_destroy(history);
    atomic_fetch_add(&games->tally.failures, 1);
    uint64_t nth = atomic_fetch_add(&games->tally.verdicts[verdict], 1);
    if (verdict == HISTORY_FALSE && nth < SAID_MOST)
        printf("%" PRIu64 " bytes of a limit of %" PRIu64
               ", nothing else alive: %s\n",
               size_bytes, report.limit_bytes, moiety_last_error_message());
}

/* Until the pool fails. */
static void play_pool(struct games *games, CUstream stream, uint64_t *random)
{
    moiety_pool *pool;
    must(moiety_pool_create(NULL, &pool));
    atomic_fetch_add(&games->tally.games, 1);
    for (unsigned i = 0; i < BLOCKS; i++) {
        uint64_t size_bytes = 300 * MIB + random_next(random) % (3200 * MIB);
        moiety_devptr address;
        moiety_status status = moiety_alloc(pool, size_bytes, stream, &address);
        atomic_fetch_add(&games->tally.allocations, 1);
        if (status == MOIETY_E_NO_DEVICE_MEMORY) {
            note_failure(games, pool, size_bytes);
            break;
        }
        must(status);
        MUST(cu.cuMemsetD32Async(address, 1, 8, stream));
        must(moiety_free(pool, address, stream));
    }
    must(moiety_pool_destroy(pool, NULL));
}

void games_of_one(struct games *games)
{
    CUstream stream = games->device.streams[0];
    for (uint64_t i = 0; i < games->pools; i++) {
        uint64_t random = random_start(games->seed + i, 0);
        play_pool(games, stream, &random);
    }
}
