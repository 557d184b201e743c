/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Per-thread failure messages. Their room is mapped at a thread's first failure
 * and not thread-local itself: the library's thread-local storage must be small
 * enough for what the loader keeps free for libraries that are opened late.
 */
#define _DEFAULT_SOURCE
#include "pool/base/failure.h"

#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "pool/base/fork_mark.h"

static _Thread_local char *room;
static _Thread_local const char *last_message = "";

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool is_ready;

static void failure_end_thread(void *own)
{
    munmap(own, MOIETYI_MESSAGE_BYTES);
    room = NULL;
    last_message = "";
}

static void failure_get_ready(void)
{
    is_ready = pthread_key_create(&key, failure_end_thread) == 0;
}

/* A system call and no lock, because this may be the child of a fork. The room
 * is not given back there, because reporting that might need memory. */
static void failure_make_room(void)
{
    void *memory = mmap(NULL, MOIETYI_MESSAGE_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return;
    room = memory;
    if (!moietyi_is_forked() && pthread_once(&once, failure_get_ready) == 0 &&
        is_ready)
        (void)pthread_setspecific(key, memory);
}

moiety_status moietyi_fail(moiety_status status, const char *format, ...)
{
    /* Made aside first: an argument may be the previous message. */
    char message[MOIETYI_MESSAGE_BYTES];
    va_list arguments;
    if (!room)
        failure_make_room();
    if (!room) {
        last_message = "no memory for a message";
        return status;
    }
    va_start(arguments, format);
    int written = vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    if (written < 0)
        message[0] = '\0';
    memcpy(room, message, strlen(message) + 1);
    last_message = room;
    return status;
}

moiety_status moietyi_refuse_child(void)
{
    return moietyi_fail(MOIETY_E_FORKED,
                        "this process was forked from one that used the "
                        "library; a CUDA driver does not survive a fork");
}

moiety_status moietyi_refuse_unmarked(void)
{
    return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                        "no memory for the page that tells a fork");
}

const char *moietyi_failure_message(void)
{
    return last_message;
}

void moietyi_failure_keep(struct moietyi_failure *out)
{
    (void)snprintf(out->message, sizeof(out->message), "%s", last_message);
}

void moietyi_failure_restore(const struct moietyi_failure *kept)
{
    if (strcmp(kept->message, last_message) != 0)
        (void)moietyi_fail(MOIETY_OK, "%s", kept->message);
}
