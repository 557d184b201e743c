/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The public side of errors: names and texts of the statuses, what the calling
 * thread's last failure was, and who is told what happens. The failures themselves are noted where
 * they happen (pool/base/failure.h, pool/driver/status.h).
 */
#include "binade/status.h"

#include "binade/callbacks.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/base/log.h"
#include "pool/driver/status.h"

struct status_words {
    const char *name;
    const char *text;
};

static struct status_words words_of(binade_status status)
{
#define WORDS(name, text)                                                      \
    case name:                                                                 \
        return (struct status_words){#name, text};
    switch (status) {
        WORDS(BINADE_OK, "success")
        WORDS(BINADE_E_INVALID, "an argument or setting is not accepted")
        WORDS(BINADE_E_TOO_LARGE, "the size is above the limit")
        WORDS(BINADE_E_NO_DEVICE_MEMORY, "device memory is exhausted")
        WORDS(BINADE_E_NO_PINNED_MEMORY, "pinned host memory is exhausted")
        WORDS(BINADE_E_NO_HOST_MEMORY, "host memory is exhausted")
        WORDS(BINADE_E_FOREIGN, "the pointer belongs to something else")
        WORDS(BINADE_E_BUSY, "in use, or waiting was not allowed")
        WORDS(BINADE_E_UNSUPPORTED, "not supported here")
        WORDS(BINADE_E_DRIVER, "the CUDA driver reported an error")
        WORDS(BINADE_E_NO_DRIVER, "no usable CUDA driver library")
        WORDS(BINADE_E_NO_DEVICE, "no usable device")
        WORDS(BINADE_E_FORKED, "not usable in the child of a fork")
        WORDS(BINADE_E_DEINITIALIZED, "the driver is shutting down")
        WORDS(BINADE_E_CONTEXT_DESTROYED, "the CUDA context is gone")
        WORDS(BINADE_E_CORRUPT, "the bytes were cut or changed")
        WORDS(BINADE_E_STALE, "what was named is not there any more")
        WORDS(BINADE_E_PEER_GONE, "the process that it came from has ended")
        WORDS(BINADE_E_CAPTURING, "the stream captures a graph")
        WORDS(BINADE_E_BUDGET, "the tenant's budget is used up")
    }
#undef WORDS
    return (struct status_words){"BINADE_E_UNKNOWN", "unknown status"};
}

const char *binade_status_name(binade_status status)
{
    return words_of(status).name;
}

const char *binade_status_text(binade_status status)
{
    return words_of(status).text;
}

const char *binade_last_error_message(void)
{
    return binadei_failure_message();
}

binade_status binade_last_driver_error(binade_driver_error *out)
{
    if (!out)
        return binadei_fail(BINADE_E_INVALID,
                            "binade_last_driver_error: out is NULL");
    if (out->struct_size < sizeof(*out)) {
        return binadei_fail(BINADE_E_INVALID,
                            "binade_last_driver_error: struct_size is %u, "
                            "must be %zu or more",
                            (unsigned)out->struct_size, sizeof(*out));
    }
    *out = binadei_driver_last_error();
    out->struct_size = (uint32_t)sizeof(*out);
    return BINADE_OK;
}

binade_status binade_set_log(uint32_t level, binade_log_callback callback,
                             void *user)
{
    return binadei_is_forked() ? binadei_refuse_child()
                               : binadei_log_set(level, callback, user);
}
