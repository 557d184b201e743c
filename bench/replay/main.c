/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Replays traces on allocators: --help says how. Each row is made by a process
 * of its own, this program again, whose end it is when a subject crashes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/base/command_line.h"
#include "bench/base/machine.h"
#include "bench/replay/child.h"
#include "bench/replay/row.h"

#define ARGUMENTS_MAX 24U
#define NUMBER_BYTES 24U

/* What the stand-in has room for: without a size, and at the most; and what a
 * subject may take of what is live. */
#define STANDIN_MEMORY "MOIETY_STANDIN_MEMORY"
#define STANDIN_BYTES (UINT64_C(8) << 30)
#define STANDIN_BYTES_MAX (UINT64_C(1) << 40)
#define ROOM_FACTOR 4U

/* What a child is called with. */
struct call {
    char *argv[ARGUMENTS_MAX];
    char subject[96];
    char repeat[NUMBER_BYTES + 16];
    char limit[NUMBER_BYTES + 16];
    char threads[NUMBER_BYTES + 16];
    char samples[NUMBER_BYTES + 16];
    char touch[NUMBER_BYTES + 16];
    char lag[LAG_TEXT_BYTES + 16];
    char commit[MACHINE_TEXT_BYTES + 16];
    unsigned count;
};

struct parent {
    const struct replay_options *options;
    struct machine machine;
    struct replay_source source;
    char *path;
    int output;
    enum replay_exit worst;
    unsigned done;
    unsigned wanted;
    bool has_memory_size; /* the user has said how much the stand-in has */
};

static void add(struct call *call, char *argument)
{
    call->argv[call->count++] = argument;
}

/* One row that is to be made. */
struct wanted {
    const struct subject *subject;
    const struct lag_plan *lag;
    uint32_t repeat;
};

static void write_values(const struct parent *parent,
                         const struct wanted *wanted, struct call *out)
{
    const struct replay_options *options = parent->options;
    (void)snprintf(out->subject, sizeof(out->subject), "--subject=%s",
                   wanted->subject->name);
    (void)snprintf(out->repeat, sizeof(out->repeat), "--child=%u",
                   wanted->repeat);
    (void)snprintf(out->lag, sizeof(out->lag), "--lag=%s", wanted->lag->text);
    (void)snprintf(out->limit, sizeof(out->limit), "--limit=%llu",
                   (unsigned long long)options->limit_bytes);
    (void)snprintf(out->threads, sizeof(out->threads), "--threads=%u",
                   options->threads);
    (void)snprintf(out->samples, sizeof(out->samples), "--samples=%u",
                   options->samples);
    (void)snprintf(out->touch, sizeof(out->touch), "--touch=%u",
                   options->touch_pages);
    (void)snprintf(out->commit, sizeof(out->commit), "--commit=%s",
                   parent->machine.commit);
}

static void make_call(const struct parent *parent, const struct wanted *wanted,
                      struct call *out)
{
    const struct replay_options *options = parent->options;
    *out = (struct call){0};
    write_values(parent, wanted, out);
    add(out, "replay");
    add(out, out->subject);
    add(out, out->repeat);
    add(out, out->lag);
    add(out, out->samples);
    add(out, out->touch);
    add(out, out->commit);
    if (options->limit_bytes)
        add(out, out->limit);
    if (options->threads)
        add(out, out->threads);
    if (options->is_concurrent)
        add(out, "--mode=concurrent");
    if (options->is_bisect)
        add(out, options->is_fit ? "--fit" : "--bisect");
    if (options->is_map)
        add(out, "--map");
    add(out, "--");
    add(out, parent->path);
}

