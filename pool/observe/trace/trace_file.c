/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lines by hand and a buffer of our own: a child of a fork must have nothing
 * that its exit would write, as it would of a FILE.
 */
#define _GNU_SOURCE
#include "pool/observe/trace/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "moiety/version.h"
#include "pool/base/failure.h"
#include "pool/observe/trace/trace_map.h"

#define BUFFER_BYTES ((size_t)1 << 16)
#define LINE_BYTES_MAX ((size_t)256) /* the longest that is written here */
/* Of the format. */
#define NAMES_MAX (UINT64_C(1) << 16)
#define LIVE_MAX (UINT64_C(1) << 20)

/* Of what is live: its id, and two bits above all ids. */
#define IS_EXPORTED (UINT32_C(1) << 30)
#define IS_REQUESTED (UINT32_C(1) << 31) /* freed, and kept for importers */
#define ID_OF(value) ((value) & (IS_EXPORTED - 1))

struct moietyi_trace_file {
    int fd;
    char *path;
    struct moietyi_trace_sums sums;
    uint64_t now_ns;
    struct moietyi_trace_map live; /* by address */
    struct moietyi_trace_map threads;
    struct moietyi_trace_map streams;
    uint32_t *free_ids; /* as many as there ever were live ones have room */
    uint32_t free_id_count;
    uint32_t id_count;
    uint32_t id_capacity;
    uint64_t dropped_frees;
    uint64_t dropped_uses;
    uint64_t implied_frees;
    size_t used; /* of the buffer */
    char buffer[BUFFER_BYTES];
};

void moietyi_trace_fail(struct moietyi_trace_file *file, moiety_status status)
{
    if (file->sums.status == MOIETY_OK)
        file->sums.status = status;
}

void moietyi_trace_flush(struct moietyi_trace_file *file)
{
    size_t done = 0;
    while (file->sums.status == MOIETY_OK && done < file->used) {
        ssize_t written =
            write(file->fd, file->buffer + done, file->used - done);
        if (written >= 0) {
            done += (size_t)written;
        } else if (errno != EINTR) {
            file->sums.system_error = errno;
            moietyi_trace_fail(file, MOIETY_E_INVALID);
        }
    }
    file->sums.byte_count += done;
    file->used = 0;
}

/* Room for a line. */
static void begin_line(struct moietyi_trace_file *file)
{
    if (file->used + LINE_BYTES_MAX > BUFFER_BYTES)
        moietyi_trace_flush(file);
}

static void put_char(struct moietyi_trace_file *file, char one)
{
    file->buffer[file->used++] = one;
}

static void put_number(struct moietyi_trace_file *file, uint64_t number)
{
    char digits[20];
    unsigned count = 0;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    while (count)
        put_char(file, digits[--count]);
}

/* A blank before it. */
static void put_field(struct moietyi_trace_file *file, uint64_t number)
{
    put_char(file, ' ');
    put_number(file, number);
}

static void put_text(struct moietyi_trace_file *file, const char *text)
{
    begin_line(file);
    while (*text)
        put_char(file, *text++);
}

static moiety_status trace_file_refuse(const char *path, int error,
                                       const char *what)
{
    return moietyi_fail(error == EWOULDBLOCK ? MOIETY_E_IN_USE
                                             : MOIETY_E_INVALID,
                        "cannot record to '%s': %s", path,
                        what ? what : strerror_r(error, (char[64]){0}, 64));
}

/* A pipe would make the program wait for its reader. */
static moiety_status check_kind(int fd, const char *path)
{
    struct stat about;
    if (fstat(fd, &about) != 0)
        return trace_file_refuse(path, errno, NULL);
    if (S_ISCHR(about.st_mode))
        return MOIETY_OK;
    if (!S_ISREG(about.st_mode))
        return trace_file_refuse(path, EINVAL, "it is not a file");
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return trace_file_refuse(
            path, errno,
            errno == EWOULDBLOCK ? "another pool records to it" : NULL);
    return ftruncate(fd, 0) == 0 ? MOIETY_OK
                                 : trace_file_refuse(path, errno, NULL);
}

static moiety_status trace_open_file(const char *path, int *out)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
                  0666);
    if (fd < 0)
        return trace_file_refuse(path, errno, NULL);
    moiety_status status = check_kind(fd, path);
    if (status != MOIETY_OK)
        (void)close(fd);
    else
        *out = fd;
    return status;
}

