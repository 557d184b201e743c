/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A stream's launch queue takes a bounded number of operations; records of
 * events take no place in it, but wait for one as the others do. A call that
 * finds the queue full is a blocked launcher: it waits until an operation of
 * the stream is over, and launchers of one stream go on in their order. Some
 * calls of other threads wait for blocked launchers: for those of one stream,
 * or for those of a whole context, as the real driver was seen to do. Such a
 * call waits only for launchers that were blocked before it began, so one that
 * blocks again and again cannot keep it for ever.
 */
#include "pool/standin/base/process.h"
#include "pool/standin/settings/settings.h"
#include "pool/standin/streams/engine_internal.h"

/* A thread in engine_await_room(), on its stack. The names outlive what they
 * name: the stream may be destroyed and the context reset meanwhile. */
struct launcher {
    struct launcher *next;
    const struct CUctx_st *context;
    uint64_t stream_id;
    uint64_t ticket; /* rises from one to the next */
};

static struct launcher *launchers; /* newest first */
static uint64_t last_ticket;
static unsigned blocked_count; /* launchers, and calls that wait for them */

bool queue_is_full(const struct CUstream_st *stream)
{
    return stream->queued_count >= (unsigned)settings_get()->queue_limit;
}

static bool is_oldest(const struct launcher *self)
{
    for (const struct launcher *l = self->next; l; l = l->next)
        if (l->stream_id == self->stream_id)
            return false;
    return true;
}

static void queue_leave(const struct launcher *self)
{
    struct launcher **link = &launchers;
    while (*link != self)
        link = &(*link)->next;
    *link = self->next;
    standin_notify();
}

void engine_await_room(CUstream handle, bool is_per_thread)
{
    CUresult why;
    const struct CUstream_st *stream =
        stream_named(handle, is_per_thread, &why);
    if (!stream || !queue_is_full(stream))
        return;
    struct launcher self = {.next = launchers,
                            .context = stream->context,
                            .stream_id = stream->id,
                            .ticket = ++last_ticket};
    launchers = &self;
    blocked_count++;
    /* After each wait the stream may be gone: look again. */
    while (stream && !stream->capture &&
           (queue_is_full(stream) || !is_oldest(&self))) {
        op_wait_for_any();
        stream = stream_named(handle, is_per_thread, &why);
    }
    blocked_count--;
    queue_leave(&self);
}

/* Waits for the launchers blocked in `context`; on one stream of it, unless
 * `stream_id` is 0. Says whether there was anything to wait for. */
static bool await_launchers(const struct CUctx_st *context, uint64_t stream_id)
{
    bool has_waited = false;
    uint64_t ticket = last_ticket;
    const struct launcher *launcher = launchers;
    while (launcher) {
        if (launcher->ticket > ticket || launcher->context != context ||
            (stream_id && launcher->stream_id != stream_id)) {
            launcher = launcher->next;
            continue;
        }
        blocked_count += !has_waited;
        has_waited = true;
        standin_wait();
        launcher = launchers;
    }
    blocked_count -= has_waited;
    return has_waited;
}

bool queue_await_launchers(const struct CUstream_st *stream)
{
    return await_launchers(stream->context, stream->id);
}

unsigned queue_blocked(void)
{
    return blocked_count;
}

struct CUctx_st *engine_await_launchers(CUresult *why)
{
    struct CUctx_st *context = context_current(why);
    if (!context || !await_launchers(context, 0))
        return context;
    return context_current(why);
}
