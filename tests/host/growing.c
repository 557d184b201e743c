/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A process that grows a host arena on the stand-in, segment by segment.
 *
 *   growing once [FLAG...]      to SEGMENTS segments; each page must be near
 *   growing forever [FLAG...]   up and down again, until it is killed
 *   growing STAGE N [FLAG...]   as once, but kills itself at the N-th call of
 *                               map, bind, start, touch or read_back, or when
 *                               the N-th segment is registered; the first three
 *                               have one
 *
 *   FLAG  locked | strict | 2MiB | on=NODE
 *
 * Says "growing" when it is about to begin. Exit status: 1 when it could not
 * grow, 2 for bad arguments, 3 when STAGE has no N-th call.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "moiety/host.h"
#include "tests/support/tools/failing_steps.h"

#define SEGMENTS 4U
#define SEGMENT_BYTES (UINT64_C(4) << 20)
#define ALL_BYTES (SEGMENTS * SEGMENT_BYTES)

struct stage {
    const char *name;
    enum failing_step step;
};

static const struct stage stages[] = {
    {"map", FAILING_MAP},
    {"bind", FAILING_BIND},
    {"start", FAILING_START},
    {"touch", FAILING_POPULATE},
    {"read_back", FAILING_READ_BACK},
    /* The driver is not wrapped: told by the progress. */
    {"register", FAILING_STEP_COUNT},
};

struct plan {
    moiety_host_options options;
    const struct stage *stage; /* NULL: not to be killed by itself */
    unsigned number;
    bool is_endless;
    bool is_locked;
};

static int usage(void)
{
    (void)fputs("usage: growing once | forever | STAGE N [locked] [strict] "
                "[2MiB] [on=NODE]\n",
                stderr);
    return 2;
}

static int refused(const char *what, moiety_status status)
{
    (void)fprintf(stderr, "growing: %s: %s: %s\n", what,
                  moiety_status_name(status), moiety_last_error_message());
    return 1;
}

/* Pinned memory is locked memory; the stand-in's is only so if that is asked
 * for. What is mapped from now on: not the program's own files, which others
 * may have mapped too. */
static bool lock_what_comes(void)
{
    if (mlockall(MCL_FUTURE | MCL_ONFAULT) == 0)
        return true;
    perror("growing: mlockall");
    return false;
}

static bool read_flag(const char *flag, struct plan *out)
{
    if (strcmp(flag, "locked") == 0) {
        out->is_locked = true;
        return true;
    }
    if (strcmp(flag, "strict") == 0) {
        out->options.flags |= MOIETY_HOST_STRICT;
        return true;
    }
    if (strcmp(flag, "2MiB") == 0) {
        out->options.flags |= MOIETY_HOST_HUGE_2MIB;
        return true;
    }
    if (strncmp(flag, "on=", 3) != 0)
        return false;
    unsigned long node = strtoul(flag + 3, NULL, 10);
    out->options.policy = MOIETY_HOST_EXPLICIT;
    out->options.nodes[node / 64 % 4] |= UINT64_C(1) << node % 64;
    return true;
}

static bool read_stage(const char *name, const char *number, struct plan *out)
{
    char *end;
    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++)
        if (strcmp(name, stages[i].name) == 0)
            out->stage = &stages[i];
    if (!out->stage || !number)
        return false;
    out->number = (unsigned)strtoul(number, &end, 10);
    return out->number > 0 && !*end;
}

static bool read_plan(char **words, struct plan *out)
{
    *out = (struct plan){.options = MOIETY_HOST_OPTIONS_INIT};
    out->options.first_segment_bytes = SEGMENT_BYTES;
    out->options.largest_segment_bytes = SEGMENT_BYTES;
    out->options.touch_threads = 2;
    if (!*words)
        return false;
    out->is_endless = strcmp(*words, "forever") == 0;
    if (!out->is_endless && strcmp(*words, "once") != 0) {
        if (!read_stage(words[0], words[1], out))
            return false;
        words++;
    }
    for (words++; *words; words++)
        if (!read_flag(*words, out))
            return false;
    return true;
}

/* A segment has been registered: next the pool has it. */
static void on_progress(void *data, uint64_t done_bytes, uint64_t total_bytes)
{
    const struct plan *plan = data;
    (void)total_bytes;
    if (plan->stage && plan->stage->step == FAILING_STEP_COUNT &&
        done_bytes >= plan->number * SEGMENT_BYTES)
        (void)raise(SIGKILL);
}

static int grow_once(moiety_host *host, struct plan *plan)
{
    moiety_host_stats stats = {.struct_size = (uint32_t)sizeof(stats)};
    moiety_status status =
        moiety_host_reserve(host, ALL_BYTES, 0, on_progress, plan);
    if (status == MOIETY_OK)
        status = moiety_host_get_stats(host, &stats);
    if (status != MOIETY_OK)
        return refused("reserve", status);
    if (stats.pinned_bytes >= ALL_BYTES &&
        stats.pages_near == stats.pages_asked)
        return 0;
    (void)fprintf(stderr, "growing: %llu of %llu pages are near\n",
                  (unsigned long long)stats.pages_near,
                  (unsigned long long)stats.pages_asked);
    return 1;
}

static int grow_forever(moiety_host *host, struct plan *plan)
{
    int result;
    do {
        result = grow_once(host, plan);
        moiety_status status = moiety_host_trim(host, 0, NULL);
        if (status != MOIETY_OK)
            result = refused("trim", status);
    } while (result == 0);
    return result;
}

int main(int argc, char **argv)
{
    struct plan plan;
    moiety_host *host;
    if (argc < 2 || !read_plan(argv + 1, &plan))
        return usage();
    moiety_status status = moiety_host_create(&plan.options, &host);
    if (status != MOIETY_OK)
        return refused("create", status);
    if (plan.is_locked && !lock_what_comes())
        return 1;
    (void)puts("growing");
    (void)fflush(stdout);
    if (plan.stage && plan.stage->step != FAILING_STEP_COUNT)
        failing_steps_arm_kill(plan.stage->step, plan.number);
    int result =
        plan.is_endless ? grow_forever(host, &plan) : grow_once(host, &plan);
    (void)failing_steps_disarm();
    if (result == 0 && plan.stage)
        result = 3;
    status = moiety_host_destroy(host, NULL);
    return status == MOIETY_OK ? result : refused("destroy", status);
}
