/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a checked pool says of a mistake: a sentence for the message, with the
 * first frames of where the block was allocated and freed, and on stderr the
 * whole stacks. Nothing here allocates: the library that backtrace() loads was
 * loaded when the pool was made.
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <execinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool/base/log.h"
#include "pool/checked/state.h"

/* Frames in a message. */
#define SHOWN_FRAMES 5

void moietyi_call_site_set(const struct moietyi_checked *checked,
                           struct moietyi_call_site *site, moiety_stream stream)
{
    site->stream = stream;
    site->thread = (int)syscall(SYS_gettid); /* glibc has gettid() from 2.30 */
    site->frame_count = checked->is_checked
                            ? backtrace(site->frames, MOIETYI_CALL_SITE_FRAMES)
                            : 0;
}

void moietyi_text_add(struct moietyi_text *text, const char *format, ...)
{
    size_t room = sizeof(text->bytes) - text->length;
    va_list arguments;
    va_start(arguments, format);
    int written =
        vsnprintf(text->bytes + text->length, room, format, arguments);
    va_end(arguments);
    if (written > 0)
        text->length += (size_t)written < room ? (size_t)written : room - 1;
}

static bool is_own(const void *frame)
{
    Dl_info own;
    Dl_info other;
    return dladdr((const void *)(uintptr_t)&moietyi_finding, &own) &&
           dladdr(frame, &other) && own.dli_fbase == other.dli_fbase;
}

/* The first frame that is not the library's, unless all are of one module. */
static int first_shown(const struct moietyi_call_site *site)
{
    for (int i = 0; i < site->frame_count; i++)
        if (!is_own(site->frames[i]))
            return i;
    return 0;
}

static void add_frame(struct moietyi_text *text, void *frame)
{
    Dl_info info;
    if (!dladdr(frame, &info) || !info.dli_fname) {
        moietyi_text_add(text, " %p", frame);
        return;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    const char *file = slash ? slash + 1 : info.dli_fname;
    if (info.dli_sname)
        moietyi_text_add(text, " %.60s+0x%zx", info.dli_sname,
                         (size_t)((char *)frame - (char *)info.dli_saddr));
    else
        moietyi_text_add(text, " %.40s(+0x%zx)", file,
                         (size_t)((char *)frame - (char *)info.dli_fbase));
}

static void checked_report_add_stream(struct moietyi_text *text,
                                      moiety_stream stream)
{
    if (stream == MOIETY_STREAM_ANY)
        moietyi_text_add(text, "ANY");
    else if (stream == MOIETY_STREAM_DONE)
        moietyi_text_add(text, "DONE");
    else
        moietyi_text_add(text, "stream 0x%llx",
                         (unsigned long long)(uintptr_t)stream);
}

static void add_site(struct moietyi_text *text, const char *verb,
                     const struct moietyi_call_site *site)
{
    moietyi_text_add(text, ", %s with ", verb);
    checked_report_add_stream(text, site->stream);
    moietyi_text_add(text, " by thread %d", site->thread);
    int first = first_shown(site);
    if (first < site->frame_count)
        moietyi_text_add(text, " at");
    for (int i = first; i < site->frame_count && i < first + SHOWN_FRAMES; i++)
        add_frame(text, site->frames[i]);
}

void moietyi_text_block(struct moietyi_text *text,
                        const struct moietyi_block_record *record)
{
    moietyi_text_add(text, "; block %llu of %llu bytes at 0x%llx",
                     (unsigned long long)record->sequence,
                     (unsigned long long)record->size_bytes, record->address);
    if (*record->tenant_name)
        moietyi_text_add(text, " of tenant '%s'", record->tenant_name);
    add_site(text, "allocated", &record->allocated);
    if (record->is_freed)
        add_site(text, "freed", &record->freed);
}

static void print_site(const char *verb, const struct moietyi_call_site *site)
{
    (void)fprintf(stderr, "  %s by thread %d:\n", verb, site->thread);
    (void)fflush(stderr);
    backtrace_symbols_fd(site->frames, site->frame_count, STDERR_FILENO);
}

static void print_sites(const struct moietyi_block_record *record)
{
    print_site("allocated", &record->allocated);
    if (record->is_freed)
        print_site("freed", &record->freed);
}

/* False: there is no log, and stderr has also the frames. */
static bool report_log(const struct moietyi_text *text)
{
    moietyi_log(MOIETY_LOG_ERROR, "checked: %s", text->bytes);
    return moietyi_log_wants(MOIETY_LOG_ERROR);
}

void moietyi_finding(const struct moietyi_checked *checked,
                     const struct moietyi_text *text,
                     const struct moietyi_block_record *record)
{
    uint32_t flags = checked->body->options.flags;
    if (!checked->is_checked)
        return;
    if (!(flags & MOIETY_POOL_CHECKED_QUIET)) {
        /* A process that ends here reports no more. */
        if (flags & MOIETY_POOL_CHECKED_ABORT || !report_log(text)) {
            flockfile(stderr);
            (void)fprintf(stderr, "moiety: checked: %s\n", text->bytes);
            if (record)
                print_sites(record);
            funlockfile(stderr);
        }
    }
    if (flags & MOIETY_POOL_CHECKED_ABORT)
        abort();
}

void moietyi_finding_leak(const struct moietyi_checked *checked,
                          const struct moietyi_block_record *record)
{
    struct moietyi_text text = {0};
    if (!checked->is_checked ||
        checked->body->options.flags & MOIETY_POOL_CHECKED_QUIET)
        return;
    moietyi_text_add(&text, "never freed");
    moietyi_text_block(&text, record);
    if (report_log(&text))
        return;
    (void)fprintf(stderr, "moiety: checked: %s\n", text.bytes);
    print_site("allocated", &record->allocated);
}
