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

void binadei_call_site_set(const struct binadei_checked *checked,
                           struct binadei_call_site *site, binade_stream stream)
{
    site->stream = stream;
    site->thread = (int)syscall(SYS_gettid); /* glibc has gettid() from 2.30 */
    site->frame_count = checked->is_checked
                            ? backtrace(site->frames, BINADEI_CALL_SITE_FRAMES)
                            : 0;
}

void binadei_text_add(struct binadei_text *text, const char *format, ...)
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
    return dladdr((const void *)(uintptr_t)&binadei_finding, &own) &&
           dladdr(frame, &other) && own.dli_fbase == other.dli_fbase;
}

/* The first frame that is not the library's, unless all are of one module. */
static int first_shown(const struct binadei_call_site *site)
{
    for (int i = 0; i < site->frame_count; i++)
        if (!is_own(site->frames[i]))
            return i;
    return 0;
}

static void add_frame(struct binadei_text *text, void *frame)
{
    Dl_info info;
    if (!dladdr(frame, &info) || !info.dli_fname) {
        binadei_text_add(text, " %p", frame);
        return;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    const char *file = slash ? slash + 1 : info.dli_fname;
    if (info.dli_sname)
        binadei_text_add(text, " %.60s+0x%zx", info.dli_sname,
                         (size_t)((char *)frame - (char *)info.dli_saddr));
    else
        binadei_text_add(text, " %.40s(+0x%zx)", file,
                         (size_t)((char *)frame - (char *)info.dli_fbase));
}

static void checked_report_add_stream(struct binadei_text *text,
                                      binade_stream stream)
{
    if (stream == BINADE_STREAM_ANY)
        binadei_text_add(text, "ANY");
    else if (stream == BINADE_STREAM_DONE)
        binadei_text_add(text, "DONE");
    else
        binadei_text_add(text, "stream 0x%llx",
                         (unsigned long long)(uintptr_t)stream);
}

static void add_site(struct binadei_text *text, const char *verb,
                     const struct binadei_call_site *site)
{
    binadei_text_add(text, ", %s with ", verb);
    checked_report_add_stream(text, site->stream);
    binadei_text_add(text, " by thread %d", site->thread);
    int first = first_shown(site);
    if (first < site->frame_count)
        binadei_text_add(text, " at");
    for (int i = first; i < site->frame_count && i < first + SHOWN_FRAMES; i++)
        add_frame(text, site->frames[i]);
}

void binadei_text_block(struct binadei_text *text,
                        const struct binadei_block_record *record)
{
    binadei_text_add(text, "; block %llu of %llu bytes at 0x%llx",
                     (unsigned long long)record->sequence,
                     (unsigned long long)record->size_bytes, record->address);
    if (*record->tenant_name)
        binadei_text_add(text, " of tenant '%s'", record->tenant_name);
    add_site(text, "allocated", &record->allocated);
    if (record->is_freed)
        add_site(text, "freed", &record->freed);
}

static void print_site(const char *verb, const struct binadei_call_site *site)
{
    (void)fprintf(stderr, "  %s by thread %d:\n", verb, site->thread);
    (void)fflush(stderr);
    backtrace_symbols_fd(site->frames, site->frame_count, STDERR_FILENO);
}

static void print_sites(const struct binadei_block_record *record)
{
    print_site("allocated", &record->allocated);
    if (record->is_freed)
        print_site("freed", &record->freed);
}

/* False: there is no log, and stderr has also the frames. */
static bool report_log(const struct binadei_text *text)
{
    binadei_log(BINADE_LOG_ERROR, "checked: %s", text->bytes);
    return binadei_log_wants(BINADE_LOG_ERROR);
}

void binadei_finding(const struct binadei_checked *checked,
                     const struct binadei_text *text,
                     const struct binadei_block_record *record)
{
    uint32_t flags = checked->body->options.flags;
    if (!checked->is_checked)
        return;
    if (!(flags & BINADE_POOL_CHECKED_QUIET)) {
        /* A process that ends here tells nobody any more. */
        if (flags & BINADE_POOL_CHECKED_ABORT || !report_log(text)) {
            flockfile(stderr);
            (void)fprintf(stderr, "binade: checked: %s\n", text->bytes);
            if (record)
                print_sites(record);
            funlockfile(stderr);
        }
    }
    if (flags & BINADE_POOL_CHECKED_ABORT)
        abort();
}

void binadei_finding_leak(const struct binadei_checked *checked,
                          const struct binadei_block_record *record)
{
    struct binadei_text text = {0};
    if (!checked->is_checked ||
        checked->body->options.flags & BINADE_POOL_CHECKED_QUIET)
        return;
    binadei_text_add(&text, "never freed");
    binadei_text_block(&text, record);
    if (report_log(&text))
        return;
    (void)fprintf(stderr, "binade: checked: %s\n", text.bytes);
    print_site("allocated", &record->allocated);
}
