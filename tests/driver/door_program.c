/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * One process that goes through the driver door, for tests that need a fresh
 * one per case: a driver once opened stays open. A plain C user of the public
 * headers; it reports and judges nothing.
 *
 *   probe                probes device 0
 *   probe INDEX          another device
 *   threads              16 threads probe at once, each for the first time
 *   retry VALUE          probes, sets MOIETY_DRIVER=VALUE, probes again
 *   after FILE           loads FILE as another library would, then probes
 *   left-open NAME       probes, then tells whether NAME is still loaded
 *   fork                 probes; a child of it probes
 *   fork-first           a child probes, then the parent
 *   no-wipe-fork         as fork, on a kernel without MADV_WIPEONFORK
 */
#define _GNU_SOURCE
#include <moiety/moiety.h>
#include <moiety/probe.h>

#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREAD_COUNT 16

static moiety_status probe(int device, moiety_caps *out)
{
    out->struct_size = sizeof(*out);
    return moiety_probe(device, out);
}

static void print_probe(int device)
{
    moiety_caps caps;
    moiety_driver_error error = {.struct_size = sizeof(error)};
    moiety_status status = probe(device, &caps);
    printf("status=%s\n", moiety_status_name(status));
    if (status != MOIETY_OK) {
        printf("message=%s\n", moiety_last_error_message());
        if (moiety_last_driver_error(&error) == MOIETY_OK && error.code)
            printf("native=%s %d %s\n", error.entry, error.code, error.name);
        return;
    }
    printf("is_standin=%u\nversion=%d\npath=%s\nfeatures=%#llx\n",
           caps.is_standin, caps.driver_version, caps.library_path,
           (unsigned long long)caps.features);
}

/* `start` is crossed by all threads together. */
struct racer {
    pthread_t thread;
    pthread_barrier_t *start;
    moiety_status status;
    const char *library_path;
};

static void *race(void *argument)
{
    struct racer *racer = argument;
    moiety_caps caps;
    pthread_barrier_wait(racer->start);
    racer->status = probe(0, &caps);
    racer->library_path = racer->status == MOIETY_OK ? caps.library_path : NULL;
    return NULL;
}

static void run_threads(void)
{
    pthread_barrier_t start;
    struct racer racers[THREAD_COUNT];
    pthread_barrier_init(&start, NULL, THREAD_COUNT);
    for (int i = 0; i < THREAD_COUNT; i++) {
        racers[i] = (struct racer){.start = &start};
        if (pthread_create(&racers[i].thread, NULL, race, &racers[i]) != 0)
            abort();
    }
    int ok_count = 0, same_count = 0;
    for (int i = 0; i < THREAD_COUNT; i++) {
        pthread_join(racers[i].thread, NULL);
        ok_count += racers[i].status == MOIETY_OK;
        /* One table has one path string: the addresses are compared. */
        same_count += racers[i].library_path == racers[0].library_path;
    }
    printf("threads=%d ok=%d same=%d\n", THREAD_COUNT, ok_count, same_count);
    pthread_barrier_destroy(&start);
}

static void in_child(void (*body)(int), int argument)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        body(argument);
        fflush(stdout);
        _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        printf("child=%d\n", status);
}

/* From now on the kernel knows no MADV_WIPEONFORK. False if it will not let
 * itself be filtered. */
static bool refuse_wipe_on_fork(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                 offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_WIPEONFORK, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {
        .len = sizeof(code) / sizeof(code[0]),
        .filter = code,
    };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void load_as_another_would(const char *file)
{
    if (!dlopen(file, RTLD_NOW | RTLD_LOCAL))
        printf("dlopen=%s\n", dlerror());
}

static int run(const char *command, const char *argument)
{
    if (strcmp(command, "probe") == 0) {
        print_probe(argument ? atoi(argument) : 0);
    } else if (strcmp(command, "threads") == 0) {
        run_threads();
    } else if (strcmp(command, "retry") == 0 && argument) {
        print_probe(0);
        setenv("MOIETY_DRIVER", argument, 1);
        print_probe(0);
    } else if (strcmp(command, "after") == 0 && argument) {
        load_as_another_would(argument);
        print_probe(0);
    } else if (strcmp(command, "left-open") == 0 && argument) {
        print_probe(0);
        void *handle = dlopen(argument, RTLD_NOW | RTLD_NOLOAD);
        printf("loaded=%d\n", handle != NULL);
    } else if (strcmp(command, "fork") == 0) {
        print_probe(0);
        in_child(print_probe, 0);
    } else if (strcmp(command, "fork-first") == 0) {
        in_child(print_probe, 0);
        print_probe(0);
    } else if (strcmp(command, "no-wipe-fork") == 0) {
        printf("filtered=%d\n", refuse_wipe_on_fork());
        print_probe(0);
        in_child(print_probe, 0);
    } else {
        fprintf(stderr, "door_program: unknown command %s\n", command);
        return 2;
    }
    return 0;
}

int main(int argc, char **argv)
{
    return run(argc > 1 ? argv[1] : "probe", argc > 2 ? argv[2] : NULL);
}
