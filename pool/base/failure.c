/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Per-thread failure messages. Static thread-local storage: nothing to free
 * when a thread ends, and nothing that can fail while reporting a failure.
 */
#include "pool/base/failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_message[BINADEI_MESSAGE_BYTES];

binade_status binadei_fail(binade_status status, const char *format, ...)
{
    /* Made aside first: an argument may be the previous message. */
    char message[BINADEI_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    if (written < 0)
        message[0] = '\0';
    memcpy(last_message, message, strlen(message) + 1);
    return status;
}

const char *binadei_failure_message(void)
{
    return last_message;
}
