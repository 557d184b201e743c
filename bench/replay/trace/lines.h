/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Reads a file line by line in bounded memory, and says of what is wrong with
 * it where that is.
 */
#ifndef MOIETY_BENCH_REPLAY_TRACE_LINES_H_
#define MOIETY_BENCH_REPLAY_TRACE_LINES_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLAY_LINE_BYTES_MAX 1024U
#define REPLAY_ERROR_BYTES 256U

/* What is wrong; `line` 0: no line in particular. */
struct replay_error {
    uint64_t line;
    char text[REPLAY_ERROR_BYTES];
};

struct replay_lines {
    int file;
    uint64_t number; /* of the line that was read last; the first is 1 */
    size_t begin;    /* of what is not read yet */
    size_t end;
    bool is_over;
    char bytes[1U << 16];
};

enum replay_result {
    REPLAY_MORE,
    REPLAY_END,
    REPLAY_WRONG, /* `error` says why */
};

/* False, and `error` is set: it cannot be opened, or is no regular file (it is
 * read several times). */
bool replay_lines_open(struct replay_lines *lines, const char *path,
                       struct replay_error *error);

/* `line` is ended by NUL instead of its line feed, and is valid until the next
 * call. */
enum replay_result replay_lines_next(struct replay_lines *lines, char **line,
                                     size_t *length_bytes,
                                     struct replay_error *error);

/* Begins again. */
bool replay_lines_rewind(struct replay_lines *lines,
                         struct replay_error *error);

void replay_lines_close(struct replay_lines *lines);

/* Sets the error; always REPLAY_WRONG. */
__attribute__((format(printf, 3, 4))) enum replay_result
replay_fail(struct replay_error *error, uint64_t line, const char *format, ...);

#endif
