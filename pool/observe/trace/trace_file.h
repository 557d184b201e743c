/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Writes what a pool's threads did as a trace: docs/traces.md has the format.
 * Entries come in the order of time. What is written is right even if entries
 * are missing: a free of what is not live is dropped, an address that is handed
 * out twice was freed in between, and both are counted. For one thread at a
 * time.
 */
#ifndef BINADE_POOL_OBSERVE_TRACE_TRACE_FILE_H_
#define BINADE_POOL_OBSERVE_TRACE_TRACE_FILE_H_

#include "binade/history.h"
#include "binade/status.h"

struct binadei_trace_file;

/* What became of a file so far. */
struct binadei_trace_sums {
    binade_status status; /* of what failed first; then nothing is written */
    int system_error;     /* the errno of that, or 0 */
    uint64_t operation_count;
    uint64_t byte_count; /* given to the file system */
};

/* Makes the file, or empties it; refuses one that another trace is written to.
 * `path` is copied. */
BINADE_MUST_USE binade_status
binadei_trace_open(const char *path, struct binadei_trace_file **out);
/* Whose times count from here. */
void binadei_trace_begin(struct binadei_trace_file *file, uint64_t start_ns);
void binadei_trace_put(struct binadei_trace_file *file,
                       const binade_history_entry *entry);
/* Why nothing can be written any more, where it is not the file. */
void binadei_trace_fail(struct binadei_trace_file *file, binade_status status);
/* Writes a count into the file, if it is not 0. */
void binadei_trace_count(struct binadei_trace_file *file, const char *key,
                         uint64_t count);
void binadei_trace_sums(const struct binadei_trace_file *file,
                        struct binadei_trace_sums *out);
/* BINADE_OK, or what failed, with its message. */
BINADE_MUST_USE binade_status
binadei_trace_check(const struct binadei_trace_file *file);
/* Gives what is left to the file system. */
void binadei_trace_flush(struct binadei_trace_file *file);
/* Writes the end, and closes the file; the sums can still be asked. */
void binadei_trace_end(struct binadei_trace_file *file);
/* NULL is fine. Without an end it stays a file that was cut off. */
void binadei_trace_free(struct binadei_trace_file *file);

#endif