static struct moietyi_trace_file *trace_file_make(const char *path)
{
    struct moietyi_trace_file *file = calloc(1, sizeof(*file));
    size_t path_bytes = strlen(path) + 1;
    if (!file)
        return NULL;
    file->fd = -1;
    file->path = malloc(path_bytes);
    if (!file->path) {
        free(file);
        return NULL;
    }
    memcpy(file->path, path, path_bytes);
    return file;
}

moiety_status moietyi_trace_open(const char *path,
                                 struct moietyi_trace_file **out)
{
    struct moietyi_trace_file *file = trace_file_make(path);
    if (!file)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory for recording to '%s'", path);
    moiety_status status = trace_open_file(path, &file->fd);
    if (status != MOIETY_OK) {
        moietyi_trace_free(file);
        return status;
    }
    put_text(file,
             "moiety-trace 1\nI source moiety\nI version " MOIETY_VERSION_STRING
             "\n");
    /* So that a file system that takes nothing is found at once. */
    moietyi_trace_flush(file);
    status = moietyi_trace_check(file);
    if (status == MOIETY_OK)
        *out = file;
    else
        moietyi_trace_free(file);
    return status;
}

void moietyi_trace_begin(struct moietyi_trace_file *file, uint64_t start_ns)
{
    file->now_ns = start_ns;
}

/* The index of a thread or a stream; its line, if it is new. */
static uint32_t trace_file_name(struct moietyi_trace_file *file,
                                struct moietyi_trace_map *names, uint64_t key,
                                void (*define)(struct moietyi_trace_file *file,
                                               uint64_t key, uint32_t index))
{
    uint32_t *known = moietyi_trace_map_find(names, key);
    if (known)
        return *known;
    uint32_t index = (uint32_t)names->count;
    if (names->count == NAMES_MAX)
        moietyi_trace_fail(file, MOIETY_E_TOO_LARGE);
    else if (!moietyi_trace_map_add(names, key, index))
        moietyi_trace_fail(file, MOIETY_E_NO_HOST_MEMORY);
    else
        define(file, key, index);
    return index;
}

static void define_thread(struct moietyi_trace_file *file, uint64_t key,
                          uint32_t index)
{
    put_text(file, "T");
    put_field(file, index);
    put_field(file, key);
    put_char(file, '\n');
}

static const char *stream_word(uint64_t stream)
{
    switch (stream) {
    case 1:
        return "legacy";
    case 2:
        return "per_thread";
    case UINT64_MAX:
        return "any";
    case UINT64_MAX - 1:
        return "done";
    default:
        return NULL;
    }
}

static void define_stream(struct moietyi_trace_file *file, uint64_t key,
                          uint32_t index)
{
    char number[24];
    const char *word = stream_word(key);
    (void)snprintf(number, sizeof(number), "0x%llx", (unsigned long long)key);
    put_text(file, "S");
    put_field(file, index);
    put_char(file, ' ');
    put_text(file, word ? word : number);
    put_char(file, '\n');
}

static uint32_t trace_file_stream_of(struct moietyi_trace_file *file,
                                     const moiety_history_entry *entry)
{
    /* To the pool 0 is the legacy stream, under whose name it says what was freed
     * on it. */
    moiety_stream stream = entry->stream ? entry->stream : MOIETY_STREAM_LEGACY;
    return trace_file_name(file, &file->streams, (uintptr_t)stream,
                           define_stream);
}

/* The beginning of an operation's line, up to the thread. */
static void trace_file_begin(struct moietyi_trace_file *file, char letter,
                             const moiety_history_entry *entry)
{
    uint32_t thread =
        trace_file_name(file, &file->threads, entry->thread_id, define_thread);
    begin_line(file);
    put_char(file, letter);
    /* Times of two drains may differ by what a clock's reading takes. */
    uint64_t passed_ns =
        entry->time_ns > file->now_ns ? entry->time_ns - file->now_ns : 0;
    file->now_ns += passed_ns;
    put_field(file, passed_ns);
    put_field(file, thread);
}

static void trace_file_end(struct moietyi_trace_file *file)
{
    put_char(file, '\n');
    file->sums.operation_count++;
}

