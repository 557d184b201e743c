/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Allocations: what comes must be nobody's, ordered for its stream, and not
 * much larger than asked for; what does not come must be a necessity.
 */
#include "tests/fuzz/pool_model_state.h"
#include "tests/support/tools/pools.h"

#define MIB (UINT64_C(1) << 20)
#define RUN_TAIL_BYTES (UINT64_C(32) << 10)
#define PAGE_BYTES (2 * MIB)
#define ALIGNMENT_BYTES 512U

/* One allocation: what is asked for. */
struct request {
    size_t bytes;
    size_t alignment;
    struct named stream;
    uint64_t waits; /* of streams, before the call */
};

static size_t choose_size(struct model *model)
{
    switch (choose(model, 8)) {
    case 0:
        return choose(model, 2) ? 0 : 1 + choose(model, 512);
    case 1:
    case 2:
        return 1 + choose(model, 16U << 10);
    case 3:
    case 4: /* one class over and over, so that its caches are full */
        return (size_t)4096 << choose(model, 4);
    case 5:
        return 1 + choose(model, 1U << 20);
    case 6:
        return (1U << 20) - 2 + choose(model, 5);
    default:
        return 1 + choose(model, 8U << 20);
    }
}

static struct request choose_request(struct model *model)
{
    struct request request = {.bytes = choose_size(model),
                              .alignment = 1,
                              .stream = choose_any_stream(model),
                              .waits = stage_stream_waits()};
    return request;
}

/* The stream whose pending work the block may come with: not that of one which
 * captures, since its graph may run on another. */
static unsigned order_of(const struct model *model, struct named stream)
{
    return stage_capturing(&model->stage) == stream.index ? NO_STREAM
                                                          : stream.index;
}

/* Whether the pool has put the stream after others in this call, for whatever
 * it found there. */
static bool has_waits(const struct model *model, const struct request *request)
{
    return order_of(model, request->stream) != NO_STREAM &&
           (model->options.flags & MOIETY_POOL_REUSE_DEPENDENCIES) &&
           stage_stream_waits() != request->waits;
}

static bool is_behind(const struct model *model, unsigned index)
{
    moiety_event tail = stage_record(&model->stage, index);
    bool is_pending = tail && !stage_is_over(tail);
    stage_forget(tail);
    return is_pending;
}

static void check_order(struct model *model, const struct request *request,
                        uint64_t address, uint64_t bytes)
{
    unsigned index = order_of(model, request->stream);
    stage_mask pending =
        ledger_pending_for(&model->ledger, address, bytes, index);
    if (!pending)
        return;
    if (!(pending & LEDGER_GUARDED) && has_waits(model, request) &&
        is_behind(model, index))
        model->stage.streams[index].waits_for |= pending;
    else
        fail(model, "0x%llx for stream %u may still be in use by 0x%x",
             (unsigned long long)address, request->stream.index, pending);
}

static void check_size(struct model *model, const struct request *request,
                       uint64_t bytes)
{
    uint64_t most = request->bytes + request->bytes / 8;
    most += request->bytes > MIB ? RUN_TAIL_BYTES : LEDGER_GRAIN_BYTES;
    if (bytes < request->bytes || bytes > most)
        fail(model, "%llu bytes for %zu", (unsigned long long)bytes,
             request->bytes);
}

static void hold(struct model *model, const struct request *request,
                 uint64_t address)
{
    size_t bytes = 0;
    size_t alignment = ALIGNMENT_BYTES;
    if (request->bytes == 0) {
        if (address)
            fail(model, "no bytes, but an address");
        return;
    }
    if (alignment < request->alignment)
        alignment = request->alignment;
    if (address == 0 || address % alignment)
        fail(model, "0x%llx is not aligned to %zu", (unsigned long long)address,
             alignment);
    expect(model, "usable size",
           moiety_usable_size(model->pool, address, &bytes), MOIETY_OK);
    check_size(model, request, bytes);
    check_order(model, request, address, bytes);
    ledger_hold(&model->ledger, address, bytes);
    unsigned used_on = request->stream.index;
    if (used_on == NO_STREAM)
        used_on = choose_stream(model).index;
    model->live[model->live_count++] =
        (struct live){.address = address,
                      .bytes = bytes,
                      .asked_bytes = request->bytes,
                      .used_on = used_on};
    model->live_bytes += bytes;
    model->allocated_count++;
    model->allocated_bytes += bytes;
    model->asked_bytes += request->bytes;
}