static int spawn(const struct parent *parent, char **argv, pid_t *out)
{
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return -1;
    int error = posix_spawn_file_actions_adddup2(&actions, parent->output, 1);
    if (!error)
        error =
            posix_spawn(out, "/proc/self/exe", &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    return error ? -1 : 0;
}

/* Of a child that could not write its own. */
static void write_refusal(struct parent *parent, const struct wanted *wanted,
                          const char *why)
{
    struct replay_options options = *parent->options;
    FILE *file = fdopen(dup(parent->output), "w");
    options.repeat = wanted->repeat;
    options.lags.plans[0] = *wanted->lag;
    options.commit = parent->machine.commit;
    struct replay_row row = {
        .options = &options,
        .subject = wanted->subject,
        .source = &parent->source,
        .path = parent->path,
        .refused = why,
        .smallest_limit_bytes = SUBJECT_UNKNOWN,
    };
    if (!file)
        return;
    replay_row_write(file, &row);
    (void)fclose(file);
}

static void note(struct parent *parent, enum replay_exit code)
{
    if (code > parent->worst)
        parent->worst = code;
}

static void take_end(struct parent *parent, const struct wanted *wanted,
                     int status)
{
    char why[64];
    if (WIFEXITED(status) && WEXITSTATUS(status) <= REPLAY_EXIT_TRACE) {
        note(parent, (enum replay_exit)WEXITSTATUS(status));
        return;
    }
    if (WIFSIGNALED(status))
        (void)snprintf(why, sizeof(why), "its process was ended by signal %d",
                       WTERMSIG(status));
    else
        (void)snprintf(why, sizeof(why), "its process ended with %d",
                       WEXITSTATUS(status));
    write_refusal(parent, wanted, why);
    note(parent, REPLAY_EXIT_FAILED);
}

static void run_child(struct parent *parent, const struct wanted *wanted)
{
    struct call call;
    pid_t child;
    int status;
    make_call(parent, wanted, &call);
    if (parent->options->is_progress)
        (void)fprintf(stderr, "replay: %u of %u: %s on %s\n", ++parent->done,
                      parent->wanted, parent->path, wanted->subject->name);
    if (spawn(parent, call.argv, &child) != 0) {
        write_refusal(parent, wanted, "its process cannot be started");
        note(parent, REPLAY_EXIT_FAILED);
        return;
    }
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return;
    take_end(parent, wanted, status);
}

static void check_trace(struct parent *parent)
{
    FILE *file = fdopen(dup(parent->output), "w");
    if (!file)
        return;
    replay_row_write_trace(file, parent->path, &parent->source);
    (void)fclose(file);
}

static void run_children(struct parent *parent)
{
    const struct replay_options *options = parent->options;
    for (uint32_t repeat = 0; repeat < options->repeats; repeat++)
        for (uint32_t l = 0; l < options->lags.count; l++)
            for (uint32_t s = 0; s < options->subjects.count; s++)
                run_child(parent,
                          &(struct wanted){options->subjects.subjects[s],
                                           &options->lags.plans[l], repeat});
}

/* A replay on the stand-in fails for want of memory where the user says how
 * much there is, not where a recording is of a larger GPU. */
static void make_room(const struct parent *parent)
{
    char text[NUMBER_BYTES];
    uint64_t live_bytes = parent->source.about.peak_live_bytes;
    uint64_t room_bytes = live_bytes < STANDIN_BYTES_MAX / ROOM_FACTOR
                              ? live_bytes * ROOM_FACTOR
                              : STANDIN_BYTES_MAX;
    if (parent->has_memory_size)
        return;
    if (room_bytes < STANDIN_BYTES)
        room_bytes = STANDIN_BYTES;
    (void)snprintf(text, sizeof(text), "%" PRIu64, room_bytes);
    (void)setenv(STANDIN_MEMORY, text, 1);
}

static void run_trace(struct parent *parent, char *path)
{
    const struct replay_options *options = parent->options;
    parent->path = path;
    if (!replay_source_open(&parent->source, path, options->threads)) {
        replay_trace_complain(&parent->source.trace, path);
        note(parent, REPLAY_EXIT_TRACE);
        return;
    }
    make_room(parent);
    if (options->is_check)
        check_trace(parent);
    else
        run_children(parent);
    replay_source_close(&parent->source);
}

static enum replay_exit run_all(const struct replay_options *options,
                                int output)
{
    struct parent parent = {
        .options = options,
        .output = output,
        .wanted = (unsigned)options->path_count * options->repeats *
                  options->lags.count * options->subjects.count,
        .has_memory_size = getenv(STANDIN_MEMORY) != NULL,
    };
    machine_describe(options->commit, &parent.machine);
    for (int i = 0; i < options->path_count; i++)
        run_trace(&parent, options->paths[i]);
    return parent.worst;
}

static int open_output(const char *path)
{
    if (!path)
        return STDOUT_FILENO;
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0)
        perror(path);
    return file;
}

static enum replay_exit start(const struct replay_options *options)
{
    if (!command_line_go_to_user())
        return REPLAY_EXIT_USAGE;
    if (!command_line_use_driver(options->driver))
        return REPLAY_EXIT_FAILED;
    int output = open_output(options->json_path);
    return output < 0 ? REPLAY_EXIT_USAGE : run_all(options, output);
}

int main(int argc, char **argv)
{
    struct replay_options options;
    if (replay_options_parse(argc, argv, &options) != 0)
        return REPLAY_EXIT_USAGE;
    if (options.is_help || options.is_list) {
        if (options.is_help)
            replay_options_print_help();
        else
            replay_options_print_list();
        return REPLAY_EXIT_OK;
    }
    if (options.is_child)
        return (int)replay_child_run(&options, stdout);
    return (int)start(&options);
}
