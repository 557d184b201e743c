/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "numa/arena/turn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/base/clock.h"

#define PATH_BYTES 512U
#define NAP_NS 200000L
#define PATIENCE_MOST 16U

/* The file, or -1. Another user may have made what is there. */
static int turn_open_in(const char *folder)
{
    char path[PATH_BYTES];
    struct stat found;
    int length = snprintf(path, sizeof(path), "%s/moiety-pin.%lu", folder,
                          (unsigned long)geteuid());
    if (length < 0 || (size_t)length >= sizeof(path))
        return -1;
    int file =
        open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
             S_IRUSR | S_IWUSR);
    if (file < 0)
        return -1;
    /* With a second name it may be any file of this user. */
    if (fstat(file, &found) == 0 && S_ISREG(found.st_mode) &&
        found.st_nlink == 1 && found.st_uid == geteuid() &&
        (found.st_mode & 077) == 0)
        return file;
    (void)close(file);
    return -1;
}

void moietyi_turn_open(struct moietyi_turn *turn, uint64_t patience_ns,
                       bool is_inner)
{
    char folder[PATH_BYTES];
    const char *named = getenv("MOIETY_LOCK_DIR");
    *turn = (struct moietyi_turn){.file = -1, .patience_ns = patience_ns};
    if (is_inner)
        return;
    if (named && *named) {
        turn->file = turn_open_in(named);
        return;
    }
    (void)snprintf(folder, sizeof(folder), "/run/user/%lu",
                   (unsigned long)geteuid());
    turn->file = turn_open_in(folder);
    if (turn->file < 0)
        turn->file = turn_open_in("/tmp");
}

void moietyi_turn_close(struct moietyi_turn *turn)
{
    if (turn->file >= 0)
        (void)close(turn->file);
    turn->file = -1;
}

/* A write beyond the limit of files ends the process, by SIGXFSZ. */
static bool turn_may_write(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
           limit.rlim_cur >= sizeof(uint64_t);
}

/* How many turns were taken: others see by it that it is passed on. */
static uint64_t turn_number(const struct moietyi_turn *turn)
{
    uint64_t number = 0;
    return pread(turn->file, &number, sizeof(number), 0) == sizeof(number)
               ? number
               : 0;
}

/* If it cannot be written, others only lose patience sooner. */
static void turn_count(struct moietyi_turn *turn)
{
    uint64_t number = turn_number(turn) + 1;
    turn->is_held = true;
    turn->is_impatient = false;
    if (!turn_may_write() || pwrite(turn->file, &number, sizeof(number), 0) < 0)
        turn->is_impatient = true;
}

void moietyi_turn_take(struct moietyi_turn *turn,
                       struct moietyi_progress *progress)
{
    if (turn->file < 0)
        return;
    uint64_t now_ns = moietyi_now_ns();
    uint64_t last_ns = now_ns + PATIENCE_MOST * turn->patience_ns;
    uint64_t end_ns = now_ns + turn->patience_ns;
    uint64_t seen = turn_number(turn);
    while (flock(turn->file, LOCK_EX | LOCK_NB) != 0) {
        /* A file system without locks never lets anybody in. */
        bool is_refused = errno != EWOULDBLOCK && errno != EINTR;
        uint64_t number = turn_number(turn);
        now_ns = moietyi_now_ns();
        if (number != seen)
            end_ns = now_ns + turn->patience_ns;
        seen = number;
        if (is_refused || turn->is_impatient || now_ns >= end_ns ||
            now_ns >= last_ns || moietyi_progress_is_over(progress)) {
            turn->is_impatient = true;
            return;
        }
        moietyi_nap(NAP_NS);
        moietyi_progress_tick(progress, 0);
    }
    turn_count(turn);
}

void moietyi_turn_end(struct moietyi_turn *turn)
{
    if (turn->is_held)
        (void)flock(turn->file, LOCK_UN);
    turn->is_held = false;
}
