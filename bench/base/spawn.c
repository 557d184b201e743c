/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "bench/base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/base/clock.h"

/* Longer lines are cut. */
#define LINE_BYTES 4096U

/* A signal that comes between a look at the flag and the wait is noticed after
 * so long. */
#define LOOK_MS 500U

struct reader {
    struct spawn *spawn;
    int fd;
    size_t used;
    char line[LINE_BYTES];
};

static volatile sig_atomic_t is_interrupted;

static void note_signal(int number)
{
    (void)number;
    is_interrupted = 1;
}

void spawn_catch_signals(void)
{
    struct sigaction action = {.sa_handler = note_signal};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

bool spawn_is_interrupted(void)
{
    return is_interrupted;
}

/* Also what is left without an end of line when the program ends. */
static void hand_over(struct reader *reader)
{
    reader->line[reader->used] = '\0';
    if (reader->used > 0)
        reader->spawn->take(reader->line, reader->spawn->context);
    reader->used = 0;
}

/* False at the end of what is printed. */
static bool read_some(struct reader *reader)
{
    char bytes[LINE_BYTES];
    ssize_t count = read(reader->fd, bytes, sizeof(bytes));
    if (count < 0)
        return errno == EINTR;
    for (ssize_t i = 0; i < count; i++) {
        if (reader->used < LINE_BYTES - 1)
            reader->line[reader->used++] = bytes[i];
        if (bytes[i] == '\n')
            hand_over(reader);
    }
    if (count == 0)
        hand_over(reader);
    return count > 0;
}

/* At most LOOK_MS. */
static int wait_ms(uint64_t deadline_ns)
{
    uint64_t now_ns = clock_now_ns();
    if (!deadline_ns || deadline_ns >= now_ns + LOOK_MS * UINT64_C(1000000))
        return LOOK_MS;
    return deadline_ns <= now_ns ? 0
                                 : (int)((deadline_ns - now_ns) / 1000000 + 1);
}

/* 0 at the end of what is printed, or why the program must be killed. What it
 * printed in time counts, however late we come to read it. */
static int read_lines(struct reader *reader)
{
    for (;;) {
        struct pollfd ready = {.fd = reader->fd, .events = POLLIN};
        uint64_t deadline_ns = reader->spawn->deadline_ns;
        if (is_interrupted)
            return SPAWN_INTERRUPTED;
        int count = poll(&ready, 1, wait_ms(deadline_ns));
        if (count > 0 && !read_some(reader))
            return 0;
        if (count == 0 && deadline_ns && clock_now_ns() >= deadline_ns)
            return SPAWN_OVERRAN;
    }
}

static int start(const struct spawn *spawn, int output, pid_t *out)
{
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return -1;
    int error = posix_spawn_file_actions_adddup2(&actions, output, 1);
    if (!error && spawn->is_quiet)
        error = posix_spawn_file_actions_addopen(&actions, 2, "/dev/null",
                                                 O_WRONLY, 0);
    if (!error)
        error = posix_spawnp(out, spawn->argv[0], &actions, NULL, spawn->argv,
                             environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    return error ? -1 : 0;
}

static int wait_for(pid_t process)
{
    int status;
    while (waitpid(process, &status, 0) < 0)
        if (errno != EINTR)
            return SPAWN_ENDED;
    return WIFEXITED(status) ? WEXITSTATUS(status) : SPAWN_ENDED;
}

int spawn_run(struct spawn *spawn)
{
    int ends[2];
    pid_t process;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return SPAWN_ENDED;
    int result = start(spawn, ends[1], &process);
    (void)close(ends[1]);
    if (result == 0) {
        struct reader reader = {.spawn = spawn, .fd = ends[0]};
        int why = read_lines(&reader);
        if (why != 0)
            (void)kill(process, SIGKILL);
        result = wait_for(process);
        if (why != 0)
            result = why;
    }
    (void)close(ends[0]);
    return result;
}
