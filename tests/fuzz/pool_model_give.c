/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Frees and resizes, as a correct program makes them: the stream that it names
 * comes after the block's last use, or the use was recorded.
 */
#include "moiety/pool.h"
#include "tests/fuzz/pool_model_state.h"

static struct live *choose_live(struct model *model)
{
    return &model->live[choose(model, model->live_count)];
}

static void record_use(struct model *model, struct live *live,
                       struct named stream)
{
    expect(model, "record use",
           moiety_record_use(model->pool, live->address, stream.handle),
           MOIETY_OK);
    live->is_recorded = true;
    if (stream.index == NO_STREAM)
        live->is_recorded_any = true;
    else
        live->recorded |= stage_bit(stream.index);
}

/* What ANY waits for. */
static stage_mask any_pending(const struct model *model)
{
    return (stage_mask)(stage_all_pending(&model->stage) |
                        (model->guards ? LEDGER_GUARDED : 0));
}

/* What the uses that were recorded leave pending. */
static stage_mask pending_beside(const struct model *model,
                                 const struct live *live)
{
    stage_mask pending = live->is_recorded_any ? any_pending(model) : 0;
    for (unsigned i = 0; i < STAGE_STREAMS; i++)
        if (live->recorded & stage_bit(i))
            pending |= stage_pending(&model->stage, i);
    return pending;
}

/* What a free on `stream` leaves pending by itself. */
static stage_mask pending_after(const struct model *model, struct named stream)
{
    if (stream.index < STAGE_STREAMS)
        return stage_pending(&model->stage, stream.index);
    return stream.handle == MOIETY_STREAM_ANY ? any_pending(model) : 0;
}

static void forget(struct model *model, struct live *live, struct named stream)
{
    struct ledger_grain left = {.owner = (uint8_t)stream.index,
                                .beside = pending_beside(model, live)};
    left.pending = left.beside | pending_after(model, stream);
    ledger_free(&model->ledger, live->address, live->bytes, &left);
    model->live_bytes -= live->bytes;
    *live = model->live[--model->live_count];
}

/* Work of the block's that is still to come, and that no record tells of. */
static stage_mask unrecorded_use(const struct model *model,
                                 const struct live *live)
{
    return live->used_on == NO_STREAM ||
                   (live->recorded & stage_bit(live->used_on)) ||
                   live->is_recorded_any
               ? 0
               : stage_pending(&model->stage, live->used_on);
}

static bool may_be_named(const struct model *model, unsigned index)
{
    return index < STAGE_STREAMS && !model->stage.streams[index].is_retired &&
           !model->stage.streams[index].is_capturing;
}

/* A stream that this block may be freed on, after what has to be said before.
 */
static struct named choose_end(struct model *model, struct live *live)
{
    static const struct named any = {MOIETY_STREAM_ANY, NO_STREAM};
    struct named stream = choose_any_stream(model);
    stage_mask use = unrecorded_use(model, live);
    if (stream.handle == MOIETY_STREAM_ANY)
        return stream;
    if (stream.index == NO_STREAM) /* DONE */
        return pending_beside(model, live) || use ? any : stream;
    if (!use || stream.index == live->used_on)
        return stream;
    if (!may_be_named(model, live->used_on))
        return any;
    struct named used_on = {model->stage.streams[live->used_on].handle,
                            live->used_on};
    if (choose(model, 2))
        return used_on;
    record_use(model, live, used_on);
    return stream;
}

/* A recorded stream that captures cannot be waited for at the moment. */
static bool is_in_capture(const struct model *model, const struct live *live)
{
    unsigned capturing = stage_capturing(&model->stage);
    return capturing < STAGE_STREAMS &&
           (live->is_recorded_any || (live->recorded & stage_bit(capturing)));
}

/* Whether the pool was right to refuse: the stream captures, or it is the
 * legacy stream, which cannot be asked while another captures; or the block
 * needs an event of all streams at once and a guard forbids that. */
