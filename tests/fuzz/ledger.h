/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The reference: what the pool's memory is, byte by byte (in grains of 512),
 * and whose work may still use it. It is the pool's source as well, so that it
 * sees which memory the pool gives back.
 *
 * The rule by which memory may be handed out is the table of docs/streams.md in
 * one sentence: everything that was pending when the memory was freed is over,
 * or comes before the tail of the stream that gets it.
 */
#ifndef MOIETY_TESTS_FUZZ_LEDGER_H_
#define MOIETY_TESTS_FUZZ_LEDGER_H_

#include <stdbool.h>
#include <stdint.h>

#include "moiety/source.h"
#include "tests/support/tools/stage.h"

#define LEDGER_BYTES (UINT64_C(128) << 20)
#define LEDGER_GRAIN_BYTES 512U
#define LEDGER_GRAINS ((uint32_t)(LEDGER_BYTES / LEDGER_GRAIN_BYTES))
#define LEDGER_PAGE_GRAINS 4096U
#define LEDGER_PAGES (LEDGER_GRAINS / LEDGER_PAGE_GRAINS)
/* What ANY was told of while a capture guard was held. */
#define LEDGER_GUARDED ((stage_mask)(1U << 7))

/* What the free of a grain left behind. */
struct ledger_grain {
    uint8_t state; /* enum ledger_state */
    /* The stream that it was freed on, or STAGE_STREAMS; for which all but
     * `beside` is in order, also what the stream itself waits for. */
    uint8_t owner;
    stage_mask pending;
    stage_mask beside;
    uint32_t freed_at; /* the ledger's time of that */
};

struct ledger {
    struct ledger_grain *grains;
    uint64_t *segments;  /* bytes reserved from this page on, or 0 */
    uint32_t now;        /* frees so far */
    uint64_t held_bytes; /* by the pool */
    uint64_t peak_bytes;
    uint32_t segment_count;
    uint64_t reserve_count;
    uint64_t release_count;
    bool refuses;   /* the source has nothing left */
    bool is_ending; /* segments may go with blocks in them */
    /* Up to when a stream's tail comes after another's. */
    uint32_t after[STAGE_STREAMS][STAGE_STREAMS];
    /* The first contradiction; constant text. */
    const char *failure;
    uint64_t failure_address;
};

bool ledger_init(struct ledger *ledger);
void ledger_fini(struct ledger *ledger);
moiety_source ledger_source(struct ledger *ledger);

/* Memory that is never the pool's. */
moiety_devptr ledger_foreign_address(void);

/* A block that the pool has handed out: `order` says which streams' pending
 * work it may have, by index, or STAGE_STREAMS for none at all. Returns what is
 * pending on it in contradiction to that. */
stage_mask ledger_pending_for(const struct ledger *ledger, uint64_t address,
                              uint64_t bytes, unsigned stream);
void ledger_hold(struct ledger *ledger, uint64_t address, uint64_t bytes);
/* Freed on stream `owner`, or on none; `pending` includes what others that use
 * it still have to do, `beside`. */
void ledger_free(struct ledger *ledger, uint64_t address, uint64_t bytes,
                 const struct ledger_grain *left);

/* What these stand for is over. */
void ledger_clear(struct ledger *ledger, stage_mask over);
/* The tail of `stream` comes after what `others` have been given until now. */
void ledger_put_after(struct ledger *ledger, unsigned stream,
                      stage_mask others);

/* Nothing is known of `stream`'s tail any more: it is a new one. */
void ledger_forget_order(struct ledger *ledger, unsigned stream);

/* Whether a segment of so many bytes could be reserved. */
bool ledger_has_room(const struct ledger *ledger, uint64_t bytes);
/* The longest run of 2 MiB units in a segment that nobody has, be it
 * by pending work. */
uint32_t ledger_longest_free_run(const struct ledger *ledger);

#endif
