/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What goes on around the pool: streams that are held back, retired and
 * replaced, guards and captures, a source without memory, calls that are wrong,
 * and what the statistics say of it all.
 */
#include "tests/fuzz/pool_model_state.h"
#include "tests/support/tools/pools.h"

static bool has_capture(const struct model *model)
{
    return stage_capturing(&model->stage) < STAGE_STREAMS;
}

void step_hold(struct model *model)
{
    unsigned index = choose(model, STAGE_STREAMS);
    const struct stage_stream *stream = &model->stage.streams[index];
    if (stream->is_held || stream->is_retired || has_capture(model))
        return;
    if (!stage_hold(&model->stage, index))
        fail(model, "stream %u cannot be held", index);
}

static void let_go(struct model *model, unsigned index)
{
    if (!stage_release(&model->stage, index))
        fail(model, "stream %u cannot be released", index);
    ledger_clear(&model->ledger, stage_bit(index));
}

void step_release(struct model *model)
{
    unsigned index = choose(model, STAGE_STREAMS);
    if (model->stage.streams[index].is_held)
        let_go(model, index);
}

/* A stream that has taken another's place: no block knows it. */
static void replace(struct model *model, unsigned index)
{
    if (!stage_replace(&model->stage, index))
        fail(model, "stream %u cannot be replaced", index);
    ledger_forget_order(&model->ledger, index);
    for (uint32_t i = 0; i < model->live_count; i++) {
        struct live *live = &model->live[i];
        live->recorded &= (stage_mask)~stage_bit(index);
        if (live->used_on == index)
            live->used_on = NO_STREAM;
    }
}

void step_retire(struct model *model)
{
    unsigned index = choose(model, STAGE_CREATED);
    struct stage_stream *stream = &model->stage.streams[index];
    if (stream->is_capturing)
        return;
    if (!stream->is_retired) {
        expect(model, "retire",
               moiety_pool_retire_stream(model->pool, stream->handle),
               MOIETY_OK);
        stream->is_retired = true;
    } else if (!stage_pending(&model->stage, index)) {
        replace(model, index);
    }
}

static void end_guard(struct model *model)
{
    expect(model, "guard end", moiety_capture_guard_end(), MOIETY_OK);
    if (--model->guards == 0)
        ledger_clear(&model->ledger, LEDGER_GUARDED);
}

void step_guard(struct model *model)
{
    unsigned needed = has_capture(model) ? 1 : 0;
    if (model->guards < GUARDS_MAX && choose(model, 2)) {
        expect(model, "guard begin", moiety_capture_guard_begin(), MOIETY_OK);
        model->guards++;
    } else if (model->guards > needed) {
        end_guard(model);
    } else if (!model->guards) {
        expect(model, "guard end too many", moiety_capture_guard_end(),
               MOIETY_E_INVALID);
    }
}

static void end_capture(struct model *model)
{
    if (!stage_end_capture(&model->stage, stage_capturing(&model->stage)))
        fail(model, "the pool broke a capture");
    end_guard(model);
}

void step_capture(struct model *model)
{
    unsigned index = choose(model, STAGE_CREATED);
    const struct stage_stream *stream = &model->stage.streams[index];
    if (has_capture(model)) {
        end_capture(model);
        return;
    }
    if (stream->is_held || stream->is_retired || stream->waits_for)
        return;
    expect(model, "guard begin", moiety_capture_guard_begin(), MOIETY_OK);
    model->guards++;
    if (!stage_begin_capture(&model->stage, index))
        fail(model, "stream %u cannot capture", index);
}

void step_refuse(struct model *model)
{
    model->ledger.refuses = !model->ledger.refuses;
}

void step_trim(struct model *model)
{
    uint64_t held = model->ledger.held_bytes;
    uint64_t keep = (uint64_t)choose(model, 33) << 20;
    uint64_t bytes = 0;
    expect(model, "trim", moiety_pool_trim(model->pool, keep, &bytes),
           MOIETY_OK);
    if (bytes != held - model->ledger.held_bytes)
        fail(model, "a trim says %llu bytes, the source got %llu",
             (unsigned long long)bytes,
             (unsigned long long)(held - model->ledger.held_bytes));
    if (bytes && model->ledger.held_bytes < keep)
        fail(model, "a trim kept too little");
}

static void free_badly(struct model *model, const struct live *live)
{
    moiety_pool *pool = model->pool;
    const moiety_stream any = MOIETY_STREAM_ANY;
    size_t bytes;
    moiety_devptr inside = live->address + 1 + choose(model, 511);
    if (live->bytes > LEDGER_GRAIN_BYTES && choose(model, 2))
        inside = live->address + LEDGER_GRAIN_BYTES;
    expect(model, "free inside", moiety_free(pool, inside, any),
           MOIETY_E_INVALID);
    expect(model, "sized free inside",
           moiety_free_sized(pool, inside, live->asked_bytes, any),
           MOIETY_E_INVALID);
    expect(model, "wrong size",
           moiety_free_sized(pool, live->address, 2 * live->bytes, any),
           MOIETY_E_INVALID);
    expect(model, "size inside", moiety_usable_size(pool, inside, &bytes),
           MOIETY_E_INVALID);
    expect(model, "use inside", moiety_record_use(pool, inside, any),
           MOIETY_E_INVALID);
    expect(model, "use by nobody",
           moiety_record_use(pool, live->address, MOIETY_STREAM_DONE),
           MOIETY_E_INVALID);
}

