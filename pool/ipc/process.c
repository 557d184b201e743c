/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/ipc/process.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "pool/base/failure.h"

_Static_assert(sizeof(struct moietyi_process) == 40, "compared as bytes");

static struct moietyi_process self;
static bool is_known;

bool moietyi_process_is(const struct moietyi_process *a,
                        const struct moietyi_process *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

/* A small file of /proc as a text; false when there is none. */
static bool read_text(const char *path, char *text, size_t text_bytes)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t length = fread(text, 1, text_bytes - 1, file);
    (void)fclose(file);
    text[length] = '\0';
    return length != 0;
}

/* Field `number`, from 3 on, of a stat file. They are counted from the last
 * ')': the name before it may hold anything. NULL: there is none. */
static const char *process_field_of(const char *text, int number)
{
    const char *field = strrchr(text, ')');
    for (int i = 2; field && i < number; i++)
        field = strchr(field + 1, ' ');
    return field ? field + 1 : NULL;
}

/* 0 for a process that is over: until somebody waits for it, it is listed as a
 * zombie. So is one whose first thread has ended, but it has others. */
static uint64_t start_ticks_in(const char *text)
{
    const char *state = process_field_of(text, 3);
    const char *thread_count = process_field_of(text, 20);
    const char *start = process_field_of(text, 22);
    if (!start || *state == 'X' ||
        (*state == 'Z' && strtoull(thread_count, NULL, 10) < 2))
        return 0;
    return strtoull(start, NULL, 10);
}

static void read_machine(uint8_t out[16])
{
    char text[64];
    const char *at = text;
    if (!read_text("/proc/sys/kernel/random/boot_id", text, sizeof(text)))
        return;
    for (int i = 0; i < 16; i++, at += 2) {
        unsigned byte;
        if (*at == '-')
            at++;
        if (sscanf(at, "%2x", &byte) != 1)
            return;
        out[i] = (uint8_t)byte;
    }
}

static void find_self(void)
{
    char text[1024];
    struct stat status;
    read_machine(self.machine);
    if (!read_text("/proc/self/stat", text, sizeof(text)) ||
        stat("/proc/self/ns/pid", &status) != 0)
        return;
    self.pid = (uint64_t)getpid();
    self.pid_namespace = (uint64_t)status.st_ino;
    self.start_ticks = start_ticks_in(text);
    is_known = self.start_ticks != 0;
}

moiety_status moietyi_process_self(const struct moietyi_process **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, find_self);
    if (!is_known)
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "/proc does not tell which process this is");
    *out = &self;
    return MOIETY_OK;
}

static uint64_t nonce;

static void draw_nonce(void)
{
    struct timespec now;
    if (getrandom(&nonce, sizeof(nonce), 0) != (ssize_t)sizeof(nonce)) {
        (void)timespec_get(&now, TIME_UTC);
        nonce =
            (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
    }
    nonce |= 1;
}

uint64_t moietyi_process_nonce(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, draw_nonce);
    return nonce;
}

enum moietyi_process_state
moietyi_process_state(const struct moietyi_process *process)
{
    const struct moietyi_process *own;
    char path[64];
    char text[1024];
    if (moietyi_process_self(&own) != MOIETY_OK ||
        process->pid_namespace != self.pid_namespace)
        return MOIETYI_PROCESS_UNSEEN;
    (void)snprintf(path, sizeof(path), "/proc/%llu/stat",
                   (unsigned long long)process->pid);
    if (!read_text(path, text, sizeof(text)))
        return MOIETYI_PROCESS_GONE;
    return start_ticks_in(text) == process->start_ticks ? MOIETYI_PROCESS_LIVES
                                                        : MOIETYI_PROCESS_GONE;
}