/* Of an id and a stream. */
static void put_use(struct moietyi_trace_file *file, char letter,
                    const moiety_history_entry *entry, uint32_t value)
{
    bool has_stream = letter != 'w' && letter != 'x';
    uint32_t stream = has_stream ? trace_file_stream_of(file, entry) : 0;
    trace_file_begin(file, letter, entry);
    put_field(file, ID_OF(value));
    if (has_stream)
        put_field(file, stream);
    trace_file_end(file);
}

static void trace_file_put_size(struct moietyi_trace_file *file, char letter,
                                const moiety_history_entry *entry)
{
    uint32_t stream = trace_file_stream_of(file, entry);
    trace_file_begin(file, letter, entry);
    put_field(file, entry->size_bytes);
    put_field(file, stream);
    trace_file_end(file);
}

/* Ids are used again, the last first, so each is below the most that ever were
 * live. False: that is too many, or there is no memory. */
static bool take_id(struct moietyi_trace_file *file, uint32_t *out)
{
    if (file->free_id_count) {
        *out = file->free_ids[--file->free_id_count];
        return true;
    }
    if (file->id_count == LIVE_MAX) {
        moietyi_trace_fail(file, MOIETY_E_TOO_LARGE);
        return false;
    }
    if (file->id_count == file->id_capacity) {
        uint32_t capacity = file->id_capacity ? 2 * file->id_capacity : 1024;
        uint32_t *larger =
            realloc(file->free_ids, capacity * sizeof(*file->free_ids));
        if (!larger) {
            moietyi_trace_fail(file, MOIETY_E_NO_HOST_MEMORY);
            return false;
        }
        file->free_ids = larger;
        file->id_capacity = capacity;
    }
    *out = file->id_count++;
    return true;
}

static void trace_file_forget(struct moietyi_trace_file *file,
                              moiety_devptr address, uint32_t value)
{
    file->free_ids[file->free_id_count++] = ID_OF(value);
    moietyi_trace_map_remove(&file->live, address);
}

static void put_alloc(struct moietyi_trace_file *file,
                      const moiety_history_entry *entry)
{
    uint32_t id = 0;
    const uint32_t *before =
        moietyi_trace_map_find(&file->live, entry->address);
    if (before) {
        uint32_t value = *before;
        file->implied_frees += !(value & IS_REQUESTED);
        put_use(file, 'f', entry, value);
        trace_file_forget(file, entry->address, value);
    }
    if (!take_id(file, &id))
        return;
    if (!moietyi_trace_map_add(&file->live, entry->address, id)) {
        moietyi_trace_fail(file, MOIETY_E_NO_HOST_MEMORY);
        return;
    }
    uint32_t stream = trace_file_stream_of(file, entry);
    trace_file_begin(file, 'a', entry);
    put_field(file, id);
    put_field(file, entry->size_bytes);
    put_field(file, stream);
    trace_file_end(file);
}

static void put_free(struct moietyi_trace_file *file, char letter,
                     const moiety_history_entry *entry)
{
    uint32_t *live = moietyi_trace_map_find(&file->live, entry->address);
    if (!live || *live & IS_REQUESTED) {
        file->dropped_frees++;
        return;
    }
    if (*live & IS_EXPORTED) {
        put_use(file, 'q', entry, *live);
        *live |= IS_REQUESTED;
    } else {
        put_use(file, letter, entry, *live);
        trace_file_forget(file, entry->address, *live);
    }
}

static void put_other_use(struct moietyi_trace_file *file, char letter,
                          const moiety_history_entry *entry)
{
    uint32_t *live = moietyi_trace_map_find(&file->live, entry->address);
    if (!live || *live & IS_REQUESTED) {
        file->dropped_uses++;
        return;
    }
    if (letter == 'x')
        *live |= IS_EXPORTED;
    put_use(file, letter, entry, *live);
}

/* Blocks that were freed while they were exported can be reused. The history
 * does not say of which segments: so of all. */
