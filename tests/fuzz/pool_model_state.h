/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the model share.
 */
#ifndef MOIETY_TESTS_FUZZ_POOL_MODEL_STATE_H_
#define MOIETY_TESTS_FUZZ_POOL_MODEL_STATE_H_

#include "moiety/pool.h"
#include "moiety/stats.h"
#include "moiety/stream.h"
#include "tests/fuzz/ledger.h"
#include "tests/fuzz/pool_model.h"
#include "tests/support/tools/random.h"
#include "tests/support/tools/stage.h"

#define LIVE_MAX 1024U
#define BATCH_MAX 80U
#define GUARDS_MAX 3U
/* In place of a stream's index: no stream. */
#define NO_STREAM STAGE_STREAMS

/* A block that the pool has handed out. */
struct live {
    uint64_t address;
    uint64_t bytes; /* usable */
    uint64_t asked_bytes;
    unsigned used_on;    /* the stream whose work uses it, or NO_STREAM */
    stage_mask recorded; /* moiety_record_use() was told these */
    bool is_recorded_any;
    bool is_recorded; /* it was called at all */
};

struct model {
    struct choices choices;
    uint32_t steps; /* at the most */
    moiety_pool *pool;
    moiety_pool_options options;
    struct ledger ledger;
    struct stage stage;
    struct live live[LIVE_MAX];
    uint32_t live_count;
    unsigned guards;
    /* What stats must say. */
    uint64_t live_bytes;
    uint64_t allocated_count;
    uint64_t allocated_bytes;
    uint64_t asked_bytes;
    uint32_t step;
    const char *doing;
    char *message;
};

/* A stream as an argument, and what it means. */
struct named {
    moiety_stream handle;
    unsigned index; /* or NO_STREAM: ANY or DONE */
};

/* pool_model.c */
uint32_t choose(struct model *model, uint32_t bound);
/* Notes the first contradiction of a run. */
__attribute__((format(printf, 2, 3))) void fail(struct model *model,
                                                const char *format, ...);
/* The status must be this one. */
void expect(struct model *model, const char *call, moiety_status status,
            moiety_status expected);
/* One that may be named; legacy also as the null stream. */
struct named choose_stream(struct model *model);
/* The same, or now and then ANY, DONE. */
struct named choose_any_stream(struct model *model);

/* pool_model_take.c */
void step_alloc(struct model *model);
void step_alloc_aligned(struct model *model);
void step_try_alloc(struct model *model);
void step_alloc_batch(struct model *model);

/* pool_model_give.c */
void step_free(struct model *model);
void step_free_sized(struct model *model);
void step_free_batch(struct model *model);
void step_free_after(struct model *model);
void step_free_twice(struct model *model);
void step_record_use(struct model *model);
void step_free_most(struct model *model);
void step_resize(struct model *model);
/* All that is live, on ANY. */
void free_all(struct model *model);

/* pool_model_world.c */
void step_hold(struct model *model);
void step_release(struct model *model);
void step_retire(struct model *model);
void step_guard(struct model *model);
void step_capture(struct model *model);
void step_refuse(struct model *model);
void step_trim(struct model *model);
void step_bad_call(struct model *model);
/* Nothing is held, guarded or captured any more, and all work is over. */
void settle_all(struct model *model);
void check_stats(struct model *model);

#endif
