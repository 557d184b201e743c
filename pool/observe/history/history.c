/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The public side of the history: arguments and names.
 */
#include "moiety/history.h"

#include "pool/base/failure.h"
#include "pool/cache/cache.h"
#include "pool/cache/gate.h"
#include "pool/ring/ring.h"

static const char *const names[] = {
    [MOIETY_HISTORY_ALLOC] = "alloc",
    [MOIETY_HISTORY_FREE] = "free",
    [MOIETY_HISTORY_FREE_SIZED] = "free_sized",
    [MOIETY_HISTORY_FREE_AFTER] = "free_after",
    [MOIETY_HISTORY_RECORD_USE] = "record_use",
    [MOIETY_HISTORY_RETIRE] = "retire",
    [MOIETY_HISTORY_GROW] = "grow",
    [MOIETY_HISTORY_TRIM] = "trim",
    [MOIETY_HISTORY_EXPORT] = "export",
    [MOIETY_HISTORY_RELEASE] = "release",
};

static moiety_status history_check(const moiety_history_entry *entries,
                                   size_t capacity,
                                   const moiety_history_summary *out)
{
    if (!out || out->struct_size < sizeof(*out)) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_history_read: out is NULL or its "
                            "struct_size below %zu",
                            sizeof(*out));
    }
    if (!entries && capacity)
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_history_read: out_entries is NULL");
    return MOIETY_OK;
}

static moiety_status history_read(struct moietyi_call *call,
                                  moiety_history_entry *entries,
                                  size_t capacity, moiety_history_summary *out)
{
    struct moietyi_history *history = call->engine->history;
    if (!history)
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "the pool keeps no history: it was made without "
                            "history_entries");
    /* Nothing is moved, and other readers may be waited for. */
    moietyi_slow_path_end(call->thread_state);
    out->struct_size = (uint32_t)sizeof(*out);
    moietyi_history_read(history, entries, capacity, out);
    return MOIETY_OK;
}

moiety_status moiety_history_read(moiety_pool *pool,
                                  moiety_history_entry *out_entries,
                                  size_t capacity, moiety_history_summary *out)
{
    struct moietyi_call call;
    moiety_status status = history_check(out_entries, capacity, out);
    if (status == MOIETY_OK)
        status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    status = history_read(&call, out_entries, capacity, out);
    moietyi_call_leave(&call);
    return status;
}

const char *moiety_history_kind_name(uint32_t kind)
{
    return kind && kind < sizeof(names) / sizeof(names[0]) ? names[kind]
                                                           : "unknown";
}