/* Whether there is a place that no rule keeps the pool from using. */
static bool has_place(const struct model *model, const struct request *request)
{
    uint32_t pages =
        request->bytes > MIB
            ? (uint32_t)((request->bytes + PAGE_BYTES - 1) / PAGE_BYTES)
            : 1;
    uint64_t wanted = pages * PAGE_BYTES;
    const struct ledger *ledger = &model->ledger;
    bool may_grow = !ledger->refuses &&
                    model->options.limit_bytes - ledger->held_bytes >= wanted &&
                    ledger_has_room(ledger, wanted);
    return may_grow || ledger_longest_free_run(ledger) >= pages;
}

/* An allocation was refused for want of memory. While work is held back, or
 * what ANY freed waits for a guard, that may be; otherwise only what is in use
 * may be in the way. */
static void check_refusal(struct model *model, const struct request *request)
{
    if (stage_all_pending(&model->stage) || model->guards)
        return;
    if (!stage_settle())
        fail(model, "the driver does not settle");
    moiety_devptr address;
    moiety_status status =
        alloc_aligned(model->pool, request->bytes, request->alignment,
                      request->stream.handle, &address);
    if (status == MOIETY_OK)
        hold(model, request, address);
    else if (status != MOIETY_E_NO_DEVICE_MEMORY || has_place(model, request))
        fail(model, "%zu bytes aligned to %zu are refused (%s): %s",
             request->bytes, request->alignment, moiety_status_name(status),
             moiety_last_error_message());
}

/* A stream captures, and there are no scopes here. */
static bool is_captured(const struct model *model,
                        const struct request *request)
{
    return request->stream.index < STAGE_STREAMS &&
           stage_capturing(&model->stage) == request->stream.index;
}

/* `is_try`: WOULD_BLOCK is as good as NO_DEVICE_MEMORY. */
static void judge(struct model *model, const struct request *request,
                  moiety_status status, const moiety_devptr *addresses,
                  uint32_t count, bool is_try)
{
    if (status == MOIETY_OK) {
        if (count && request->bytes && is_captured(model, request))
            fail(model, "a block for a stream that captures");
        for (uint32_t i = 0; i < count; i++)
            hold(model, request, addresses[i]);
    } else if (request->bytes > model->options.limit_bytes) {
        expect(model, "too much", status, MOIETY_E_TOO_LARGE);
    } else if (is_captured(model, request)) {
        expect(model, "alloc in a capture", status, MOIETY_E_CAPTURING);
    } else if (status == MOIETY_E_NO_DEVICE_MEMORY) {
        if (count == 1)
            check_refusal(model, request);
    } else if (!is_try || status != MOIETY_E_WOULD_BLOCK) {
        expect(model, "alloc", status, MOIETY_OK);
    }
    if (has_waits(model, request))
        ledger_put_after(&model->ledger, request->stream.index,
                         stage_all_pending(&model->stage));
}

void step_alloc(struct model *model)
{
    moiety_devptr address = 1;
    if (model->live_count == LIVE_MAX)
        return;
    struct request request = choose_request(model);
    judge(model, &request,
          moiety_alloc(model->pool, request.bytes, request.stream.handle,
                       &address),
          &address, 1, false);
}

void step_alloc_aligned(struct model *model)
{
    moiety_devptr address = 1;
    if (model->live_count == LIVE_MAX)
        return;
    struct request request = choose_request(model);
    request.alignment = (size_t)1 << choose(model, 22);
    judge(model, &request,
          alloc_aligned(model->pool, request.bytes, request.alignment,
                        request.stream.handle, &address),
          &address, 1, false);
}

void step_try_alloc(struct model *model)
{
    moiety_devptr address = 1;
    if (model->live_count == LIVE_MAX)
        return;
    struct request request = choose_request(model);
    judge(model, &request,
          alloc_no_wait(model->pool, request.bytes, request.stream.handle,
                        &address),
          &address, 1, true);
}

/* A batch that failed half-way has counted what it took and gave back. */
static void accept_counts(struct model *model)
{
    moiety_pool_stats stats = {.struct_size = sizeof(stats)};
    expect(model, "stats", moiety_pool_get_stats(model->pool, &stats),
           MOIETY_OK);
    model->allocated_count = stats.allocation_allocated;
    model->allocated_bytes = stats.allocated_bytes_allocated;
    model->asked_bytes = stats.requested_bytes_allocated;
}

void step_alloc_batch(struct model *model)
{
    moiety_devptr addresses[BATCH_MAX];
    uint32_t count = choose(model, BATCH_MAX + 1);
    if (model->live_count + count > LIVE_MAX)
        return;
    struct request request = choose_request(model);
    request.bytes %= 64U << 10;
    moiety_status status = moiety_alloc_batch(
        model->pool, request.bytes, request.stream.handle, count, addresses);
    judge(model, &request, status, addresses, count, false);
    if (status != MOIETY_OK)
        accept_counts(model);
}
