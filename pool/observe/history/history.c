/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The public side of the history: arguments and names.
 */
#include "binade/history.h"

#include "pool/base/failure.h"
#include "pool/cache/cache.h"
#include "pool/cache/gate.h"
#include "pool/ring/ring.h"

static const char *const names[] = {
    [BINADE_HISTORY_ALLOC] = "alloc",
    [BINADE_HISTORY_FREE] = "free",
    [BINADE_HISTORY_FREE_SIZED] = "free_sized",
    [BINADE_HISTORY_FREE_AFTER] = "free_after",
    [BINADE_HISTORY_RECORD_USE] = "record_use",
    [BINADE_HISTORY_RETIRE] = "retire",
    [BINADE_HISTORY_GROW] = "grow",
    [BINADE_HISTORY_TRIM] = "trim",
    [BINADE_HISTORY_EXPORT] = "export",
    [BINADE_HISTORY_RELEASE] = "release",
};

static binade_status history_check(const binade_history_entry *entries,
                                   size_t capacity,
                                   const binade_history_summary *out)
{
    if (!out || out->struct_size < sizeof(*out)) {
        return binadei_fail(BINADE_E_INVALID,
                            "binade_history_read: out is NULL or its "
                            "struct_size below %zu",
                            sizeof(*out));
    }
    if (!entries && capacity)
        return binadei_fail(BINADE_E_INVALID,
                            "binade_history_read: out_entries is NULL");
    return BINADE_OK;
}

static binade_status history_read(struct binadei_call *call,
                                  binade_history_entry *entries,
                                  size_t capacity, binade_history_summary *out)
{
    struct binadei_history *history = call->engine->history;
    if (!history)
        return binadei_fail(BINADE_E_UNSUPPORTED,
                            "the pool keeps no history: it was made without "
                            "history_entries");
    /* Nothing is moved, and other readers may be waited for. */
    binadei_slow_path_end(call->thread_state);
    out->struct_size = (uint32_t)sizeof(*out);
    binadei_history_read(history, entries, capacity, out);
    return BINADE_OK;
}

binade_status binade_history_read(binade_pool *pool,
                                  binade_history_entry *out_entries,
                                  size_t capacity, binade_history_summary *out)
{
    struct binadei_call call;
    binade_status status = history_check(out_entries, capacity, out);
    if (status == BINADE_OK)
        status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    status = history_read(&call, out_entries, capacity, out);
    binadei_call_leave(&call);
    return status;
}

const char *binade_history_kind_name(uint32_t kind)
{
    return kind && kind < sizeof(names) / sizeof(names[0]) ? names[kind]
                                                           : "unknown";
}
