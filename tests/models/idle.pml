/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Taking the caches of a thread that is outside (pool/cache/reclaim.c, thread.h).
 * The owner marks itself inside and then looks whether its caches were asked
 * for; if so it takes that back by a swap, and finds out whether they are gone.
 * The taker asks, passes a barrier in all threads, looks whether the owner is
 * inside, and takes them by a swap that fails if the owner was faster. Takers
 * come one after the other: they hold a lock.
 *
 * While a source of the caller's works, the owner is outside in the middle of a
 * call; it serves, and comes back inside before it serves no more.
 *
 * The owner's stores wait in a buffer, in order, while its loads go to memory:
 * that is what the barrier is for. Its swaps empty the buffer. With FENCED there
 * is no barrier for others, and the owner has a fence of its own.
 *
 * The claim: nobody uses a member that another has taken.
 *
 * Weakenings, each of which must be caught:
 *   NO_BARRIER      the taker passes none; with FENCED: the owner has no fence
 *   LOOK_FIRST      the taker looks before it asks
 *   NO_LOOK         the owner does not look whether it was asked
 *   TAKE_ANYWAY     the taker takes without a swap
 *   NOT_SERVING     the taker does not look whether the owner serves
 *   SERVING_FIRST   it looks at that first
 *   BACK_BLINDLY    the owner does not look when it comes back from serving
 *   KEEP_ROUTES     the owner goes on with the member that is gone
 */
#ifndef CALLS
#define CALLS 3
#endif
#ifndef PASSES
#define PASSES 2
#endif
#define MEMBERS (PASSES + 2)

mtype = {ENTER, LEAVE, SERVE, SERVED};

/* Memory. */
bool is_inside;
bool is_serving;
bool is_asked;
bool is_taken;
/* The owner's stores that are not in memory yet. */
chan buffer = [8] of {mtype};
/* The member that the registry has for the owner, from 1; 0: none. */
byte registered = 1;
bool is_gone[MEMBERS + 1];
/* Ghost: which member the owner is using. */
byte in_use;

inline store_one()
{
    if
    :: buffer?ENTER -> is_inside = true
    :: buffer?LEAVE -> is_inside = false
    :: buffer?SERVE -> is_serving = true
    :: buffer?SERVED -> is_serving = false
    fi
}

inline drain()
{
    do
    :: nempty(buffer) -> store_one()
    :: empty(buffer) -> break
    od
}

/* The buffer empties by itself, at any time. */
active proctype memory()
{
end:
    do
    :: atomic {
           nempty(buffer) -> store_one()
       }
    od
}

/* A swap: what was asked is not any more, and what is gone is found out. */
inline settle()
{
    atomic {
        drain();
        is_asked = false;
        if
        :: is_taken ->
            is_taken = false;
#ifndef KEEP_ROUTES
            mine++;
            registered = mine
#endif
        :: !is_taken
        fi
    }
}

inline look()
{
#ifdef NO_LOOK
    skip
#else
    if
    :: is_asked || is_taken -> settle()
    :: !is_asked && !is_taken
    fi
#endif
}

inline go_inside()
{
    buffer!ENTER;
#ifdef FENCED
#ifndef NO_BARRIER
    atomic {
        drain()
    };
#endif
#endif
    look()
}

active proctype owner()
{
    byte mine = 1;
    byte calls = CALLS;
    do
    :: calls == 0 -> break
    :: calls ->
        calls--;
        go_inside();
        atomic {
            in_use = mine;
            assert(!is_gone[mine])
        };
        if
        :: true ->
            /* A source of the caller's is asked. */
            buffer!SERVE;
            buffer!LEAVE;
#ifdef BACK_BLINDLY
            buffer!ENTER;
#else
            go_inside();
#endif
            buffer!SERVED;
            assert(!is_gone[in_use])
        :: true
        fi;
        atomic {
            assert(!is_gone[in_use]);
            in_use = 0
        };
        buffer!LEAVE
    od
}

inline barrier()
{
#ifndef FENCED
#ifndef NO_BARRIER
    atomic {
        drain()
    }
#else
    skip
#endif
#else
    skip
#endif
}

inline look_inside()
{
#ifdef SERVING_FIRST
    is_out = !is_serving;
    is_out = is_out && !is_inside
#else
    is_out = !is_inside;
#ifndef NOT_SERVING
    is_out = is_out && !is_serving
#endif
#endif
}

inline take()
{
    atomic {
        if
#ifdef TAKE_ANYWAY
        :: true ->
#else
        :: is_asked ->
#endif
            is_asked = false;
            is_taken = true;
            assert(in_use != registered);
            is_gone[registered] = true;
            registered = 0
#ifndef TAKE_ANYWAY
        :: !is_asked
#endif
        fi
    }
}

active proctype taker()
{
    byte passes = PASSES;
    bool is_out;
    do
    :: passes == 0 -> break
    :: passes ->
        passes--;
        if
        :: registered ->
#ifdef LOOK_FIRST
            look_inside();
#endif
            is_asked = true;
            barrier();
#ifndef LOOK_FIRST
            look_inside();
#endif
            if
            :: is_out -> take()
            :: !is_out
            fi;
            is_out = false
        :: !registered
        fi
    od
}