static void free_foreign(struct model *model)
{
    moiety_pool *pool = model->pool;
    const moiety_devptr foreign = ledger_foreign_address();
    const moiety_stream any = MOIETY_STREAM_ANY;
    size_t bytes;
    expect(model, "free foreign", moiety_free(pool, foreign, any),
           MOIETY_E_FOREIGN);
    expect(model, "sized free foreign",
           moiety_free_sized(pool, foreign, 512, any), MOIETY_E_FOREIGN);
    expect(model, "size foreign", moiety_usable_size(pool, foreign, &bytes),
           MOIETY_E_FOREIGN);
    expect(model, "use foreign", moiety_record_use(pool, foreign, any),
           MOIETY_E_FOREIGN);
    expect(model, "free null", moiety_free(pool, 0, any), MOIETY_OK);
    expect(model, "retire legacy",
           moiety_pool_retire_stream(pool, MOIETY_STREAM_LEGACY),
           MOIETY_E_INVALID);
}

static void allocate_badly(struct model *model)
{
    moiety_pool *pool = model->pool;
    const moiety_stream any = MOIETY_STREAM_ANY;
    moiety_devptr address;
    expect(model, "no pool", moiety_alloc(NULL, 1, any, &address),
           MOIETY_E_INVALID);
    expect(model, "no out", moiety_alloc(pool, 1, any, NULL), MOIETY_E_INVALID);
    expect(model, "odd alignment",
           alloc_aligned(pool, 1, 3 + 2 * choose(model, 999), any, &address),
           MOIETY_E_INVALID);
    expect(model, "huge alignment",
           alloc_aligned(pool, 1, (size_t)4 << 20, any, &address),
           MOIETY_E_INVALID);
    expect(model, "too much",
           moiety_alloc(pool, model->options.limit_bytes + 1, any, &address),
           MOIETY_E_TOO_LARGE);
    expect(model, "all there is",
           moiety_alloc(pool, SIZE_MAX - choose(model, 4096), any, &address),
           MOIETY_E_TOO_LARGE);
}

void step_bad_call(struct model *model)
{
    uint32_t choice = choose(model, 3);
    if (choice == 0)
        allocate_badly(model);
    else if (choice == 1 || !model->live_count)
        free_foreign(model);
    else
        free_badly(model, &model->live[choose(model, model->live_count)]);
}

void settle_all(struct model *model)
{
    if (has_capture(model))
        end_capture(model);
    while (model->guards)
        end_guard(model);
    for (unsigned i = 0; i < STAGE_STREAMS; i++)
        if (model->stage.streams[i].is_held)
            let_go(model, i);
    if (!stage_settle())
        fail(model, "the driver does not settle");
}

static void same(struct model *model, const char *what, uint64_t said,
                 uint64_t known)
{
    if (said != known)
        fail(model, "%s is %llu, not %llu", what, (unsigned long long)said,
             (unsigned long long)known);
}

void check_stats(struct model *model)
{
    const struct ledger *ledger = &model->ledger;
    moiety_pool_stats stats = {.struct_size = sizeof(stats)};
    expect(model, "stats", moiety_pool_get_stats(model->pool, &stats),
           MOIETY_OK);
    same(model, "allocation.current", stats.allocation_current,
         model->live_count);
    same(model, "allocation.allocated", stats.allocation_allocated,
         model->allocated_count);
    same(model, "allocation.freed", stats.allocation_freed,
         model->allocated_count - model->live_count);
    same(model, "allocated_bytes.current", stats.allocated_bytes_current,
         model->live_bytes);
    same(model, "allocated_bytes.allocated", stats.allocated_bytes_allocated,
         model->allocated_bytes);
    same(model, "allocated_bytes.freed", stats.allocated_bytes_freed,
         model->allocated_bytes - model->live_bytes);
    same(model, "requested_bytes.allocated", stats.requested_bytes_allocated,
         model->asked_bytes);
    same(model, "reserved_bytes.current", stats.reserved_bytes_current,
         ledger->held_bytes);
    same(model, "reserved_bytes.peak", stats.reserved_bytes_peak,
         ledger->peak_bytes);
    same(model, "segment.current", stats.segment_current,
         ledger->segment_count);
    same(model, "segment.allocated", stats.segment_allocated,
         ledger->reserve_count);
    same(model, "segment.freed", stats.segment_freed, ledger->release_count);
    same(model, "the sum of all bytes",
         stats.allocated_bytes_current + stats.cached_bytes +
             stats.retiring_bytes + stats.free_bytes,
         ledger->held_bytes);
    if (ledger->held_bytes > model->options.limit_bytes)
        fail(model, "more is reserved than the limit");
}
