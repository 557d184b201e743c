/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "bench/base/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/base/spawn.h"

static void set_text(char *text, const char *value)
{
    (void)snprintf(text, MACHINE_TEXT_BYTES, "%.*s", (int)strcspn(value, "\n"),
                   value);
}

static void read_cpu(char *text)
{
    char line[1024];
    FILE *file = fopen("/proc/cpuinfo", "re");
    set_text(text, "unknown");
    while (file && fgets(line, sizeof(line), file)) {
        char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !value)
            continue;
        set_text(text, value + 1 + strspn(value + 1, " "));
        break;
    }
    if (file)
        (void)fclose(file);
}

static void take_commit(const char *line, void *context)
{
    set_text(context, line);
}

static void ask_git(char *text)
{
    const char *folder = getenv("BUILD_WORKSPACE_DIRECTORY");
    char workspace[4096];
    (void)snprintf(workspace, sizeof(workspace), "%s", folder ? folder : ".");
    char *argv[] = {"git",         "-C",       workspace,
                    "describe",    "--always", "--abbrev=40",
                    "--exclude=*", "--dirty",  NULL};
    struct spawn git = {
        .argv = argv, .is_quiet = true, .take = take_commit, .context = text};
    if (spawn_run(&git) != 0)
        set_text(text, "unknown");
}

void machine_describe(const char *commit, struct machine *out)
{
    read_cpu(out->cpu);
    out->processor_count = sysconf(_SC_NPROCESSORS_ONLN);
    set_text(out->commit, "unknown");
    if (commit)
        set_text(out->commit, commit);
    else
        ask_git(out->commit);
}