static bool may_refuse(const struct model *model, const struct live *live,
                       struct named stream)
{
    unsigned capturing = stage_capturing(&model->stage);
    bool is_any = stream.handle == MOIETY_STREAM_ANY;
    if (model->guards && live->is_recorded && (is_any || live->is_recorded_any))
        return true;
    return capturing < STAGE_STREAMS &&
           (stream.index == capturing || stream.index == STAGE_LEGACY);
}

static void judge(struct model *model, struct live *live, struct named stream,
                  moiety_status status)
{
    if (status == MOIETY_E_CAPTURING && may_refuse(model, live, stream))
        return;
    if (stage_capturing(&model->stage) == stream.index &&
        stream.index < STAGE_STREAMS)
        expect(model, "free on a capturing stream", status, MOIETY_E_CAPTURING);
    expect(model, "free", status, MOIETY_OK);
    forget(model, live, stream);
}

static void free_one(struct model *model, struct live *live, bool is_sized)
{
    if (is_in_capture(model, live))
        return;
    struct named stream = choose_end(model, live);
    judge(model, live, stream,
          is_sized ? moiety_free_sized(model->pool, live->address,
                                       live->asked_bytes, stream.handle)
                   : moiety_free(model->pool, live->address, stream.handle));
}

void step_free(struct model *model)
{
    if (model->live_count)
        free_one(model, choose_live(model), false);
}

void step_free_sized(struct model *model)
{
    if (model->live_count)
        free_one(model, choose_live(model), true);
}

void step_free_most(struct model *model)
{
    uint32_t left = choose(model, 8);
    for (uint32_t i = model->live_count; i > left; i--)
        step_free(model);
}

/* On ANY, which is right for all; with a null address among them, and perhaps
 * one that is not the pool's, at which it stops. */
void step_free_batch(struct model *model)
{
    moiety_devptr addresses[BATCH_MAX];
    const struct named any = {MOIETY_STREAM_ANY, NO_STREAM};
    uint32_t room =
        model->live_count < BATCH_MAX ? model->live_count : BATCH_MAX - 1;
    uint32_t count = choose(model, room + 1);
    uint32_t bad = choose(model, 4) ? count : choose(model, count + 1);
    size_t freed = SIZE_MAX;
    if (model->guards) /* some may be refused, as above */
        return;
    for (uint32_t i = 0; i < count; i++)
        addresses[i] = model->live[model->live_count - 1 - i].address;
    if (bad < count)
        addresses[bad] = ledger_foreign_address();
    expect(model, "batch free",
           moiety_free_batch(model->pool, addresses, count, any.handle, &freed),
           bad < count ? MOIETY_E_FOREIGN : MOIETY_OK);
    if (freed != bad)
        fail(model, "%zu of %u are freed, not %u", freed, count, bad);
    for (uint32_t i = 0; i < bad; i++) {
        struct live *live = &model->live[model->live_count - 1];
        forget(model, live, any);
    }
}

void step_free_after(struct model *model)
{
    if (!model->live_count)
        return;
    struct live *live = choose_live(model);
    unsigned index =
        live->used_on == NO_STREAM ? STAGE_PER_THREAD : live->used_on;
    if (!may_be_named(model, index) || is_in_capture(model, live))
        return;
    const struct named stream = {model->stage.streams[index].handle, index};
    moiety_event event = stage_record(&model->stage, index);
    if (!event) {
        fail(model, "no event");
        return;
    }
    moiety_status status =
        moiety_free_on_event(model->pool, live->address, event);
    stage_forget(event);
    judge(model, live, stream, status);
}

static uint64_t cached_bytes(struct model *model)
{
    moiety_pool_stats stats = {.struct_size = sizeof(stats)};
    expect(model, "stats", moiety_pool_get_stats(model->pool, &stats),
           MOIETY_OK);
    return stats.cached_bytes;
}

