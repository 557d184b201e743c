/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the engine keeps per thread of the program.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "pool/standin/entries/entry.h"
#include "pool/standin/streams/engine_internal.h"

static _Thread_local struct thread_state state;
/* Edge: none; relaxed: only uniqueness matters. */
static _Atomic uint64_t last_serial;

static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

struct thread_state *thread_state(void)
{
    if (state.serial == 0)
        state.serial =
            atomic_fetch_add_explicit(&last_serial, 1, memory_order_relaxed) +
            1;
    return &state;
}

bool engine_is_in_callback(void)
{
    return state.is_in_callback;
}

static void stream_thread_leave_engine(struct engine *engine, uint64_t serial)
{
    struct CUstream_st **link = &engine->per_thread;
    for (; *link; link = &(*link)->next_per_thread) {
        struct CUstream_st *stream = *link;
        if (stream->thread_serial != serial)
            continue;
        *link = stream->next_per_thread;
        stream_end(stream);
        return;
    }
}

static void at_thread_exit(void *serial)
{
    if (standin_is_dead())
        return;
    standin_lock();
    for (struct CUctx_st *c = context_first(); c; c = c->next)
        if (c->engine)
            stream_thread_leave_engine(c->engine, (uint64_t)(uintptr_t)serial);
    standin_unlock();
}

static void make_key(void)
{
    pthread_key_create(&exit_key, at_thread_exit);
}

void thread_watch_exit(void)
{
    pthread_once(&exit_once, make_key);
    pthread_setspecific(exit_key, (void *)(uintptr_t)thread_state()->serial);
}
