/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The public side of errors: names and texts of the statuses, what the calling
 * thread's last failure was, and the log. The failures themselves are noted where
 * they happen (pool/base/failure.h, pool/driver/status.h).
 */
#include "moiety/status.h"

#include "moiety/callbacks.h"
#include "pool/base/cancel.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/base/log.h"
#include "pool/cache/thread.h"
#include "pool/driver/status.h"

struct status_words {
    const char *name;
    const char *text;
};

static struct status_words words_of(moiety_status status)
{
#define WORDS(name, text)                                                      \
    case name:                                                                 \
        return (struct status_words){#name, text};
    switch (status) {
        WORDS(MOIETY_OK, "success")
        WORDS(MOIETY_E_INVALID, "an argument or setting is not accepted")
        WORDS(MOIETY_E_TOO_LARGE, "the size is above the limit")
        WORDS(MOIETY_E_NO_DEVICE_MEMORY, "device memory is exhausted")
        WORDS(MOIETY_E_NO_PINNED_MEMORY, "pinned host memory is exhausted")
        WORDS(MOIETY_E_NO_HOST_MEMORY, "host memory is exhausted")
        WORDS(MOIETY_E_FOREIGN, "the pointer belongs to something else")
        WORDS(MOIETY_E_WOULD_BLOCK, "waiting was not allowed")
        WORDS(MOIETY_E_UNSUPPORTED, "not supported here")
        WORDS(MOIETY_E_DRIVER, "the CUDA driver reported an error")
        WORDS(MOIETY_E_NO_DRIVER, "no usable CUDA driver library")
        WORDS(MOIETY_E_NO_DEVICE, "no usable device")
        WORDS(MOIETY_E_FORKED, "not usable in the child of a fork")
        WORDS(MOIETY_E_DEINITIALIZED, "the driver is shutting down")
        WORDS(MOIETY_E_CONTEXT_DESTROYED, "the CUDA context is gone")
        WORDS(MOIETY_E_CORRUPT, "the bytes were cut or changed")
        WORDS(MOIETY_E_STALE, "what was named is not there any more")
        WORDS(MOIETY_E_PEER_GONE, "the process that it came from has ended")
        WORDS(MOIETY_E_CAPTURING, "a graph is captured")
        WORDS(MOIETY_E_BUDGET, "the tenant's budget is used up")
        WORDS(MOIETY_E_TIMEOUT, "the wait took too long")
        WORDS(MOIETY_E_INTERRUPTED, "the program stopped the wait")
        WORDS(MOIETY_E_IN_USE, "something uses the object")
        WORDS(MOIETY_E_PAUSED, "the private arena is paused")
        WORDS(MOIETY_E_REENTRANT, "called in the middle of another call")
        WORDS(MOIETY_E_NO_ROOM, "there is no room for more")
        WORDS(MOIETY_E_DOUBLE_FREE, "the block was freed before")
        WORDS(MOIETY_E_DESTROYED, "the object was destroyed")
    }
#undef WORDS
    return (struct status_words){"MOIETY_E_UNKNOWN", "unknown status"};
}

const char *moiety_status_name(moiety_status status)
{
    return words_of(status).name;
}

const char *moiety_status_text(moiety_status status)
{
    return words_of(status).text;
}

const char *moiety_last_error_message(void)
{
    return moietyi_failure_message();
}

moiety_status moiety_fail(moiety_status status, const char *message)
{
    return message ? moietyi_fail(status, "%s", message) : status;
}

moiety_status moiety_last_driver_error(moiety_driver_error *out)
{
    if (!out)
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_last_driver_error: out is NULL");
    if (out->struct_size < sizeof(*out)) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_last_driver_error: struct_size is %u, "
                            "must be %zu or more",
                            (unsigned)out->struct_size, sizeof(*out));
    }
    *out = moietyi_driver_last_error();
    out->struct_size = (uint32_t)sizeof(*out);
    return MOIETY_OK;
}

moiety_status moiety_set_log(uint32_t level, moiety_log_callback callback,
                             void *user)
{
    return moietyi_is_forked() ? moietyi_refuse_child()
                               : moietyi_log_set(level, callback, user);
}

void moiety_log(uint32_t level, const char *message)
{
    if (!message || moietyi_is_forked() || level < MOIETY_LOG_ERROR ||
        level > MOIETY_LOG_INFO)
        return;
    int cancel_state = moietyi_cancel_hold();
    moietyi_log_or_print(level, "%s", message);
    moietyi_thread_tell(moietyi_thread_self);
    moietyi_cancel_restore(cancel_state);
}
