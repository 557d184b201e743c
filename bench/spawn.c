/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "bench/spawn.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void read_lines(int fd, void (*take)(const char *line, void *context),
                       void *context)
{
    FILE *stream = fdopen(fd, "r");
    char *line = NULL;
    size_t size_bytes = 0;
    if (!stream) {
        (void)close(fd);
        return;
    }
    while (getline(&line, &size_bytes, stream) > 0)
        take(line, context);
    free(line);
    (void)fclose(stream);
}

static int start(char *const argv[], int is_quiet, int output, pid_t *out)
{
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return -1;
    int error = posix_spawn_file_actions_adddup2(&actions, output, 1);
    if (!error && is_quiet)
        error = posix_spawn_file_actions_addopen(&actions, 2, "/dev/null",
                                                 O_WRONLY, 0);
    if (!error)
        error = posix_spawnp(out, argv[0], &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    return error ? -1 : 0;
}

int spawn_lines(char *const argv[], int is_quiet,
                void (*take)(const char *line, void *context), void *context)
{
    int ends[2];
    pid_t process;
    int status;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    int result = start(argv, is_quiet, ends[1], &process);
    (void)close(ends[1]);
    if (result != 0) {
        (void)close(ends[0]);
        return -1;
    }
    read_lines(ends[0], take, context);
    if (waitpid(process, &status, 0) != process || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}