/* At once again, which must be noticed where the block is in a magazine. */
void step_free_twice(struct model *model)
{
    if (!model->live_count)
        return;
    struct live *live = choose_live(model);
    const struct named any = {MOIETY_STREAM_ANY, NO_STREAM};
    if (live->is_recorded)
        return;
    const uint64_t address = live->address;
    const uint64_t expected = cached_bytes(model) + live->bytes;
    judge(model, live, any, moiety_free(model->pool, address, any.handle));
    if (cached_bytes(model) == expected)
        expect(model, "second free",
               moiety_free(model->pool, address, any.handle),
               MOIETY_E_DOUBLE_FREE);
}

void step_record_use(struct model *model)
{
    struct named stream = choose_any_stream(model);
    if (!model->live_count || stream.handle == MOIETY_STREAM_DONE ||
        stage_capturing(&model->stage) == stream.index)
        return;
    record_use(model, choose_live(model), stream);
}

void free_all(struct model *model)
{
    const struct named any = {MOIETY_STREAM_ANY, NO_STREAM};
    while (model->live_count && !model->message[0]) {
        struct live *live = &model->live[model->live_count - 1];
        judge(model, live, any,
              moiety_free(model->pool, live->address, any.handle));
    }
}

/* The stream whose work uses the block; ANY, where that cannot be named. */
static struct named user_of(const struct model *model, const struct live *live)
{
    static const struct named any = {MOIETY_STREAM_ANY, NO_STREAM};
    if (live->used_on >= STAGE_STREAMS ||
        model->stage.streams[live->used_on].is_retired)
        return any;
    return (struct named){model->stage.streams[live->used_on].handle,
                          live->used_on};
}

/* The block has another length: nothing that is pending on what it got may be
 * without order, and what it lost is as after a free. */
static void accept_length(struct model *model, struct live *live,
                          struct named stream, size_t asked_bytes)
{
    size_t bytes = 0;
    struct ledger_grain left = {.owner = (uint8_t)stream.index,
                                .beside = pending_beside(model, live)};
    left.pending = left.beside | pending_after(model, stream);
    expect(model, "usable size",
           moiety_usable_size(model->pool, live->address, &bytes), MOIETY_OK);
    if (bytes < asked_bytes)
        fail(model, "%zu bytes for %zu after a resize", bytes, asked_bytes);
    if (bytes > live->bytes) {
        if (ledger_pending_for(&model->ledger, live->address + live->bytes,
                               bytes - live->bytes, stream.index))
            fail(model, "work is pending on what a block grew into");
        ledger_hold(&model->ledger, live->address + live->bytes,
                    bytes - live->bytes);
        model->allocated_bytes += bytes - live->bytes;
        model->asked_bytes += asked_bytes - live->bytes;
    } else if (bytes < live->bytes) {
        ledger_free(&model->ledger, live->address + bytes, live->bytes - bytes,
                    &left);
    }
    model->live_bytes += bytes - live->bytes;
    live->bytes = bytes;
    live->asked_bytes = asked_bytes;
}

void step_resize(struct model *model)
{
    if (!model->live_count)
        return;
    struct live *live = choose_live(model);
    struct named stream = user_of(model, live);
    size_t bytes = 1 + (size_t)(live->bytes * (1 + choose(model, 64)) / 32);
    moiety_status status =
        moiety_resize(model->pool, live->address, bytes, stream.handle);
    if (status == MOIETY_OK)
        accept_length(model, live, stream, bytes);
    else if (stream.index < STAGE_STREAMS &&
             stage_capturing(&model->stage) == stream.index)
        expect(model, "resize in a capture", status, MOIETY_E_CAPTURING);
    else if (bytes > model->options.limit_bytes)
        expect(model, "too much", status, MOIETY_E_TOO_LARGE);
    else if (bytes > live->bytes)
        expect(model, "resize without room", status, MOIETY_E_NO_ROOM);
    else
        expect(model, "resize", status, MOIETY_OK);
}
