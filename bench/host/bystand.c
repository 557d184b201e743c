/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "bench/host/bystand.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/base/clock.h"
#include "bench/base/device.h"
#include "bench/host/rig.h"
#include "bench/host/row.h"

#define COPY_BYTES ((size_t)64 << 10)

extern char **environ;

struct bystander;

struct call {
    const char *key;
    const char *process_key;
    CUresult (*make)(struct bystander *bystander);
};

struct bystander {
    const struct call *call;
    struct bystanders *all;
    pthread_t thread;
    bool is_there;
    CUdeviceptr there;
    uint64_t longest_ns;
};

static CUresult get_info(struct bystander *bystander)
{
    size_t free_bytes;
    size_t all_bytes;
    (void)bystander;
    return host_driver()->cuMemGetInfo(&free_bytes, &all_bytes);
}

/* A kernel of the driver's. */
static CUresult launch(struct bystander *bystander)
{
    return host_driver()->cuMemsetD8Async(bystander->there, 1, COPY_BYTES,
                                          bench_device_streams[0]);
}

static CUresult copy(struct bystander *bystander)
{
    return host_driver()->cuMemcpyDtoDAsync(bystander->there + COPY_BYTES,
                                            bystander->there, COPY_BYTES,
                                            bench_device_streams[0]);
}

/* Large, so that the driver has to map memory. */
static CUresult allocate(struct bystander *bystander)
{
    CUdeviceptr address;
    CUresult result = host_driver()->cuMemAlloc(&address, 4 * HOST_MIB);
    (void)bystander;
    return result == CUDA_SUCCESS ? host_driver()->cuMemFree(address) : result;
}

static const struct call calls[] = {
    {"others_wait_ns", "process_wait_ns", get_info},
    {"others_launch_ns", "process_launch_ns", launch},
    {"others_copy_ns", "process_copy_ns", copy},
    {"others_alloc_ns", "process_alloc_ns", allocate},
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))
/* Between two calls, so that no queue fills. */
#define REST_NS 50000

struct bystanders {
    struct bystander each[CALLS];
    atomic_bool is_over;
    atomic_uint begun; /* of `each` */
    pid_t child;
    FILE *to_child;
    FILE *from_child;
};

static void *stand_by(void *argument)
{
    struct bystander *own = argument;
    bool is_begun = false;
    bool is_well = bench_device_attach(0) &&
                   host_device_alloc(2 * COPY_BYTES, &own->there);
    while (is_well && !atomic_load(&own->all->is_over)) {
        uint64_t begun_ns = clock_now_ns();
        is_well = own->call->make(own) == CUDA_SUCCESS;
        uint64_t took_ns = clock_now_ns() - begun_ns;
        /* The first may load what later ones use. */
        if (is_begun && took_ns > own->longest_ns)
            own->longest_ns = took_ns;
        if (!is_begun)
            (void)atomic_fetch_add(&own->all->begun, 1);
        is_begun = true;
        const struct timespec rest = {0, REST_NS};
        (void)nanosleep(&rest, NULL);
    }
    if (!is_begun)
        (void)atomic_fetch_add(&own->all->begun, 1);
    (void)host_driver()->cuStreamSynchronize(bench_device_streams[0]);
    host_device_free(own->there);
    return NULL;
}

static void threads_begin(struct bystanders *all)
{
    unsigned count = 0;
    for (unsigned i = 0; i < CALLS; i++) {
        struct bystander *one = &all->each[i];
        *one = (struct bystander){.call = &calls[i], .all = all};
        one->is_there = pthread_create(&one->thread, NULL, stand_by, one) == 0;
        count += one->is_there;
    }
    while (atomic_load(&all->begun) < count)
        (void)usleep(100);
}

static void threads_end(struct bystanders *all)
{
    atomic_store(&all->is_over, true);
    for (unsigned i = 0; i < CALLS; i++)
        if (all->each[i].is_there)
            (void)pthread_join(all->each[i].thread, NULL);
}

/* Both ends of what two pipes have: ours, and those that become the child's. */
static bool child_begin(struct bystanders *all)
{
    char self[] = "/proc/self/exe";
    char what[] = "--child=bystand";
    char *const argv[] = {self, what, NULL};
    int to[2];
    int from[2];
    posix_spawn_file_actions_t actions;
    if (pipe2(to, O_CLOEXEC) != 0)
        return false;
    if (pipe2(from, O_CLOEXEC) != 0) {
        (void)close(to[0]);
        (void)close(to[1]);
        return false;
    }
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
    (void)posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
    bool is_there =
        posix_spawn(&all->child, self, &actions, NULL, argv, environ) == 0;
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(to[0]);
    (void)close(from[1]);
    all->to_child = fdopen(to[1], "w");
    all->from_child = fdopen(from[0], "r");
    return is_there && all->from_child && getc(all->from_child) == '\n';
}

struct bystanders *bystand_begin(const struct host_options *options)
{
    struct bystanders *all = calloc(1, sizeof(*all));
    char device[24];
    if (!all)
        return NULL;
    /* Our driver has read it. */
    (void)snprintf(device, sizeof(device), "%" PRIu64, options->others_device);
    if (options->others_device != HOST_OTHERS_OURS)
        (void)setenv("CUDA_VISIBLE_DEVICES", device, 1);
    if (!child_begin(all))
        all->child = 0;
    threads_begin(all);
    return all;
}

static void child_end(struct bystanders *all, bool is_measured)
{
    uint64_t ns;
    if (all->to_child)
        (void)fclose(all->to_child);
    for (unsigned i = 0; i < CALLS && all->child; i++)
        if (fscanf(all->from_child, "%" SCNu64, &ns) == 1 && is_measured)
            host_row_count(calls[i].process_key, ns);
    if (all->from_child)
        (void)fclose(all->from_child);
    if (all->child)
        (void)waitpid(all->child, NULL, 0);
}

void bystand_end(struct bystanders *all, bool is_measured)
{
    if (!all)
        return;
    threads_end(all);
    for (unsigned i = 0; i < CALLS; i++)
        if (is_measured)
            host_row_count(calls[i].key, all->each[i].longest_ns);
    child_end(all, is_measured);
    free(all);
}

int bystand_process(void)
{
    static struct bystanders all;
    const char *why = bench_device_start(1);
    if (why) {
        (void)fprintf(stderr, "host: another process: %s\n", why);
        return 1;
    }
    threads_begin(&all);
    (void)putchar('\n');
    (void)fflush(stdout);
    while (getchar() != EOF)
        continue;
    threads_end(&all);
    for (unsigned i = 0; i < CALLS; i++)
        (void)printf("%" PRIu64 "\n", all.each[i].longest_ns);
    bench_device_stop();
    return 0;
}