static void put_release(struct moietyi_trace_file *file,
                        const moiety_history_entry *entry)
{
    struct moietyi_trace_map *live = &file->live;
    for (uint64_t i = 0; live->places && i < UINT64_C(1) << live->order;) {
        struct moietyi_trace_place *place = &live->places[i];
        if (place->is_used && place->value & IS_REQUESTED) {
            /* Another one may move here. */
            put_use(file, 'f', entry, place->value);
            trace_file_forget(file, place->key, place->value);
        } else {
            place->value &= ~IS_EXPORTED;
            i++;
        }
    }
}

static void put_done(struct moietyi_trace_file *file,
                     const moiety_history_entry *entry)
{
    uint32_t stream;
    switch (entry->kind) {
    case MOIETY_HISTORY_ALLOC:
        if (entry->address)
            put_alloc(file, entry);
        break;
    case MOIETY_HISTORY_FREE:
        put_free(file, 'f', entry);
        break;
    case MOIETY_HISTORY_FREE_SIZED:
        put_free(file, 's', entry);
        break;
    case MOIETY_HISTORY_FREE_AFTER:
        put_free(file, 'w', entry);
        break;
    case MOIETY_HISTORY_RECORD_USE:
        put_other_use(file, 'u', entry);
        break;
    case MOIETY_HISTORY_EXPORT:
        put_other_use(file, 'x', entry);
        break;
    case MOIETY_HISTORY_RELEASE:
        put_release(file, entry);
        break;
    case MOIETY_HISTORY_RETIRE:
        stream = trace_file_stream_of(file, entry);
        trace_file_begin(file, 'r', entry);
        put_field(file, stream);
        trace_file_end(file);
        break;
    case MOIETY_HISTORY_GROW:
    case MOIETY_HISTORY_TRIM:
        if (entry->size_bytes)
            trace_file_put_size(
                file, entry->kind == MOIETY_HISTORY_GROW ? 'g' : 't', entry);
        break;
    default:
        break;
    }
}

void moietyi_trace_put(struct moietyi_trace_file *file,
                       const moiety_history_entry *entry)
{
    if (file->sums.status != MOIETY_OK)
        return;
    if (entry->status == MOIETY_OK)
        put_done(file, entry);
    else if (entry->kind == MOIETY_HISTORY_ALLOC &&
             entry->status == MOIETY_E_NO_DEVICE_MEMORY)
        trace_file_put_size(file, 'o', entry);
}

void moietyi_trace_count(struct moietyi_trace_file *file, const char *key,
                         uint64_t count)
{
    if (!count)
        return;
    put_text(file, "I ");
    put_text(file, key);
    put_field(file, count);
    put_char(file, '\n');
}

void moietyi_trace_sums(const struct moietyi_trace_file *file,
                        struct moietyi_trace_sums *out)
{
    *out = file->sums;
}

moiety_status moietyi_trace_check(const struct moietyi_trace_file *file)
{
    const struct moietyi_trace_sums *sums = &file->sums;
    if (sums->status == MOIETY_OK)
        return MOIETY_OK;
    return moietyi_fail(
        sums->status, "recording to '%s' ended after %llu operations: %s",
        file->path, (unsigned long long)sums->operation_count,
        sums->system_error ? strerror_r(sums->system_error, (char[64]){0}, 64)
        : sums->status == MOIETY_E_TOO_LARGE
            ? "a trace has no more than 65536 threads and streams, and 1048576 "
              "live allocations"
            : "no memory");
}

void moietyi_trace_end(struct moietyi_trace_file *file)
{
    moietyi_trace_count(file, "dropped_frees", file->dropped_frees);
    moietyi_trace_count(file, "dropped_uses", file->dropped_uses);
    moietyi_trace_count(file, "implied_frees", file->implied_frees);
    put_text(file, "E");
    put_field(file, file->sums.operation_count);
    put_char(file, '\n');
    moietyi_trace_flush(file);
    /* Some file systems only report here that they are full. */
    if (close(file->fd) != 0 && file->sums.status == MOIETY_OK) {
        file->sums.system_error = errno;
        moietyi_trace_fail(file, MOIETY_E_INVALID);
    }
    file->fd = -1;
}

void moietyi_trace_free(struct moietyi_trace_file *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        (void)close(file->fd);
    moietyi_trace_map_fini(&file->live);
    moietyi_trace_map_fini(&file->threads);
    moietyi_trace_map_fini(&file->streams);
    free(file->free_ids);
    free(file->path);
    free(file);
}
