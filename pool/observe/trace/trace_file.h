/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Writes what a pool's threads did as a trace: docs/dev/trace-format.md has the
 * format. Entries come in the order of time. What is written is right even if
 * entries are missing: a free of what is not live is dropped, an address that
 * is handed out twice was freed in between, and both are counted. For one
 * thread at a time.
 */
#ifndef MOIETY_POOL_OBSERVE_TRACE_TRACE_FILE_H_
#define MOIETY_POOL_OBSERVE_TRACE_TRACE_FILE_H_

#include "moiety/history.h"
#include "moiety/status.h"

struct moietyi_trace_file;

/* The state of a file. */
struct moietyi_trace_sums {
    moiety_status status; /* of what failed first; then nothing is written */
    int system_error;     /* the errno of that, or 0 */
    uint64_t operation_count;
    uint64_t byte_count; /* given to the file system */
};

/* Makes the file, or empties it; refuses one that another trace is written to.
 * `path` is copied. */
MOIETY_MUST_USE moiety_status
moietyi_trace_open(const char *path, struct moietyi_trace_file **out);
/* Whose times count from here. */
void moietyi_trace_begin(struct moietyi_trace_file *file, uint64_t start_ns);
void moietyi_trace_put(struct moietyi_trace_file *file,
                       const moiety_history_entry *entry);
/* Why nothing can be written any more, where it is not the file. */
void moietyi_trace_fail(struct moietyi_trace_file *file, moiety_status status);
/* Writes a count into the file, if it is not 0. */
void moietyi_trace_count(struct moietyi_trace_file *file, const char *key,
                         uint64_t count);
void moietyi_trace_sums(const struct moietyi_trace_file *file,
                        struct moietyi_trace_sums *out);
/* MOIETY_OK, or what failed, with its message. */
MOIETY_MUST_USE moiety_status
moietyi_trace_check(const struct moietyi_trace_file *file);
/* Gives what is left to the file system. */
void moietyi_trace_flush(struct moietyi_trace_file *file);
/* Writes the end, and closes the file; the sums can still be asked. */
void moietyi_trace_end(struct moietyi_trace_file *file);
/* NULL is fine. Without an end it stays a file that was cut off. */
void moietyi_trace_free(struct moietyi_trace_file *file);

#endif
