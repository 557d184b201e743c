/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "bench/replay/trace/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum replay_result replay_fail(struct replay_error *error, uint64_t line,
                               const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    error->line = line;
    (void)vsnprintf(error->text, sizeof(error->text), format, arguments);
    va_end(arguments);
    /* A part of the file may be in it, which is not for a terminal. */
    for (char *byte = error->text; *byte; byte++)
        if (*byte < ' ' || *byte > '~')
            *byte = '?';
    return REPLAY_WRONG;
}

static void begin(struct replay_lines *lines)
{
    lines->number = 0;
    lines->begin = 0;
    lines->end = 0;
    lines->is_over = false;
}

bool replay_lines_open(struct replay_lines *lines, const char *path,
                       struct replay_error *error)
{
    struct stat about;
    begin(lines);
    /* Nobody has to write into a pipe before we can refuse it. */
    lines->file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (lines->file < 0 || fstat(lines->file, &about) != 0) {
        (void)replay_fail(error, 0, "it cannot be opened: %s",
                          strerror_r(errno, (char[64]){0}, 64));
    } else if (!S_ISREG(about.st_mode)) {
        (void)replay_fail(error, 0, "it is no regular file");
    } else {
        return true;
    }
    replay_lines_close(lines);
    return false;
}

void replay_lines_close(struct replay_lines *lines)
{
    if (lines->file >= 0)
        (void)close(lines->file);
    lines->file = -1;
}

bool replay_lines_rewind(struct replay_lines *lines, struct replay_error *error)
{
    begin(lines);
    if (lseek(lines->file, 0, SEEK_SET) == 0)
        return true;
    (void)replay_fail(error, 0, "it cannot be read again: %s",
                      strerror_r(errno, (char[64]){0}, 64));
    return false;
}

/* More bytes behind those that are there, which are fewer than a line's. */
static bool fill(struct replay_lines *lines, struct replay_error *error)
{
    size_t left = lines->end - lines->begin;
    memmove(lines->bytes, lines->bytes + lines->begin, left);
    lines->begin = 0;
    lines->end = left;
    ssize_t count;
    do {
        count =
            read(lines->file, lines->bytes + left, sizeof(lines->bytes) - left);
    } while (count < 0 && errno == EINTR);
    if (count < 0) {
        (void)replay_fail(error, lines->number, "it cannot be read: %s",
                          strerror_r(errno, (char[64]){0}, 64));
        return false;
    }
    lines->end += (size_t)count;
    lines->is_over = count == 0;
    return true;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The line's end in what is there, or NULL. */
static char *find_end(struct replay_lines *lines)
{
    size_t left = lines->end - lines->begin;
    return memchr(lines->bytes + lines->begin, '\n',
                  smaller(left, REPLAY_LINE_BYTES_MAX));
}

static enum replay_result refuse_rest(struct replay_lines *lines,
                                      struct replay_error *error)
{
    size_t left = lines->end - lines->begin;
    if (left >= REPLAY_LINE_BYTES_MAX)
        return replay_fail(error, lines->number, "is longer than %u bytes",
                           REPLAY_LINE_BYTES_MAX);
    return replay_fail(error, lines->number,
                       "the last line has no end: the file is cut off");
}

enum replay_result replay_lines_next(struct replay_lines *lines, char **line,
                                     size_t *length_bytes,
                                     struct replay_error *error)
{
    char *end = find_end(lines);
    while (!end && !lines->is_over &&
           lines->end - lines->begin < REPLAY_LINE_BYTES_MAX) {
        if (!fill(lines, error))
            return REPLAY_WRONG;
        end = find_end(lines);
    }
    if (lines->begin == lines->end)
        return REPLAY_END;
    lines->number++;
    if (!end)
        return refuse_rest(lines, error);
    *line = lines->bytes + lines->begin;
    *length_bytes = (size_t)(end - *line);
    *end = '\0';
    lines->begin += *length_bytes + 1;
    if (strlen(*line) != *length_bytes)
        return replay_fail(error, lines->number, "has a NUL byte");
    return REPLAY_MORE;
}
